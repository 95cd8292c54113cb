"""Read whole sessions at one moment, for copies and exports."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from google.adk.events import Event

from gcp_adk_store.codec.stored import read_header, read_session
from gcp_adk_store.codec.writes import Document, Page
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.sessions import Segment, StoredSession
from gcp_adk_store.model.state import ScopedState
from gcp_adk_store.moving.importing import SessionHeader
from gcp_adk_store.sessions.describe.decide import SessionInfo, UnreadableSession
from gcp_adk_store.sessions.describe.format import HEADER_OF_INFO, read_info
from gcp_adk_store.sessions.listing.sessions import unreadable
from gcp_adk_store.sessions.read.completion import decoded
from gcp_adk_store.sessions.read.reader import SessionReader, segment_missing
from gcp_adk_store.sessions.read.storage import SessionStorage
from gcp_adk_store.sessions.service import SessionService
from gcp_adk_store.settings import SessionLimits

_PER_PAGE: Final = 100
"""Sessions that one query lists, without their events and state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSession:
    """A session in a listing by name."""

    key: SessionKey
    info: SessionInfo
    update_time: str
    """Changes with every change of the session document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeSession:
    """A session without its events, and the state of its user and app."""

    header: SessionHeader
    update_time: str
    shared: ScopedState
    waiting: int
    """Messages that wait for a turn."""


class SessionExports:
    """Reads sessions below one prefix of a database at one moment."""

    def __init__(self, storage: SessionStorage) -> None:
        """Read through *storage*, whose documents are a snapshot."""
        self._storage = storage
        self._reader = _Reader(storage, cache_bytes=0, placeholders=False)
        self._service = SessionService(storage, limits=SessionLimits(segment_cache_bytes=0))

    @classmethod
    @asynccontextmanager
    async def now(cls, storage: SessionStorage) -> AsyncIterator[Self]:
        """Open what *storage* holds now, for a block; Firestore serves the moment for an hour."""
        async with storage.documents.snapshot() as reads:
            documents: Any = reads  # nothing here writes
            yield cls(replace(storage, documents=documents, payloads=storage.payloads.over(documents)))

    async def sessions(
        self, app: str, user: str | None = None
    ) -> AsyncIterator[ListedSession | UnreadableSession]:
        """Yield the sessions of an app, or of one of its users, by name; 1 query for 100 of them.

        Expired sessions are left out; those that cannot be read are named.
        """
        layout = self._storage.layout
        parent = layout.app(app) if user is None else layout.user(UserKey(app=app, user=user))
        last: str | None = None
        while True:
            at = None if last is None else (0.0, last)
            documents = await self._storage.documents.query(
                parent,
                layout.sessions_collection,
                fields=HEADER_OF_INFO,
                all_descendants=user is None,
                page=Page(field=None, descending=False, limit=_PER_PAGE, after=at),
            )
            for document in documents:
                try:
                    stored = read_header(document, with_state=False)
                    info = read_info(document, stored)
                except StoredDataError as exc:
                    yield unreadable(layout, app, document.path, exc)
                    continue
                if not stored.has_expired:
                    yield ListedSession(key=stored.key, info=info, update_time=document.update_time)
            if len(documents) < _PER_PAGE:
                return
            last = documents[-1].path

    async def read(self, key: SessionKey) -> WholeSession | None:
        """Return a session with its state; 1 read, and 1 more if it has segments.

        Raises:
            StoredDataError: a document is damaged, or lacks a part.
        """
        layout = self._storage.layout
        found = await self._storage.documents.get(
            [layout.session(key), layout.app(key.app), layout.user(key.owner)]
        )
        document, *of_owner = found
        if document is None:
            return None
        stored = await decoded(read_session, document)
        if stored.has_expired:
            return None
        shared = await self._reader.shared_of(key.owner, of_owner)
        completed = await self._reader.complete(stored, [], shared)
        if completed is None:
            return None
        first = await self._reader.segments(stored, stored.live[:1])
        if first is None:
            raise segment_missing(stored)
        initial = await self._reader.whole_initial(stored, first)
        info = read_info(document, stored)
        header = SessionHeader(
            key=stored.key,
            state=completed.stored.state,
            initial=initial,
            create_time=stored.create_time,
            last_update_time=stored.last_update_time,
            title=info.title,
            labels=info.labels,
        )
        return WholeSession(
            header=header,
            update_time=document.update_time,
            shared=shared,
            waiting=len(stored.inbox),
        )

    def unreadable(self, key: SessionKey, exc: StoredDataError) -> UnreadableSession:
        """Return what names a session that :meth:`read` could not read."""
        layout = self._storage.layout
        return unreadable(layout, key.app, layout.session(key), exc)

    async def shared(self, owner: UserKey) -> ScopedState:
        """Return the state of an app and a user; 2 reads."""
        return await self._reader.shared_state(owner)

    async def events(self, key: SessionKey) -> AsyncIterator[Event]:
        """Yield the events of a session, with payloads; up to eight segments are in memory.

        Raises:
            SessionMissingError: the session does not exist.
        """
        ids: dict[str, Any] = {"app_name": key.app, "user_id": key.user, "session_id": key.session}
        async for one in self._service.iter_events(**ids):
            yield one.event


class _Reader(SessionReader):
    """Reads what a copy of a session needs beside its events."""

    async def shared_of(self, owner: UserKey, documents: Sequence[Document | None]) -> ScopedState:
        """Return the state of an app and a user from their *documents*."""
        return await self._complete_shared(owner, *documents)

    async def whole_initial(self, stored: StoredSession, segments: Sequence[Segment]) -> Mapping[str, Any]:
        """Return the state that a session was created with, with payloads."""
        initial = await self.initial(stored, segments)
        mine = self._layout.session_payloads(stored.key, stored.epoch)
        return await self._complete_state(mine, initial)
