"""What moving requires of a store, and this package's own stores, whose sessions are read at one moment."""

import math
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from google.adk.events import Event

from gcp_adk_store.codec.stored import read_session
from gcp_adk_store.errors import SessionMissingError, StoredDataError
from gcp_adk_store.model.internal_metadata import event_elsewhere
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.payloads import PayloadPlace
from gcp_adk_store.model.state import ScopedState
from gcp_adk_store.moving.canonical import canonical_state, spooled
from gcp_adk_store.moving.importing import SessionHeader, import_session, put_shared_state
from gcp_adk_store.sessions.describe.decide import UnreadableSession
from gcp_adk_store.sessions.describe.format import read_info
from gcp_adk_store.sessions.describe.run import living
from gcp_adk_store.sessions.read.completion import decoded
from gcp_adk_store.sessions.read.reader import SessionReader, segment_missing
from gcp_adk_store.sessions.read.storage import SessionStorage
from gcp_adk_store.sessions.service import SessionService
from gcp_adk_store.settings import SessionLimits

SHARED_STATE_SESSION = "gcp-adk-store-shared-state"
"""Id of a session that is made and deleted to set the state of app and user; no copy takes it over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A session in a listing."""

    user_id: str
    session_id: str
    stamp: str
    """Another text after each change of the session."""
    last_update_time: float
    """Unix time in seconds."""
    unreadable: UnreadableSession | None = None
    """What is known of a session that cannot be read; ``None`` for one that can."""


class ListedKey(SessionKey):
    """A session as its source lists it: DatabaseSessionService of ADK keeps the spaces around an id."""

    __slots__ = ()

    def __post_init__(self) -> None:
        _ = self.in_target  # which refuses what is no id

    @property
    def in_target(self) -> SessionKey:
        """The session in a target, without the spaces."""
        return SessionKey(app=self.app, user=self.user, session=self.session)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A session of one moment, and the state of its app and user."""

    header: SessionHeader
    shared: ScopedState
    stamp: str
    events: AsyncIterable[Event]
    """In order; they are read as they are asked for, once."""
    notes: tuple[tuple[str, str], ...] = ()
    """Kind and text of what its store does not hold, or holds in a form of its own."""
    ends: bool = False
    """Whether it has a time to live, which no copy keeps."""
    in_bucket: bool = False
    """Whether payloads of it are in a bucket, of which no moment can be read: others may remove them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What a kind of store keeps."""

    kind: str
    """Its name in reports."""
    sorts_by_time: bool = False
    """Whether a reader gets events by their timestamps, not in the order of their appends."""
    keeps_times: bool = False
    """Whether a copy keeps the time of a session's creation."""
    keeps_titles: bool = False
    """Whether a copy keeps title and labels."""
    keeps_state: bool = False
    """Whether a copy keeps values of the state that no event has, such as those of redacted events."""
    at_once: int = 1
    """Sessions that may be read or written side by side."""
    losses: tuple[str, ...] = ()
    """What it never holds, a line each."""


def elsewhere(record: Record) -> Record:
    """Return *record*, which gets other ids, with its events as a session of other ids takes them over."""
    return replace(record, events=(event_elsewhere(event) async for event in record.events))


class Source(Protocol):
    """A store to read from."""

    @property
    def traits(self) -> Traits:
        """What it keeps."""
        ...

    def sessions(self, app: str, user: str | None) -> AsyncIterator[Listed]:
        """Yield the sessions of an app, or of one of its users; those of one user follow each other."""
        ...

    def open(self, key: SessionKey) -> AbstractAsyncContextManager[Record | None]:
        """Open a session for a block; ``None`` for one that does not exist."""
        ...

    async def shared(self, key: SessionKey) -> ScopedState:
        """Return the state of the app and the user of a session, as it is now.

        Raises:
            SessionMissingError: the session is gone, and the store shows the state with it alone.
        """
        ...

    async def close(self) -> None:
        """Close the connections that were opened for the copy."""
        ...


