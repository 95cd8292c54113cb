"""Read and change what a store has, document by document, as somebody does who can write its database."""

import asyncio
import json
import zlib
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from google.adk.events import Event

from gcp_adk_store import SessionLimits, SessionService, Store
from gcp_adk_store.codec.names import upload_name
from gcp_adk_store.codec.objects import ObjectFields
from gcp_adk_store.codec.writes import Delete, Document, Write
from gcp_adk_store.model.keys import ArtifactKey, SessionKey
from gcp_adk_store.moving.importing import SessionHeader, import_session
from gcp_adk_store.testing.conformance.running import read

T = TypeVar("T")

_WHO: Final[dict[str, Any]] = {"app_name": "app", "user_id": "user", "session_id": "session"}


def session_path(who: Mapping[str, str], prefix: str = "adk") -> str:
    """Return the path of a session whose ids are names of documents as they are."""
    app, user, session = who["app_name"], who["user_id"], who["session_id"]
    return f"{prefix}_apps/{app}/{prefix}_users/{user}/{prefix}_sessions/{session}"


def at_once(folder: Path, work: Callable[[Store], Awaitable[T]]) -> T:
    """Return what *work* returns of the store in a folder, which is closed then, in a loop of its own."""

    async def act() -> T:
        async with Store.local(folder) as store:
            return await work(store)

    return asyncio.run(act())


async def fields_of(store: Store, path: str) -> dict[str, Any]:
    """Return the fields of a document that must exist."""
    (found,) = await store.sessions.storage.documents.get([path])
    assert found is not None
    return dict(found.fields)


async def collection(store: Store, name: str) -> dict[str, dict[str, Any]]:
    """Return the documents of all collections of one id, such as ``adk_segments``: path -> fields."""
    found = await store.sessions.storage.documents.query("", name, all_descendants=True)
    return {one.path: dict(one.fields) for one in found}


async def overwrite(documents: Any, wanted: Mapping[str, Mapping[str, Any] | None]) -> None:
    """Write documents with these fields and no other, by path, or remove them, in one commit."""
    await documents.commit(
        [
            Delete(path=path) if fields is None else Write(path=path, fields=fields)
            for path, fields in wanted.items()
        ]
    )


async def put(store: Store, path: str, fields: Mapping[str, Any]) -> None:
    """Write a document with these fields and no other."""
    await overwrite(store.sessions.storage.documents, {path: fields})


async def change(
    store: Store, path: str, fields: Mapping[str, Any], *, without: Sequence[str] = (), life: str = ""
) -> None:
    """Set fields of a document, and remove those that it is to be *without*; all others stay.

    A store that encrypts binds them to the *life* of a session, its epoch.
    """
    mask = [(name,) for name in (*fields, *without)]
    await store.sessions.storage.documents.commit([Write(path=path, fields=fields, mask=mask, life=life)])


async def remove(store: Store, *paths: str) -> None:
    """Remove documents."""
    await overwrite(store.sessions.storage.documents, dict.fromkeys(paths))


async def put_session(
    sessions: SessionService,
    of: Mapping[str, str],
    events: AsyncIterable[Event],
    *,
    replaces: bool = False,
    **header: Any,
) -> int:
    """Write a session of *events* as a copy from another store does, and return their number."""
    key = SessionKey(app=of["app_name"], user=of["user_id"], session=of["session_id"])
    whole = SessionHeader(**{"key": key, "state": {}, "last_update_time": 1.0, **header})
    return await import_session(sessions, whole, events, replaces=replaces)


async def put_upload(store: Store, of: Mapping[str, str], upload_id: str, data: bytes) -> str:
    """Upload *data* for an artifact, as a browser does, and return the name of the object."""
    app, user, session = of["app_name"], of["user_id"], of["session_id"]
    key = ArtifactKey.of(app=app, user=user, session=session, filename=of["filename"])
    name = upload_name(key, upload_id)
    await store.artifacts.storage.objects.create(name, plain_text(data))
    return name


async def put_object(
    store: Store, name: str, data: bytes, *, metadata: Mapping[str, str] | None = None
) -> None:
    """Write an object of plain text to the store's bucket."""
    objects = store.sessions.storage.payloads.objects
    assert objects is not None
    await objects.create(name, plain_text(data, metadata=metadata or {}))


def plain_text(data: bytes = b"", **others: Any) -> ObjectFields:
    """Return an object of plain text to write, with its *others* properties."""
    return ObjectFields(**{"data": data, "content_type": "text/plain", "metadata": {}, **others})


async def _appended(store: Store, events: Sequence[Event]) -> None:
    """Make a session with *events*."""
    session = await store.sessions.create_session(**_WHO)
    for event in events:
        await store.sessions.append_event(session, event)


async def _read(store: Store, **options: Any) -> list[Event]:
    """Return what another process reads of the session."""
    found = await read(SessionService(store.sessions.storage, **options), _WHO)
    return found.events


def read_back(*events: Event, limits: SessionLimits | None = None) -> list[Event]:
    """Return *events* as another process reads them that were appended to a session of their own."""

    async def work() -> list[Event]:
        async with Store.local(":memory:", session_limits=limits) as store:
            await _appended(store, events)
            return await _read(store)

    return asyncio.run(work())


def texts_of(*events: Event, limits: SessionLimits | None = None) -> list[str]:
    """Return the texts of *events* in the document of the session that they were appended to."""

    async def work() -> list[str]:
        async with Store.local(":memory:", session_limits=limits) as store:
            await _appended(store, events)
            return [*(await fields_of(store, session_path(_WHO)))["tail"]]

    return asyncio.run(work())


def read_text(text: str, **options: Any) -> Event:
    """Return what a process with these *options* reads of a session whose only event is stored as *text*."""

    async def work() -> Event:
        async with Store.local(":memory:") as store:
            await _appended(store, [Event(author="a")])
            await change(store, session_path(_WHO), {"tail": [text]})
            (event,) = await _read(store, **options)
            return event

    return asyncio.run(work())


def as_read(path: str, fields: Mapping[str, Any], *, at: float = 100.0) -> Document:
    """Return a document as a store reads it that was written and read *at* a Unix time."""
    return Document(path=path, fields=fields, update_time=f"{at:.9f}", read_time=at)


def packed(texts: Sequence[str]) -> bytes:
    """Return the body of a segment with the texts of these events."""
    return zlib.compress(json.dumps([*texts]).encode())


def unpacked(body: bytes) -> list[str]:
    """Return the texts of the events in a segment's body."""
    texts: list[str] = json.loads(zlib.decompress(body))
    return texts
