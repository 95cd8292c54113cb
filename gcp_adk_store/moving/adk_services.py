"""Read and write sessions through ADK's own interface, which every session service has."""

import re
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from google.adk.events import Event
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig

from gcp_adk_store.errors import InvalidInputError, SessionExistsError, SessionMissingError, UnavailableError
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.state import ScopedState, merge_scopes, split_scopes
from gcp_adk_store.moving.canonical import each, kept_state, spooled
from gcp_adk_store.moving.importing import SessionHeader
from gcp_adk_store.moving.records import SHARED_STATE_SESSION, Listed, Record, Traits
from gcp_adk_store.moving.report import failure_of_one

_NO_EVENTS: Final = GetSessionConfig(num_recent_events=0)
_VERTEX_IDS: Final = re.compile(r"[A-Za-z0-9_-]+")

MEMORY: Final = Traits(kind="ADK's service in memory")
"""It keeps events in the order of their appends."""

SQL: Final = Traits(
    kind="a SQL database of ADK",
    sorts_by_time=True,
    losses=("it orders events by time: events of one time have no order",),
)

FIRESTORE: Final = Traits(
    kind="ADK's Firestore service",
    sorts_by_time=True,
    losses=(
        "it orders events by time: events of one time have no order",
        "it sets the time of a session's last update itself",
    ),
)

VERTEX: Final = Traits(
    kind="Vertex AI Agent Engine",
    sorts_by_time=True,
    losses=(
        "it gives events ids of its own",
        "it keeps the fields of events that its API has; others are lost",
        "it has no state of apps and users apart from that of sessions",
    ),
)

OTHER_FILE: Final = "; write sqlite+aiosqlite:///PATH for a file that ADK's DatabaseSessionService made"
"""For an error of ADK's SQLite service: the scheme ``sqlite`` led to the other service once."""

_BY_NAME: Final = {
    "InMemorySessionService": MEMORY,
    "FirestoreSessionService": FIRESTORE,
    "VertexAiSessionService": VERTEX,
}


def traits_of(service: BaseSessionService) -> Traits:
    """Return what a service of ADK keeps; of an unknown class, as little as a SQL database."""
    for kind in type(service).__mro__:
        if kind.__module__.startswith("google.adk.") and kind.__name__ in _BY_NAME:
            return _BY_NAME[kind.__name__]
    return SQL


