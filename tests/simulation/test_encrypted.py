"""An encrypted store keeps its promises while its keys are made and rotated by several processes."""

from functools import partial
from typing import Any, Final

from google.adk.events import Event
from google.genai import types

from gcp_adk_store import SessionLimits, Store
from gcp_adk_store.testing.simulation import Faults, Service, World, simulate
from tests.simulation import fleet
from tests.simulation.checkers import check_list
from tests.simulation.events import ids_of, said
from tests.simulation.fleet import Actor, Fleet
from tests.simulation.journal import Journal, Outcome
from tests.simulation.keys import NEW, OLD, envelope_of, of_process
from tests.support.lengths import at_length

USERS: Final = ("ann", "bob", "cat")
"""Each has a data key, which the first processes that write make at the same time."""
LIMITS: Final = SessionLimits(seal_tail_bytes=1_000, inline_bytes=300)
MARK: Final = "private"
COLLECTIONS: Final = ("adk_apps", "adk_users", "adk_sessions", "adk_segments", "adk_chunks")


def key(user: str) -> dict[str, Any]:
    """Return the ids of a user's session."""
    return fleet.key("session", user)


async def act(actor: Actor, step: int) -> None:
    """Read or append, save or load an artifact, or rotate the keys."""
    random = actor.random(step)
    user, name = random.choice(USERS), f"{actor.name}-{step}"
    store = actor.store
    action = random.choice(["read", "append", "append", "append", "save", "load", "rotate"])
    text = f"{MARK} {name} " * random.choice([1, 30])
    held = actor.memory.get(user)
    if action == "rotate":
        await actor.call("rotate", "all", store.rotate_keys)
        return
    if action == "save":
        part = types.Part.from_bytes(data=text.encode(), mime_type="text/plain")
        save = partial(store.artifacts.save_artifact, **key(user), filename="file", artifact=part)
        await actor.call("save", user, save, given=text)
        return
    if action == "load":
        load = partial(store.artifacts.load_artifact, **key(user), filename="file")
        await actor.call("load", user, load, seen=bytes_of)
        return
    if held is None:
        await actor.call("create", user, lambda: store.sessions.create_session(**key(user)))
    if held is None or action == "read":
        held = await actor.call("read", user, lambda: store.sessions.get_session(**key(user)), seen=ids_of)
    if held is not None and action == "append":
        event = Event(id=name, author="user", content=said(text))
        held = held if await actor.append(held, event, of=user, seen=bool) else None
    actor.memory[user] = held


def bytes_of(part: types.Part | None) -> str | None:
    """Return the content of a text file."""
    if part is None:
        return None
    assert part.inline_data is not None
    assert part.inline_data.data is not None
    return part.inline_data.data.decode()


async def scenario(world: World) -> None:
    """Let a fleet write with either key as the newest, then read everything with the new one alone."""
    fleet = Fleet(
        world, of_process=partial(of_process, artifacts=True), session_limits=LIMITS, on_conflict="merge"
    )
    await fleet.work(40, act, rest_s=300)
    journal = fleet.journal
    for call in journal.calls:
        assert call.error not in ("StoredDataError", "KeyDestroyedError", "PayloadMissingError"), (
            f"{call.kind} of {call.process} found damage: {call.error}"
        )
    for call in journal.of("rotate"):
        assert call.outcome is not Outcome.DONE or call.result.failed == 0
    store, new = (
        fleet.service.beside(session_limits=LIMITS, encryption=envelope_of(*keys, artifacts=True))
        for keys in ((NEW, OLD), (NEW,))
    )
    assert (await store.rotate_keys()).failed == 0
    assert (await new.rotate_keys()).rewrapped == 0
    for user in USERS:
        await _check_user(new, journal, user)
    await _require_secret(fleet.service)


async def _check_user(plain: Store, journal: Journal, user: str) -> None:
    """Check the events and the versions of a user."""
    found = await plain.sessions.get_session(**key(user))
    events = [] if found is None else found.events
    check_list([event.id for event in events], journal.of("append", user), journal.of("read", user))
    for event in events:
        assert event.content is not None
        assert event.content.parts is not None
        assert event.id in str(event.content.parts[0].text), "an event has the content of another"
    saves = {call.given: call for call in journal.of("save", user)}
    stored = {
        version: bytes_of(await plain.artifacts.load_artifact(**key(user), filename="file", version=version))
        for version in await plain.artifacts.list_versions(**key(user), filename="file")
    }
    assert len({*stored.values()}) == len(stored), "a save is stored twice"
    for call in saves.values():
        if call.outcome is Outcome.DONE:
            assert stored[call.result] == call.given, "a version has other bytes"
        if call.outcome is Outcome.REFUSED:
            assert call.given not in stored.values(), f"a save was refused with {call.error}, and is stored"
    for load in journal.of("load", user):
        assert load.result is None or load.result in saves


async def _require_secret(service: Service) -> None:
    """Require that neither documents nor objects have what users wrote."""
    for collection in COLLECTIONS:
        for document in await service.backend.documents.query("", collection, all_descendants=True):
            assert MARK not in repr(document.fields), f"{document.path} is not encrypted"
    async for page in service.backend.objects.scan(""):
        for each in page:
            read = await service.backend.objects.read(each.name, generation=None)
            assert read is not None
            assert MARK.encode() not in read[0], f"{each.name} is not encrypted"


def test_an_encrypted_store_reads_everything_whoever_made_and_rotated_its_keys() -> None:
    """Each process has caches of its own; no data key is lost, and nothing is stored as it is."""
    simulate(scenario, seeds=range(at_length(3, 12)), faults=Faults.all(0.04))