class Target(Source, Protocol):
    """A store to write to."""

    async def write(self, record: Record, events: AsyncIterable[Event]) -> int:
        """Make a session with *events*, and return their number.

        Raises:
            SessionExistsError: the id is taken.
        """
        ...

    async def append(self, key: SessionKey, events: AsyncIterable[Event]) -> int:
        """Append *events* to a session, and return their number."""
        ...

    async def describe(self, header: SessionHeader, there: SessionHeader) -> None:
        """Give a session, which is as *there*, the title and the labels of *header*."""
        ...

    async def replace(self, record: Record, events: AsyncIterable[Event]) -> int:
        """Put a session with *events* in the place of the one that has its id; return their number.

        The old session stays as it is until all *events* are read: an error of theirs leaves it alone.
        """
        ...

    async def remove(self, key: SessionKey) -> None:
        """Delete a session."""
        ...

    async def put_shared(self, owner: UserKey, shared: ScopedState) -> None:
        """Set the keys of the state of an app and a user; other keys stay."""
        ...


_AT_ONCE: Final = 8
_PER_PAGE: Final = 100
"""Sessions that one query lists, without their events and state."""

_LOOKS: Final = 5
"""How often a session is read that lacks content, if others change it each time."""


@asynccontextmanager
async def as_of_now(live: SessionStorage) -> AsyncIterator[SessionStorage]:
    """Open what *live* holds now, for a block that only reads; Firestore serves the moment for an hour."""
    async with live.documents.snapshot() as reads:
        documents: Any = reads  # nothing here writes
        yield replace(live, documents=documents, payloads=live.payloads.over(documents))


async def listed(storage: SessionStorage, app: str, user: str | None = None) -> AsyncIterator[Listed]:
    """Yield the sessions of an app, or of one of its users, by name; 1 query for 100 of them.

    Expired sessions are left out; those that cannot be read are named.
    """
    async for found in living(storage, app, user, limit=_PER_PAGE):
        if isinstance(found, UnreadableSession):
            yield Listed(
                user_id=found.path if found.user_id is None else found.user_id,
                session_id=found.session_id or "",
                stamp="",
                last_update_time=math.inf,
                unreadable=found,
            )
        else:
            stored, info = found
            yield Listed(
                user_id=info.user_id,
                session_id=info.session_id,
                stamp=stored.update_time,
                last_update_time=info.last_update_time,
            )


async def read_record(storage: SessionStorage, key: SessionKey) -> Record | None:
    """Return a session with its events to come; 1 read, and 1 more if it has segments.

    Raises:
        StoredDataError: a document is damaged, or lacks a part.
    """
    layout = storage.layout
    reader = SessionReader(storage, cache_bytes=0, placeholders=False)
    document, app, user = await storage.documents.get(_paths(storage, key))
    if document is None:
        return None
    stored = await decoded(read_session, document)
    if stored.has_expired:
        return None
    shared = await reader.complete_shared(key.owner, app, user)
    completed = await reader.complete(stored, [], shared)
    if completed is None:
        return None
    first = await reader.segments(stored, stored.live[:1])
    if first is None:
        raise segment_missing(stored)
    initial = await reader.initial(stored, first)
    info = read_info(document, stored)
    waiting = len(stored.inbox)
    return Record(
        header=SessionHeader(
            key=stored.key,
            state=completed.stored.state,
            initial=await reader.complete_state(layout.session_payloads(stored.key, stored.epoch), initial),
            create_time=stored.create_time,
            last_update_time=stored.last_update_time,
            title=info.title,
            labels=info.labels,
        ),
        shared=shared,
        stamp=document.update_time,
        events=_events(storage, key),
        notes=(("inbox", f"{waiting} messages wait for a turn; they are not copied"),) if waiting else (),
        ends=stored.expiry is not None,
        in_bucket=PayloadPlace.BUCKET in stored.spilled,
    )


@asynccontextmanager
async def whole_record(
    then: SessionStorage, key: SessionKey, *, live: SessionStorage, is_read_first: bool = False
) -> AsyncIterator[Record | None]:
    """Open a session for a block, whose payloads in the bucket nobody can remove any more.

    A temporary file has the events of one with such payloads, and of any that *is_read_first*. If others have
    removed some since the moment of *then*, the session is opened as *live* has it now; ``None`` if it is
    gone.

    Raises:
        StoredDataError: as :func:`read_record`.
    """
    left = _LOOKS
    async with AsyncExitStack() as ends:
        while True:
            try:
                record = await read_record(then, key)
                if record is not None and (record.in_bucket or is_read_first):
                    events = await ends.enter_async_context(spooled(record.events))
                    record = replace(record, events=events)
                break
            except StoredDataError:
                left -= 1
                before = await _stamps(then, key)
                then = await ends.enter_async_context(as_of_now(live))
                if not left or before == await _stamps(then, key):
                    raise
        yield record


