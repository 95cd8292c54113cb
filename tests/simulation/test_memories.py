"""Memories keep their promises while several processes add, change and delete them."""

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pytest
from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai import types

from gcp_adk_store import Store
from gcp_adk_store.testing.simulation import Faults, Process, Service, World, simulate
from tests.simulation.checkers import certain_end, check_register
from tests.simulation.fleet import Actor, Fleet
from tests.simulation.journal import Call, Journal, Outcome
from tests.simulation.raw import require_whole
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


def said(name: str, size: int = 1) -> types.Content:
    """Return content that repeats a name; each has the word ``memory``."""
    return types.Content(role="user", parts=[types.Part(text=f"memory {name} " + f"{name} " * size)])


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
        entry = MemoryEntry(id=name, content=said(name, size))
        await journal.call(
            actor.name, "add", "user", lambda: memory.add_memory(**KEY, memories=[entry]), given=[name]
        )
    elif action == "session":
        ids = [f"{session}-{number}" for number in range(number + 1)]
        events = [
            Event(id=each, author="user", timestamp=1.0 + place, content=said(each, 40 * place))
            for place, each in enumerate(ids)
        ]
        added = Session(id=session, events=events, **KEY)
        await journal.call(actor.name, "add", "user", lambda: memory.add_session_to_memory(added), given=ids)
    elif action in ("content", "metadata"):
        change: dict[str, Any] = (
            {"content": said(name, size)} if action == "content" else {"custom_metadata": {"note": name}}
        )
        await journal.call(
            actor.name, action, one,
            lambda: memory.update_memory(**KEY, memory_id=one, **change), given=name,
        )  # fmt: skip
    elif action == "delete":
        await journal.call(
            actor.name, "delete", "user", lambda: memory.delete_memory(**KEY, memory_id=one), given=one
        )
    elif action == "search":
        await journal.call(
            actor.name, "read", "user",
            lambda: memory.search_memories(**KEY, query="memory", limit=MANY),
            seen=lambda found: read_of(each.memory for each in found),
        )  # fmt: skip
    else:
        await journal.call(
            actor.name, "read", "user", lambda: memory.list_memories(**KEY, page_size=MANY),
            seen=lambda page: read_of(page.memories),
        )  # fmt: skip


async def extract(actor: Actor, name: str, number: int) -> None:
    """Remember one fact of all sources up to a number that nobody has taken in; its name says of which."""
    memory = actor.store.memory
    events = [Event(id=f"source {each}", author="user") for each in range(number + 1)]

    async def work() -> None:
        while new := await memory.select_new_events(**KEY, events=events):
            numbers = "-".join(event.id.split()[1] for event in new)
            fact = MemoryEntry(id=f"fact/{name}/{numbers}", content=said(f"fact/{name}/{numbers}"))
            if await memory.add_extracted(**KEY, session_id="facts", events=new, memories=[fact]):
                return

    await actor.journal.call(actor.name, "extract", "user", work, given=number)


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
            values = [
                Call(
                    read.process,
                    kind,
                    one,
                    read.begun,
                    None,
                    read.ended,
                    read.outcome,
                    read.result[one][place],
                )
                for read in seen
            ]
            check_register(first, [call for call in writes if call is not None], values)


def _applied(call: Call) -> Call | None:
    """Return an update as a write; one that found no memory may have changed it before it went."""
    if call.outcome is Outcome.DONE and not call.result:
        return Call(call.process, call.kind, call.of, call.begun, call.given)
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
    for _ in range(2):
        await journal.call(
            "plain", "read", "user", lambda: plain.memory.list_memories(**KEY, page_size=MANY),
            seen=lambda page: read_of(page.memories),
        )  # fmt: skip
        await journal.call(
            "plain", "read", "user",
            lambda: plain.memory.search_memories(**KEY, query="memory", limit=MANY),
            seen=lambda found: read_of(each.memory for each in found),
        )  # fmt: skip
    require_whole(journal)
    check_facts(journal)
    check_memories(journal)
    assert [fault async for fault in plain.check(older_than_s=10**9, full=True)] == []


def workload(*, has_vectors: bool, pause_s: float = 1.0) -> Any:
    """Return the scenario of a fleet of which some processes have an embedder, or none has.

    With short pauses, more calls meet at each moment.
    """

    async def scenario(world: World) -> None:
        service = Service(world)
        embedder = Hashes() if has_vectors else None
        plain = service.beside(embedder=embedder)

        def make(process: Process) -> Store:
            return service.store_of(process, embedder=None if process.name.endswith("3") else embedder)

        fleet = Fleet(world, service, make, pause_s=pause_s)
        await fleet.work(40, act)
        await asyncio.sleep(300)  # what is late arrives
        if has_vectors:
            await plain.memory.reindex_memories(**KEY)
        await check(fleet.journal, plain)
        if has_vectors:
            left = await plain.memory.reindex_memories(**KEY, dry_run=True)
            assert left.missing == 0, f"{left.missing} memories have no vector"

    return scenario


@pytest.mark.parametrize("has_vectors", [False, True])
def test_memories_are_what_was_added_changed_and_not_deleted(*, has_vectors: bool) -> None:
    """No acknowledged memory or change is lost, and what is deleted does not come back."""
    simulate(workload(has_vectors=has_vectors), seeds=range(at_length(3, 12)), faults=Faults.all(0.04))


async def remember_or_forget(actor: Actor, step: int) -> None:
    """Add a session that has grown, forget its user, or list."""
    random, memory, journal = actor.random(step), actor.store.memory, actor.journal
    match random.choice(["add", "add", "add", "forget", "list", "list"]):
        case "add":
            ids = [f"one-{number}" for number in range(random.randint(1, EVENTS))]
            events = [Event(id=each, author="user", timestamp=1.0, content=said(each, 40)) for each in ids]
            added = Session(id="one", events=events, **KEY)
            await journal.call(
                actor.name, "add", "user", lambda: memory.add_session_to_memory(added), given=ids
            )
        case "forget":
            await journal.call(actor.name, "forget", "user", lambda: memory.delete_user_memory(**KEY))
        case _:
            await journal.call(
                actor.name, "read", "user", lambda: memory.list_memories(**KEY, page_size=MANY),
                seen=lambda page: read_of(page.memories),
            )  # fmt: skip


async def forgetting(world: World) -> None:
    """A fleet adds a session again and again, and forgets its user."""
    service = Service(world)
    fleet = Fleet(world, service, service.store_of)
    await fleet.work(30, remember_or_forget)
    await asyncio.sleep(300)
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
    scenario = workload(has_vectors=False, pause_s=0.1)
    simulate(scenario, seeds=[402], faults=Faults.all(0.02))
