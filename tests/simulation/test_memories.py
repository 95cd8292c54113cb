"""Memories keep their promises while several processes add, change and delete them."""

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest
from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai import types

from gcp_adk_store import Store
from gcp_adk_store.testing.simulation import Faults, Process, World, simulate
from tests.simulation.checkers import certain_end, check_register
from tests.simulation.events import said
from tests.simulation.fleet import Actor, Fleet
from tests.simulation.journal import Call, Journal, Outcome
from tests.simulation.raw import require_sound, require_whole
from tests.support.lengths import at_length

KEY: Final[dict[str, Any]] = {"app_name": "app", "user_id": "user"}
SESSIONS: Final = ("one", "two")
EVENTS: Final = 8
"""Of each session."""
MANY: Final = 1_000


class Hashes:
    """Makes vectors of what texts are, and nothing of what they mean."""

    name = "hashes"
    dimensions = 16

    async def embed(self, texts: Sequence[str], kind: str) -> list[list[float]]:
        """Return the bytes of a digest of each text."""
        del kind
        await asyncio.sleep(0.01)
        return [[byte - 127.5 for byte in hashlib.sha256(text.encode()).digest()[:16]] for text in texts]


def spoken(name: str, size: int = 1) -> types.Content:
    """Return content that repeats a name; each has the word ``memory``."""
    return said(f"memory {name} " + f"{name} " * size)


def read_of(entries: Iterable[MemoryEntry]) -> dict[str, tuple[str, str]]:
    """Return the name in the content and that in the metadata of each memory, by its id."""
    found: dict[str, tuple[str, str]] = {}
    for entry in entries:
        assert entry.id is not None
        assert entry.id not in found, f"{entry.id} is there twice"
        assert entry.content.parts is not None
        _, name, *others = (entry.content.parts[0].text or "").split()
        assert {name, *others} == {name}, "two contents are mixed"
        found[entry.id] = (name, entry.custom_metadata.get("note", ""))
    return found


async def act(actor: Actor, step: int) -> None:
    """Add, change, delete, search or list."""
    random = actor.random(step)
    name = f"{actor.name}-{step}"
    memory, journal = actor.store.memory, actor.journal
    session = random.choice(SESSIONS)
    number = random.randrange(EVENTS)
    one = f"{session}-{random.choice([0, 0, number])}"
    size = random.choice([1, 1, 300, 6_000])  # the largest is a payload
    action = random.choice(
        ["add", "session", "session", "content", "metadata", "delete", "search", "list", "extract", "extract"]
    )
    if action == "extract":
        await extract(actor, name, number)
    elif action == "add":
        entry = MemoryEntry(id=name, content=spoken(name, size))
        await actor.call("add", "user", lambda: memory.add_memory(**KEY, memories=[entry]), given=[name])
    elif action == "session":
        ids = [f"{session}-{number}" for number in range(number + 1)]
        events = [
            Event(id=each, author="user", timestamp=1.0 + place, content=spoken(each, 40 * place))
            for place, each in enumerate(ids)
        ]
        added = Session(id=session, events=events, **KEY)
        await actor.call("add", "user", lambda: memory.add_session_to_memory(added), given=ids)
    elif action in ("content", "metadata"):
        change: dict[str, Any] = (
            {"content": spoken(name, size)} if action == "content" else {"custom_metadata": {"note": name}}
        )
        await actor.call(
            action, one, lambda: memory.update_memory(**KEY, memory_id=one, **change), given=name
        )
    elif action == "delete":
        await actor.call("delete", "user", lambda: memory.delete_memory(**KEY, memory_id=one), given=one)
    else:
        await read_all(journal, actor.name, actor.store, action)


async def read_all(journal: Journal, who: str, store: Store, how: str) -> None:
    """Search or list all memories; keep what each has, by its id."""

    async def work() -> dict[str, tuple[str, str]]:
        if how == "search":
            found = await store.memory.search_memories(**KEY, query="memory", limit=MANY)
            return read_of(each.memory for each in found)
        return read_of((await store.memory.list_memories(**KEY, page_size=MANY)).memories)

    await journal.call(who, "read", "user", work)


async def extract(actor: Actor, name: str, number: int) -> None:
    """Remember one fact of all sources up to a number that nobody has taken in; its name says of which."""
    memory = actor.store.memory
    events = [Event(id=f"source {each}", author="user") for each in range(number + 1)]

    async def work() -> None:
        while new := await memory.select_new_events(**KEY, events=events):
            numbers = "-".join(event.id.split()[1] for event in new)
            fact = MemoryEntry(id=f"fact/{name}/{numbers}", content=spoken(f"fact/{name}/{numbers}"))
            if await memory.add_extracted(**KEY, session_id="facts", events=new, memories=[fact]):
                return

    await actor.call("extract", "user", work, given=number)


def check_facts(journal: Journal) -> None:
    """Check that each source counts once in every read, and after each extraction of it."""
    for read in journal.of("read"):
        if read.outcome is not Outcome.DONE:
            continue
        facts = {one for one in read.result if one.startswith("fact/")}
        sources = [source for fact in facts for source in fact.split("/")[2].split("-")]
        assert len(sources) == len({*sources}), f"a source counts twice: {sorted(facts)}"
        for call in journal.of("extract"):
            if call.outcome is Outcome.DONE and call.ended < read.begun:
                missed = {str(number) for number in range(call.given + 1)} - {*sources}
                assert not missed, f"the sources {missed} are lost"
        read.result = {one: value for one, value in read.result.items() if one not in facts}