class AdkService:
    """Any session service of ADK. It reads and writes a session as a whole, so that it is in memory."""

    def __init__(self, service: BaseSessionService, *, closes: bool, traits: Traits | None = None) -> None:
        """Prepare; :meth:`close` closes *service* if this object *closes* it."""
        self._service = service
        self._closes = closes
        self.traits = traits or traits_of(service)
        """What it keeps."""

    async def sessions(self, app: str, user: str | None) -> AsyncIterator[Listed]:
        """As the port, in one call of the service, which lists all sessions at once."""
        try:
            found = await self._service.list_sessions(app_name=app, user_id=user)
        except Exception as exc:
            says = f"{self.traits.kind} does not list its sessions: {failure_of_one(exc)}; see the cause"
            hint = OTHER_FILE if type(self._service).__name__ == "SqliteSessionService" else ""
            raise UnavailableError(says + hint) from exc
        for session in sorted(found.sessions, key=lambda one: (one.user_id, one.id)):
            if session.id != SHARED_STATE_SESSION:
                yield Listed(
                    user_id=session.user_id,
                    session_id=session.id,
                    stamp=_stamp(session),
                    last_update_time=session.last_update_time,
                )

    @asynccontextmanager
    async def open(self, key: SessionKey) -> AsyncIterator[Record | None]:
        """As the port, in one call of the service."""
        session = await self._service.get_session(**key.ids)
        yield None if session is None else _record(key, session)

    async def shared(self, key: SessionKey) -> ScopedState:
        """As the port, in one call of the service."""
        session = await self._service.get_session(**key.ids, config=_NO_EVENTS)
        if session is None:
            raise SessionMissingError("the session was deleted meanwhile")
        return _record(key, session).shared

    async def write(self, record: Record, events: AsyncIterable[Event]) -> int:
        """As the port: a session, then its events one by one. A kill leaves those so far."""
        key = record.header.key
        self._require_id(key)
        ids = key.ids
        if await self._service.get_session(**ids, config=_NO_EVENTS) is not None:
            raise SessionExistsError("another session has this id")
        state = {**record.header.state, **(record.header.initial or {})}
        session = await self._service.create_session(**ids, state=state)
        try:
            return await self._append(session, events)
        except Exception:
            await self._service.delete_session(**ids)  # what it cannot hold whole, it does not hold in part
            raise

    async def replace(self, record: Record, events: AsyncIterable[Event]) -> int:
        """As the port, in two steps, for which ADK's interface has no other: a deletion, then :meth:`write`.

        All *events* are read first. A session that the service cannot hold is removed, and the old one made
        again, with its events and state, and the state of its user and app. A kill between both steps leaves
        none, or one with its first events.
        """
        key = record.header.key
        self._require_id(key)
        async with spooled(events) as checked:
            old = await self._service.get_session(**key.ids)
            await self._service.delete_session(**key.ids)
            try:
                return await self.write(record, checked)
            except Exception:
                if old is not None:
                    before = _record(key, old)
                    await self.write(before, before.events)
                    await self.put_shared(key.owner, before.shared)
                raise

    async def append(self, key: SessionKey, events: AsyncIterable[Event]) -> int:
        """As the port, one by one."""
        session = await self._service.get_session(**key.ids)
        if session is None:
            raise SessionMissingError("the session was deleted in the target")
        return await self._append(session, events)

    async def describe(self, header: SessionHeader, there: SessionHeader) -> None:
        """As the port: ADK's interface has neither."""

    async def remove(self, key: SessionKey) -> None:
        """As the port."""
        await self._service.delete_session(**key.ids)

    async def put_shared(self, owner: UserKey, shared: ScopedState) -> None:
        """As the port: ADK's interface sets such state with a session, which is made and deleted."""
        if self.traits is VERTEX:
            return
        key = SessionKey(app=owner.app, user=owner.user, session=SHARED_STATE_SESSION)
        wanted, _ = kept_state(merge_scopes(ScopedState(app=shared.app, user=shared.user)))
        left = await self._service.get_session(**key.ids, config=_NO_EVENTS)
        if left is not None:  # of a copy that was killed
            await self._service.delete_session(**key.ids)
        if wanted:
            await self._service.create_session(**key.ids, state=wanted)
            await self._service.delete_session(**key.ids)

    async def close(self) -> None:
        """As the port; most services of ADK have nothing to close."""
        close = getattr(self._service, "close", None)
        if self._closes and close is not None:
            await close()

    async def _append(self, session: Session, events: AsyncIterable[Event]) -> int:
        count = 0
        async for event in events:
            await self._service.append_event(session, event.model_copy(deep=True))
            count += 1
        return count

    def _require_id(self, key: SessionKey) -> None:
        if self.traits is VERTEX and not _VERTEX_IDS.fullmatch(key.session):
            raise InvalidInputError("Vertex AI takes session ids of letters, digits, - and _ alone")


def _stamp(session: Session) -> str:
    marker = session._storage_update_marker  # noqa: SLF001  # ADK has no public access to it
    return f"{session.last_update_time!r}/{marker or ''}"


def _record(key: SessionKey, session: Session) -> Record:
    kept, lost = kept_state(session.state)
    scopes = split_scopes(kept)
    return Record(
        header=SessionHeader(key=key, state=scopes.session, last_update_time=session.last_update_time),
        shared=ScopedState(app=scopes.app, user=scopes.user),
        stamp=_stamp(session),
        events=each(session.events),
        notes=tuple(("types", _of_lost_type(name, session.state)) for name in lost),
    )


def _of_lost_type(name: str, state: Mapping[str, Any]) -> str:
    return f"state key {name[:40]!r} holds a {type(state[name]).__name__}, which becomes JSON"
