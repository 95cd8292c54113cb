"""What moving requires of a store, and this package's own stores."""

import math
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from google.adk.events import Event

from gcp_adk_store.errors import SessionMissingError
from gcp_adk_store.model.internal_metadata import event_elsewhere
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.state import ScopedState
from gcp_adk_store.moving.exporting import SessionExports, WholeSession
from gcp_adk_store.moving.importing import SessionHeader, SessionImports
from gcp_adk_store.sessions.describe.decide import UnreadableSession
from gcp_adk_store.sessions.service import SessionService

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
    unreadable: str = ""
    """Why the session cannot be read; empty for one that can."""


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
        """Return the state of the app and the user of a session, as it is now."""
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


class OwnStore:
    """A store of this library, in Firestore or in a folder."""

    traits: Final = Traits(kind="gcp-adk-store", keeps_times=True, keeps_titles=True, at_once=_AT_ONCE)
    """What it keeps: everything."""

    def __init__(self, service: SessionService, *, closes: bool) -> None:
        """Prepare; :meth:`close` closes *service* if this object *closes* it."""
        self._service = service
        self._closes = closes
        self._storage = service.storage
        self._imports = SessionImports(
            service.storage, service.limits, ttl_seconds=service.default_ttl_seconds
        )

    async def sessions(self, app: str, user: str | None) -> AsyncIterator[Listed]:
        """As the port; 1 query for 100 sessions."""
        async for one in SessionExports(self._storage).sessions(app, user):
            if isinstance(one, UnreadableSession):
                yield Listed(
                    user_id=one.path if one.user_id is None else one.user_id,
                    session_id=one.session_id or "",
                    stamp="",
                    last_update_time=math.inf,
                    unreadable=f"{one.reason}; look at it: {one.command}",
                )
                continue
            yield Listed(
                user_id=one.key.user,
                session_id=one.key.session,
                stamp=one.update_time,
                last_update_time=one.info.last_update_time,
            )

    @asynccontextmanager
    async def open(self, key: SessionKey) -> AsyncIterator[Record | None]:
        """As the port, from one snapshot; 2 reads, then those of the events."""
        async with SessionExports.now(self._storage) as exports:
            whole = await exports.read(key)
            yield None if whole is None else record_of(exports, whole)

    async def shared(self, key: SessionKey) -> ScopedState:
        """As the port; 2 reads."""
        return await SessionExports(self._storage).shared(key.owner)

    async def write(self, record: Record, events: AsyncIterable[Event]) -> int:
        """As the port: whole or not at all."""
        return await self._imports.write(record.header, events)

    async def replace(self, record: Record, events: AsyncIterable[Event]) -> int:
        """As the port, in one step: whoever reads the session finds the old one whole, or the new one."""
        return await self._imports.write(record.header, events, replaces=True)

    async def append(self, key: SessionKey, events: AsyncIterable[Event]) -> int:
        """As the port, with 1 write an event."""
        ids: dict[str, Any] = {"app_name": key.app, "user_id": key.user, "session_id": key.session}
        session = await self._service.get_session(**ids)
        if session is None:
            raise SessionMissingError("the session was deleted in the target")
        count = 0
        async for event in events:
            await self._service.append_event(session, event.model_copy(deep=True))
            count += 1
        await self._service.flush()
        return count

    async def remove(self, key: SessionKey) -> None:
        """As the port."""
        await self._service.delete_session(app_name=key.app, user_id=key.user, session_id=key.session)

    async def put_shared(self, owner: UserKey, shared: ScopedState) -> None:
        """As the port, in 1 commit; keys that are as they should be are not written."""
        now = await SessionExports(self._storage).shared(owner)
        app = {key: value for key, value in shared.app.items() if key not in now.app or now.app[key] != value}
        user = {
            key: value for key, value in shared.user.items() if key not in now.user or now.user[key] != value
        }
        await self._imports.put_shared_state(owner, app=app, user=user)

    async def close(self) -> None:
        """As the port."""
        if self._closes:
            await self._service.close()


def record_of(exports: SessionExports, whole: WholeSession) -> Record:
    """Return a session that was read, with its events to come."""
    notes = []
    if whole.waiting:
        notes.append(("inbox", f"{whole.waiting} messages wait for a turn; they are not copied"))
    return Record(
        header=whole.header,
        shared=whole.shared,
        stamp=whole.update_time,
        events=exports.events(whole.header.key),
        notes=tuple(notes),
    )
