"""A user whose keys are rotated, destroyed and made anew never reads what is not theirs."""

import asyncio
from typing import Final

from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from gcp_adk_store import ErasureReceipt, KeyDestroyedError, PayloadMissingError, Store
from gcp_adk_store.testing.simulation import Fate, Faults, Service, World, simulate
from tests.simulation.events import said
from tests.simulation.fleet import LIMITS, Actor, Fleet, key
from tests.simulation.journal import Call, Journal, Outcome
from tests.simulation.keys import NEW, OLD, envelope_of, of_process
from tests.simulation.raw import documents_below
from tests.support.lengths import at_length

USERS: Final = ("erased", "kept")
DAMAGE: Final = ("StoredDataError", "PayloadMissingError")


async def act(actor: Actor, step: int) -> None:
    """Write a session of a user, read all of a user, rotate the keys, or erase one user."""
    random, store = actor.random(step), actor.store
    user, name = random.choice(USERS), f"{actor.name}-{step}"
    await asyncio.sleep(random.choice([0, 0, 30, 90]))
    match random.choice(["write", "write", "write", "write", "read", "rotate", "erase"]):
        case "write":
            await actor.call("write", user, lambda: write(store, user, name), given=name)
        case "read":
            await actor.call("read", user, lambda: names_of(store, user))
        case "rotate":
            await actor.call("rotate", "", store.rotate_keys, seen=lambda report: report.failed)
        case _:
            await actor.call("erase", "erased", lambda: erase(store))


async def write(store: Store, user: str, name: str) -> bool:
    """Make a session with one event, of which some is in a payload, a memory, and a file of each scope."""
    session = await store.sessions.create_session(**key(name, user), state={"large": name * 99})
    content = said(name * 200)
    await store.sessions.append_event(session, Event(id=name, author="user", content=content))
    memory = MemoryEntry(id=name, content=content)
    await store.memory.add_memory(app_name="app", user_id=user, memories=[memory])
    for filename in (name, f"user:{name}"):
        part = types.Part.from_text(text=name)
        await store.artifacts.save_artifact(**key("files", user), filename=filename, artifact=part)
    return True


async def names_of(store: Store, user: str) -> dict[str, set[str]]:
    """Return the names of what a user has by its kind; each session, memory and file is read whole."""
    sessions: set[str] = set()
    for one in (await store.sessions.list_sessions(app_name="app", user_id=user)).sessions:
        whole = await store.sessions.get_session(**key(one.id, user))
        if whole is not None:
            assert whole.state["large"] == one.id * 99, "a session has the content of another one"
            sessions.add(one.id)
    memories: set[str] = set()
    for memory in (await store.memory.list_memories(app_name="app", user_id=user, page_size=1000)).memories:
        assert memory.content.parts == [types.Part(text=f"{memory.id}" * 200)], "a memory is another one's"
        memories.add(f"{memory.id}")
    files: dict[str, set[str]] = {"file": set(), "file of the user": set()}
    for filename in await store.artifacts.list_artifact_keys(**key("files", user)):
        part = await store.artifacts.load_artifact(**key("files", user), filename=filename)
        name = filename.removeprefix("user:")
        if part is not None:
            assert part.text == name, "a file has the content of another one"
            files["file" if name == filename else "file of the user"].add(name)
    return {"session": sessions, "memory": memories, **files}


async def erase(store: Store) -> ErasureReceipt:
    """Erase one user."""
    return await store.erase_user(app_name="app", user_id="erased")


def check_user(world: World, journal: Journal, user: str, stored: dict[str, set[str]]) -> None:
    """Check that what was acknowledged is there unless an erasure began after it, or beside it.

    A request that comes late, or again, after an erasure makes its object anew: Cloud Storage cannot know it.
    """
    erasures = [call for call in journal.of("erase", user) if call.outcome is not Outcome.REFUSED]
    for call in journal.of("write", user):
        if call.outcome is not Outcome.DONE:
            continue
        gone = [one for one in erasures if one.ended > call.begun or one.outcome is Outcome.UNKNOWN]
        over = [one for one in erasures if one.outcome is Outcome.DONE and call.ended < one.begun]
        for kind, names in stored.items():
            assert gone or call.given in names, f"the {kind} {call.given} was acknowledged, and is lost"
            is_anew = kind.startswith("file") and comes_late(world, call)
            assert is_anew or not (over and call.given in names), (
                f"the {kind} {call.given} was erased, and is read"
            )


def comes_late(world: World, write: Call) -> bool:
    """Return whether an object of a write may be made when the write is over."""
    made = f"{write.process}: create object app/{write.of}/"
    lines = (line.strip().partition(" ") for line in world.trace)
    return any(
        write.begun <= float(time) <= write.ended
        for time, _, happened in lines
        if happened.startswith(made) and happened.endswith((f"- {Fate.LATE}", f"- {Fate.TWICE}"))
    )


async def names_of_erased(service: Service, journal: Journal, store: Store) -> dict[str, set[str]]:
    """Return the names of what the erased user has, after one more erasure if a write came too late.

    A commit that arrives after the erasure, under the key that it destroyed, makes a session that nobody can
    read (docs/encryption.md). Nothing older than the erasure is left, and a second erasure removes it. One
    whose end is unknown may have destroyed the key, or removed the payloads of a session that was made beside
    it, and left anything.
    """
    erasures = list(journal.of("erase", "erased"))
    is_unknown = any(call.outcome is Outcome.UNKNOWN for call in erasures)
    expected = (KeyDestroyedError, PayloadMissingError) if is_unknown else (KeyDestroyedError,)
    try:
        return await names_of(store, "erased")
    except expected:
        receipts = [call.result for call in erasures if call.outcome is Outcome.DONE]
        empty_at = max((receipt.empty_at for receipt in receipts), default=0.0)
        for document in await documents_below(service, "adk_apps/app/adk_users/erased"):
            assert float(document.update_time) > empty_at, f"{document.path} is older than the erasure"
        await erase(store)
        return await names_of(store, "erased")


async def scenario(world: World) -> None:
    """A fleet writes with either key as the newest, and erases one user again and again."""
    fleet = Fleet(world, of_process=of_process, session_limits=LIMITS)
    await fleet.work(30, act, rest_s=300)
    journal = fleet.journal
    plain, new = (
        fleet.service.beside(session_limits=LIMITS, encryption=envelope_of(*keys, cache_s=3.0))
        for keys in ((NEW, OLD), (NEW,))
    )
    assert (await plain.rotate_keys()).failed == 0
    check_user(world, journal, "kept", await names_of(new, "kept"))
    check_user(world, journal, "erased", await names_of_erased(fleet.service, journal, new))
    for call in journal.calls:
        is_beside = call.of == "erased"
        assert is_beside or call.error not in (*DAMAGE, "KeyDestroyedError"), f"{call.kind}: {call.error}"
    assert all(call.result in (None, 0) for call in journal.of("rotate"))


def test_destroyed_and_rotated_keys_take_only_what_was_erased() -> None:
    """Another user reads everything, and the erased one what was written since."""
    simulate(scenario, seeds=range(at_length(2, 8)), faults=Faults.all(0.03))
