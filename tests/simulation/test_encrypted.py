"""An encrypted store keeps its promises while its keys are made and rotated by several processes."""

import asyncio
import tempfile
from base64 import b64encode
from pathlib import Path
from typing import Any, Final

from google.adk.events import Event
from google.genai import types

from gcp_adk_store import KmsEnvelope, LocalKeyWrapper, SessionLimits, Store
from gcp_adk_store.testing.simulation import Faults, Process, Service, World, simulate
from tests.simulation.checkers import check_list
from tests.simulation.fleet import Actor, Fleet
from tests.simulation.journal import Journal, Outcome
from tests.support.lengths import at_length

USERS: Final = ("ann", "bob", "cat")
"""Each has a data key, which the first processes that write make at the same time."""
OLD: Final = b"o" * 32
NEW: Final = b"n" * 32
LIMITS: Final = SessionLimits(seal_tail_bytes=1_000, inline_bytes=300)
MARK: Final = "private"
COLLECTIONS: Final = ("adk_apps", "adk_users", "adk_sessions", "adk_segments", "adk_chunks")


def envelope_of(*keys: bytes) -> KmsEnvelope:
    """Return the encryption by a file with *keys*, the newest first, whose data keys are often read again."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "keys")
        file.write_bytes(b"\n".join(b64encode(key) for key in keys))
        wrapper = LocalKeyWrapper.at(file)
    return KmsEnvelope(key=wrapper, cache_s=3.0, artifacts=True)


def key(user: str) -> dict[str, Any]:
    """Return the ids of a user's session."""
    return {"app_name": "app", "user_id": user, "session_id": "session"}


async def act(actor: Actor, step: int) -> None:
    """Read or append, save or load an artifact, or rotate the keys."""
    random = actor.random(step)
    user, name = random.choice(USERS), f"{actor.name}-{step}"
    store, journal = actor.store, actor.journal
    action = random.choice(["read", "append", "append", "append", "save", "load", "rotate"])
    text = f"{MARK} {name} " * random.choice([1, 30])
    held = actor.memory.get(user)
    if action == "rotate":
        await journal.call(actor.name, "rotate", "all", store.rotate_keys)
        return
    if action == "save":
        part = types.Part.from_bytes(data=text.encode(), mime_type="text/plain")
        await journal.call(
            actor.name, "save", user,
            lambda: store.artifacts.save_artifact(**key(user), filename="file", artifact=part), given=text,
        )  # fmt: skip
        return
    if action == "load":
        await journal.call(
            actor.name, "load", user,
            lambda: store.artifacts.load_artifact(**key(user), filename="file"), seen=bytes_of,
        )  # fmt: skip
        return
    if held is None:
        await journal.call(actor.name, "create", user, lambda: store.sessions.create_session(**key(user)))
    if held is None or action == "read":
        held = await journal.call(
            actor.name, "read", user, lambda: store.sessions.get_session(**key(user)),
            seen=lambda found: None if found is None else [event.id for event in found.events],
        )  # fmt: skip
    if held is not None and action == "append":
        content = types.Content(role="user", parts=[types.Part(text=text)])
        session, event = held, Event(id=name, author="user", content=content)
        done = await journal.call(
            actor.name, "append", user, lambda: store.sessions.append_event(session, event), given=name
        )
        held = None if done is None else held
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
    service = Service(world)

    def open_(*keys: bytes) -> dict[str, Any]:
        return {"session_limits": LIMITS, "encryption": envelope_of(*keys), "on_conflict": "merge"}

    def make(process: Process) -> Store:
        keys = (OLD, NEW) if process.name.endswith("2") else (NEW, OLD)
        return service.store_of(process, **open_(*keys))

    fleet = Fleet(world, service, make)
    await fleet.work(40, act)
    await asyncio.sleep(300)  # what is late arrives
    journal = fleet.journal
    for call in journal.calls:
        assert call.error not in ("StoredDataError", "KeyDestroyedError", "PayloadMissingError"), (
            f"{call.kind} of {call.process} found damage: {call.error}"
        )
    for call in journal.of("rotate"):
        assert call.outcome is not Outcome.DONE or call.result.failed == 0
    report = await service.beside(**open_(NEW, OLD)).rotate_keys()
    assert report.failed == 0
    plain = service.beside(**open_(NEW))
    assert (await plain.rotate_keys()).rewrapped == 0
    for user in USERS:
        await _check_user(plain, journal, user)
    await _require_secret(service)


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