def check_memories(journal: Journal) -> None:
    """Check every memory in every read; the last of them comes after all else."""
    reads = [call for call in journal.of("read") if call.outcome is Outcome.DONE]
    adds: dict[str, list[Call]] = defaultdict(list)
    deletes: dict[str, list[Call]] = defaultdict(list)
    for call in journal.of("add"):
        for one in call.given:
            adds[one].append(call)
    for call in journal.of("delete"):
        deletes[call.given].append(call)
    for read in reads:
        assert {*read.result} <= {*adds}, "a memory is there that nobody added"
    for one, of_one in adds.items():
        _check_presence(one, of_one, deletes[one], reads)
        seen = [read for read in reads if one in read.result]
        for place, kind in enumerate(("content", "metadata")):
            first = one if kind == "content" else ""
            writes = [_applied(call) for call in journal.of(kind, one)]
            values = [replace(read, kind=kind, of=one, result=read.result[one][place]) for read in seen]
            check_register(first, [call for call in writes if call is not None], values)


def _applied(call: Call) -> Call | None:
    """Return an update as a write; one that found no memory may have changed it before it went."""
    if call.outcome is Outcome.DONE and not call.result:
        return replace(call, outcome=Outcome.UNKNOWN, ended=float("inf"), result=None)
    return call


def _check_presence(one: str, adds: Sequence[Call], deletes: Sequence[Call], reads: Sequence[Call]) -> None:
    is_refused = all(call.outcome is Outcome.REFUSED for call in adds)
    added_by = min((call.ended for call in adds if call.outcome is Outcome.DONE), default=float("inf"))
    gone_by = min(
        (call.ended for call in deletes if call.outcome is Outcome.DONE and added_by < call.begun),
        default=float("inf"),
    )
    may_go_at = min(
        (call.begun for call in deletes if call.outcome is not Outcome.REFUSED), default=float("inf")
    )
    for read in reads:
        if one in read.result:
            assert not is_refused, f"{one} was refused, and is there"
            assert read.begun <= gone_by, f"{one} was deleted at {gone_by:.3f}, and read at {read.begun:.3f}"
            assert min(call.begun for call in adds) <= read.ended, "a read saw the future"
        else:
            is_expected = added_by < read.begun and read.ended < may_go_at
            assert not is_expected, f"a read at {read.begun:.3f} missed {one}, added at {added_by:.3f}"


async def check(journal: Journal, plain: Store) -> None:
    """Read all memories in both ways, and check what is in every read."""
    for how in ("list", "search", "list", "search"):
        await read_all(journal, "plain", plain, how)
    require_whole(journal)
    check_facts(journal)
    check_memories(journal)
    await require_sound(plain)


async def scenario(world: World, *, has_vectors: bool, pause_s: float = 1.0) -> None:
    """A fleet of which some processes have an embedder, or none has; more calls meet with short pauses."""
    embedder = Hashes() if has_vectors else None

    def of_process(process: Process) -> dict[str, Any]:
        return {"embedder": None if process.name.endswith("3") else embedder}

    fleet = Fleet(world, pause_s=pause_s, of_process=of_process)
    await fleet.work(40, act, rest_s=300)
    plain = fleet.service.beside(embedder=embedder)
    if has_vectors:
        await plain.memory.reindex_memories(**KEY)
    await check(fleet.journal, plain)
    if has_vectors:
        left = await plain.memory.reindex_memories(**KEY, dry_run=True)
        assert left.missing == 0, f"{left.missing} memories have no vector"


@pytest.mark.parametrize("has_vectors", [False, True])
def test_memories_are_what_was_added_changed_and_not_deleted(*, has_vectors: bool) -> None:
    """No acknowledged memory or change is lost, and what is deleted does not come back."""
    simulate(
        partial(scenario, has_vectors=has_vectors), seeds=range(at_length(3, 12)), faults=Faults.all(0.04)
    )


async def remember_or_forget(actor: Actor, step: int) -> None:
    """Add a session that has grown, forget its user, or list."""
    random, memory = actor.random(step), actor.store.memory
    match random.choice(["add", "add", "add", "forget", "list", "list"]):
        case "add":
            ids = [f"one-{number}" for number in range(random.randint(1, EVENTS))]
            events = [Event(id=each, author="user", timestamp=1.0, content=spoken(each, 40)) for each in ids]
            added = Session(id="one", events=events, **KEY)
            await actor.call("add", "user", lambda: memory.add_session_to_memory(added), given=ids)
        case "forget":
            await actor.call("forget", "user", lambda: memory.delete_user_memory(**KEY))
        case _:
            await read_all(actor.journal, actor.name, actor.store, "list")


async def forgetting(world: World) -> None:
    """A fleet adds a session again and again, and forgets its user."""
    fleet = Fleet(world)
    await fleet.work(30, remember_or_forget, rest_s=300)
    journal = fleet.journal
    require_whole(journal)
    forgets = [call for call in journal.of("forget") if call.outcome is not Outcome.REFUSED]
    for read in journal.of("read"):
        if read.outcome is not Outcome.DONE:
            continue
        for call in journal.of("add"):
            is_before = call.outcome is Outcome.DONE and call.ended < read.begun
            if is_before and not any(
                one.begun < read.ended and call.begun < certain_end(one) for one in forgets
            ):
                missed = {*call.given} - {*read.result}
                assert not missed, f"a read at {read.begun:.3f} missed {missed}, added at {call.begun:.3f}"


def test_a_session_is_remembered_whole_whoever_forgot_its_user() -> None:
    """Also by a process that knew it to be there."""
    simulate(forgetting, seeds=range(at_length(3, 12)), faults=Faults.all(0.04))


def test_an_update_that_others_overtook_without_an_answer_is_not_called_refused() -> None:
    """Its commit was done, and then another process changed the memory before the next look."""
    simulate(partial(scenario, has_vectors=False, pause_s=0.1), seeds=[402], faults=Faults.all(0.02))
