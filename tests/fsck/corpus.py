"""Stored sessions of every shape, on a local store in memory."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from google.adk.events import Event, EventActions
from google.genai import types

from gcp_adk_store import ArtifactLimits, Fault, Point, SessionLimits, SessionService
from gcp_adk_store.codec.documents import Deletion
from gcp_adk_store.codec.stored import read_session
from gcp_adk_store.local.backend import open_backend
from gcp_adk_store.model.artifacts import ArtifactsAt
from gcp_adk_store.model.payloads import PayloadPlace
from gcp_adk_store.model.session_fields import runs_of
from gcp_adk_store.sessions.lifecycle.format import note_write
from gcp_adk_store.sessions.read.storage import SessionStorage
from gcp_adk_store.sessions.restore.format import pack_artifacts, restores_collection
from gcp_adk_store.turns import Turns
from tests.support.stored import overwrite
from tests.support.stores import sessions_over

WHO: Final[dict[str, Any]] = {"app_name": "shop", "user_id": "ada", "session_id": "s1"}
SEALING: Final = SessionLimits(seal_tail_bytes=700, segment_cache_bytes=0)
SPILLING: Final = replace(SEALING, inline_bytes=10, event_text_bytes=600, state_value_bytes=40)


@dataclass(frozen=True)
class Stored:
    """A store in memory, and the way to its raw documents."""

    storage: SessionStorage
    service: SessionService

    @classmethod
    def empty(
        cls, limits: SessionLimits = SEALING, *, bucket: bool = False, path: str = ":memory:"
    ) -> "Stored":
        """Return an empty store, with payloads in chunks or in a *bucket*."""
        backend = open_backend(path, limits, ArtifactLimits())
        service = sessions_over(backend.documents, backend.objects if bucket else None, limits=limits)
        return cls(service.storage, service)

    def other(self, **options: Any) -> SessionService:
        """Return another service on the same storage, as another process has it."""
        return SessionService(self.storage, **options)

    async def documents(self) -> dict[str, Any]:
        """Return all documents by their paths."""
        layout = self.storage.layout
        found = {}
        for name in (
            layout.apps_collection,
            layout.users_collection,
            layout.sessions_collection,
            layout.segments_collection,
            layout.deletions_collection,
            restores_collection(layout),
            layout.chunks_collection,
        ):
            for document in await self.storage.documents.query("", name, all_descendants=True):
                found[document.path] = document
        return found

    async def put(self, path: str, fields: dict[str, Any] | None) -> None:
        """Replace a document, or remove it."""
        await overwrite(self.storage.documents, {path: fields})

    async def faults(self, **options: Any) -> list[Fault]:
        """Return what a check finds, also of payloads that were written just now."""
        return [fault async for fault in self.service.check(**{"full": True, **options})]


def event(number: int, text: str = "hello", **delta: Any) -> Event:
    """Return an event at a time of its own."""
    part = types.Part(text=f"{text} {number}")
    return Event(
        id=f"e{number}",
        invocation_id=f"t{number}",
        author="user",
        timestamp=1000.0 + number,
        content=types.Content(role="user", parts=[part]),
        actions=EventActions(state_delta=delta),
    )


async def tail_only() -> Stored:
    """All events are in the tail."""
    stored = Stored.empty(SessionLimits())
    held = await stored.service.create_session(
        **WHO, state={"kept": "a", "changed": 1, "app:x": 1, "user:y": 2}
    )
    for number in range(3):
        await stored.service.append_event(held, event(number, changed=number, mine=[number]))
    return stored


async def no_event() -> Stored:
    """It was only created."""
    stored = Stored.empty(SessionLimits())
    await stored.service.create_session(**WHO, state={"kept": "a"})
    return stored


async def sealed() -> Stored:
    """Segments and a tail."""
    stored = Stored.empty()
    held = await stored.service.create_session(**WHO, state={"kept": "a", "changed": 1})
    for number in range(10):
        await stored.service.append_event(held, event(number, changed=number))
    return stored


async def _spilled(stored: Stored, **options: Any) -> Stored:
    held = await stored.service.create_session(**WHO, state={"kept": "a", "large": "l" * 100}, **options)
    for number in range(6):
        one = event(number, large="m" * (100 + number), **{"app:big": "a" * 90, "user:big": "u" * 90})
        if number % 2:
            assert one.content is not None
            assert one.content.parts is not None
            data = bytes([number]) * 50
            one.content.parts.append(types.Part.from_bytes(data=data, mime_type="image/png"))
        if number % 3 == 0:
            one = one.model_copy(update={"error_message": "long " * 200})
        await stored.service.append_event(held, one)
    return stored


async def in_chunks() -> Stored:
    """Payloads in chunks."""
    return await _spilled(Stored.empty(SPILLING))


async def large_initial() -> Stored:
    """The initial state is a payload."""
    stored = Stored.empty(SessionLimits())
    state = {"kept": "a" * 40_000, "changed": "b" * 40_000}
    held = await stored.service.create_session(**WHO, state=state)
    await stored.service.append_event(held, event(0, changed=1))
    return stored


async def in_bucket() -> Stored:
    """Payloads in a bucket."""
    return await _spilled(Stored.empty(SPILLING, bucket=True))


async def expiring() -> Stored:
    """With a time to live."""
    return await _spilled(Stored.empty(SPILLING), ttl_seconds=30 * 86400)


async def redacted() -> Stored:
    """Markers, and the events that report them."""
    stored = await sealed()
    for number in (1, 8):
        await stored.service.redact_event(**WHO, event_id=f"e{number}", reason="ticket 7")
    return stored


async def deleted() -> Stored:
    """A deletion was interrupted, and another session has the id."""
    stored = await _spilled(Stored.empty(SPILLING))
    (path,) = [path for path in await stored.documents() if path.endswith("adk_sessions/s1")]
    (document,) = await stored.storage.documents.get([path])
    assert document is not None
    writes = stored.storage.layout.delete(read_session(document))
    await stored.storage.documents.commit(writes)
    held = await stored.service.create_session(**WHO, state={"kept": "a"})
    for number in range(5):
        await stored.service.append_event(held, event(number, changed=number))
    return stored


async def restored() -> Stored:
    """It was taken back into a segment, has gone on since, and is called something."""
    stored = await sealed()
    held = await stored.service.restore_session(**WHO, at=Point.position(5))
    await stored.service.update_session_info(**WHO, title="Trip", labels={"team": "x"})
    for number in range(5, 8):
        await stored.service.append_event(held, event(number, changed=number))
    return stored


async def restore_note() -> Stored:
    """A restore was interrupted after its commit."""
    stored = await sealed()
    (path,) = [path for path in await stored.documents() if path.endswith("adk_sessions/s1")]
    before = await stored.documents()
    await stored.service.restore_session(**WHO, at=Point.position(5))
    for gone in before.keys() - (await stored.documents()).keys():
        await stored.put(gone, dict(before[gone].fields))
    (document,) = await stored.storage.documents.get([path])
    assert document is not None
    header = read_session(document)
    sealed_before = {int(gone.rpartition("-")[2]) for gone in before if "adk_segments" in gone}
    removed = runs_of(sorted(sealed_before - set(header.live)))
    artifacts = ArtifactsAt(kept={"a.txt": 0}, later={"a.txt": 1}, until=1005.0)
    note = {
        "format": 1,
        "epoch": header.epoch,
        "restore_id": header.restore_id,
        "segments": [{"from": run.start, "to": run.stop - 1} for run in removed],
        "artifacts": pack_artifacts(artifacts),
    }
    await stored.put(f"{path}/{restores_collection(stored.storage.layout)}/{header.restore_id}", note)
    return stored


async def fork() -> Stored:
    """It began in another session, which is gone, and has gone on since."""
    stored = await sealed()
    await stored.service.fork_session(**WHO, at=Point.position(7), to_session_id="s2")
    await stored.service.delete_session(**WHO)
    held = await stored.service.get_session(**{**WHO, "session_id": "s2"})
    assert held is not None
    for number in range(10, 13):
        await stored.service.append_event(held, event(number, changed=number))
    return stored


async def fork_note() -> Stored:
    """A fork was interrupted before its last commit."""
    stored = await sealed()
    made = await stored.service.fork_session(**WHO, to_session_id="s2")
    (path,) = [path for path in await stored.documents() if path.endswith("adk_sessions/s2")]
    (document,) = await stored.storage.documents.get([path])
    assert document is not None
    session = read_session(document)
    chunks = frozenset({PayloadPlace.CHUNKS})
    note = Deletion(epoch=session.epoch, sealed=session.sealed, spilled=chunks, artifacts=True)
    write = note_write(stored.storage.layout, session.key, note)
    await stored.put(path, None)
    await stored.put(write.path, dict(write.fields))
    assert made.id == "s2"
    return stored


async def in_a_turn() -> Stored:
    """A turn runs, was asked to stop, and two messages wait for it."""
    stored = await tail_only()
    turns = Turns(stored.service)
    await turns.take(**WHO, on_busy="reject", wait_s=0, lease_s=3600)
    for number in range(2):
        message = types.Content(role="user", parts=[types.Part(text=f"wait {number}")])
        await turns.enqueue(**WHO, new_message=message, state_delta={"asked": number})
    assert await turns.request_abort(**WHO)
    return stored


CORPUS: Final[dict[str, Callable[[], Awaitable[Stored]]]] = {
    "no event": no_event,
    "tail": tail_only,
    "sealed": sealed,
    "chunks": in_chunks,
    "large initial": large_initial,
    "bucket": in_bucket,
    "expiring": expiring,
    "redacted": redacted,
    "deleted": deleted,
    "restored": restored,
    "restore note": restore_note,
    "fork": fork,
    "fork note": fork_note,
    "in a turn": in_a_turn,
}