def _paths(storage: SessionStorage, key: SessionKey) -> list[str]:
    layout = storage.layout
    return [layout.session(key), layout.app(key.app), layout.user(key.owner)]


async def _stamps(storage: SessionStorage, key: SessionKey) -> list[str | None]:
    """Return what changes with a session, its app and its user, ``None`` for what is absent; 3 reads."""
    found = await storage.documents.get(_paths(storage, key), fields=["format"])
    return [None if document is None else document.update_time for document in found]


async def _events(storage: SessionStorage, key: SessionKey) -> AsyncIterator[Event]:
    """Yield the events of a session, with payloads; up to eight segments are in memory."""
    service = SessionService(storage, limits=SessionLimits(segment_cache_bytes=0))
    async for one in service.iter_events(**key.ids):
        yield one.event


def differing(wanted: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
    """Return the keys of *wanted* that are not *there* with the same value."""
    return [
        key
        for key, value in wanted.items()
        if key not in there or canonical_state({key: there[key]}) != canonical_state({key: value})
    ]


class OwnStore:
    """A store of this library, in Firestore or in a folder."""

    traits: Final = Traits(
        kind="gcp-adk-store", keeps_times=True, keeps_titles=True, keeps_state=True, at_once=_AT_ONCE
    )
    """What it keeps: everything."""

    def __init__(self, service: SessionService, *, closes: bool) -> None:
        """Prepare; :meth:`close` closes *service* if this object *closes* it."""
        self._service = service
        self._closes = closes
        self._storage = service.storage
        # A copy keeps what its source has, so redactors of *service* do not see it.
        self._appends = SessionService(service.storage, limits=service.limits)
        self._appends._appender.keeps_rewinds = True  # noqa: SLF001  # of the copy alone

    def sessions(self, app: str, user: str | None) -> AsyncIterator[Listed]:
        """Yield the sessions of an app, or of one of its users; 1 query for 100 sessions."""
        return listed(self._storage, app, user)

    @asynccontextmanager
    async def open(self, key: SessionKey) -> AsyncIterator[Record | None]:
        """Open a session for a block, from one snapshot; 2 reads, then those of the events."""
        async with as_of_now(self._storage) as then:
            yield await read_record(then, key)

    async def shared(self, key: SessionKey) -> ScopedState:
        """Return the state of the app and the user of a session, as it is now; 2 reads."""
        return await self._shared_of(key.owner)

    async def write(self, record: Record, events: AsyncIterable[Event]) -> int:
        """Make a session with *events*, whole or not at all, and return their number."""
        return await import_session(self._service, record.header, events)

    async def replace(self, record: Record, events: AsyncIterable[Event]) -> int:
        """Put a session with *events* in the place of the one that has its id; return their number.

        One step does so: whoever reads the session finds the old one whole, or the new one.
        """
        return await import_session(self._service, record.header, events, replaces=True)

    async def append(self, key: SessionKey, events: AsyncIterable[Event]) -> int:
        """Append *events* to a session, with 1 write an event, and return their number."""
        session = await self._appends.get_session(**key.ids)
        if session is None:
            raise SessionMissingError("the session was deleted in the target")
        count = 0
        async for event in events:
            await self._appends.append_event(session, event.model_copy(deep=True))
            count += 1
        return count

    async def describe(self, header: SessionHeader, there: SessionHeader) -> None:
        """Give a session, which is as *there*, the title and the labels of *header*; 1 read and 1 commit."""
        labels = {**dict.fromkeys(there.labels), **header.labels}
        await self._appends.update_session_info(**header.key.ids, title=header.title, labels=labels)

    async def remove(self, key: SessionKey) -> None:
        """Delete a session."""
        await self._service.delete_session(**key.ids)

    async def put_shared(self, owner: UserKey, shared: ScopedState) -> None:
        """Set the keys of the state of an app and a user that differ, in 1 commit; other keys stay."""
        now = await self._shared_of(owner)
        app = {key: shared.app[key] for key in differing(shared.app, now.app)}
        user = {key: shared.user[key] for key in differing(shared.user, now.user)}
        await put_shared_state(self._service, owner, app=app, user=user)

    async def close(self) -> None:
        """Close the service, if it was opened for the copy."""
        if self._closes:
            await self._service.close()

    async def _shared_of(self, owner: UserKey) -> ScopedState:
        return await SessionReader(self._storage, cache_bytes=0, placeholders=False).shared_state(owner)
