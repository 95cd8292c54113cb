"""Browse sessions: listings, pages of them, and the events of one in parts."""

import asyncio
import heapq
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal

from google.adk.events import Event
from google.adk.sessions import Session

from gcp_adk_store.codec.cursors import (
    decode_event_cursor,
    decode_page_cursor,
    encode_cursor,
    encode_page_cursor,
)
from gcp_adk_store.codec.indexes import page_index
from gcp_adk_store.codec.stored import HEADER_FIELDS, HEADER_WITHOUT_STATE, read_header
from gcp_adk_store.codec.writes import Document, Page
from gcp_adk_store.errors import (
    InvalidInputError,
    NotProvisionedError,
    PayloadMissingError,
    SessionMissingError,
    StoredDataError,
    StoreError,
)
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.sessions import EventPlace, StoredSession
from gcp_adk_store.model.state import ScopedState
from gcp_adk_store.model.weights import is_light
from gcp_adk_store.operations.fan_out import beside, fan_out
from gcp_adk_store.operations.pauses import Pauses, apart, paced
from gcp_adk_store.operations.rereads import Rereads
from gcp_adk_store.sessions.handle import to_session
from gcp_adk_store.sessions.reader import Found, SessionReader, decode_events, decoded, refers
from gcp_adk_store.sessions.storage import SessionStorage

MAX_PAGE_SIZE: Final = 1000
"""Sessions in one page of a listing, each with its state: some megabytes."""

_USERS_PER_READ: Final = 500
"""As many user states as one read of a listing asks for."""

_SORTED_AT_ONCE: Final = 1000
"""Sessions of a listing that are sorted in some 2 ms."""

_COMPLETED_AT_ONCE: Final = 16
"""Sessions of a listing whose large values are fetched side by side."""

_SEGMENTS_AT_ONCE: Final = 8
"""As many segments, of some 64 KiB of events each, as an iteration over events holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPage:
    """A part of a listing."""

    sessions: list[Session]
    next_cursor: str | None
    """What leads to the next page; ``None`` after one that was not full: nothing follows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEvent:
    """An event of a session, and where it stands."""

    event: Event
    cursor: str
    """What an iteration in the same direction goes on with after this event."""


class SessionBrowser:
    """Lists what lies below one prefix of a database."""

    def __init__(self, storage: SessionStorage, reader: SessionReader) -> None:
        self._storage = storage
        self._reader = reader

    async def listing(self, app: str, user: str | None) -> list[Session]:
        """Return the sessions of a user, or of all users of an app, by last update."""
        if user is not None:
            owner = UserKey(app=app, user=user)
            documents, shared = await beside(
                self._storage.documents.query(
                    self._storage.layout.user(owner),
                    self._storage.layout.sessions_collection,
                    fields=HEADER_FIELDS,
                ),
                self._reader.shared_state(owner),
            )
            states: dict[UserKey, ScopedState] | None = {owner: shared}
        else:
            documents = await self._storage.documents.query(
                self._storage.layout.app(app),
                self._storage.layout.sessions_collection,
                all_descendants=True,
                fields=HEADER_FIELDS,
            )
            states = None
        stored = await _headers(documents)
        found = await self._complete(stored, states)
        sessions = await paced(to_session(one) for one in found)
        runs = range(0, len(sessions), _SORTED_AT_ONCE)
        in_order = await paced(sorted(sessions[run : run + _SORTED_AT_ONCE], key=_by_update) for run in runs)
        return await paced(heapq.merge(*in_order, key=_by_update))

    async def page(
        self,
        app: str,
        user: str | None,
        *,
        page_size: int,
        cursor: str | None,
        order: Literal["newest", "oldest"],
        include_state: bool,
    ) -> SessionPage:
        """Return so many sessions of a user, or of all users of an app, in the order of their last update.

        Raises:
            InvalidInputError: *page_size*, *cursor* or *order* is none that there is.
            NotProvisionedError: the database has no index for pages of an app.
        """
        if not _is_count(page_size) or page_size > MAX_PAGE_SIZE:
            raise InvalidInputError(f"page_size is {page_size!r:.40}, it must be 1 to {MAX_PAGE_SIZE}")
        if order not in ("newest", "oldest"):
            raise InvalidInputError(f"order is {order!r}, it must be 'newest' or 'oldest'")
        # Refuses what cannot be an app or a user, too.
        listing = f"{UserKey(app=app, user='' if user is None else user)} {user is None} {order}"
        after = None
        if cursor is not None:
            time, key = decode_page_cursor(cursor, listing=listing, app=app)
            after = time, self._storage.layout.session(key)
        page = Page(field="last_update_time", descending=order == "newest", limit=page_size, after=after)
        query = self._query(app, user, page, include_state=include_state)
        states: dict[UserKey, ScopedState] | None = None
        if user is not None and include_state:
            owner = UserKey(app=app, user=user)
            documents, shared = await beside(query, self._reader.shared_state(owner))
            states = {owner: shared}
        else:
            documents = await query
        stored = await _headers(documents, with_state=include_state)
        next_cursor = None
        if len(stored) == page_size:
            last = stored[-1]
            next_cursor = encode_page_cursor(listing, last.last_update_time, last.key)
        if not include_state:
            states = dict.fromkeys((one.key.owner for one in stored), ScopedState())
        found = await self._complete(stored, states)
        return SessionPage(sessions=await paced(to_session(one) for one in found), next_cursor=next_cursor)

    async def events(
        self, key: SessionKey, *, cursor: str | None, limit: int | None, backward: bool
    ) -> AsyncIterator[SessionEvent]:
        """Yield the events that a session has now, from *cursor* on, some segments in memory at a time.

        Raises:
            InvalidInputError: *cursor* or *limit* is none that there is.
            SessionMissingError: there is no such session, or it is not the one that *cursor* is of.
        """
        if limit is not None and not _is_count(limit):
            raise InvalidInputError(f"limit is {limit!r:.40}, it must be 1 or more, or None for all events")
        stored = await self._reader.stored(key)
        if stored is None or stored.has_expired:
            raise SessionMissingError(f"Session {key.session} not found: {key}")
        # The tail counts as the segment that it will be.
        place = EventPlace(segment=stored.sealed, offset=len(stored.tail)) if backward else EventPlace()
        if cursor is not None:
            epoch, place = decode_event_cursor(cursor)
            if epoch != stored.epoch:
                raise SessionMissingError(f"the session of the cursor was deleted; another has its id: {key}")
            if place.segment > stored.sealed:
                raise _beyond(key)
        count = 0
        async for number, texts in self._runs(stored, place.segment, backward=backward):
            at_end = len(texts) if backward else 0
            start = place.offset if number == place.segment else at_end
            if start > len(texts):
                raise _beyond(key)
            for index in reversed(range(start)) if backward else range(start, len(texts)):
                event = await self._event(stored, number, texts, index)
                offset = index if backward else index + 1
                yield SessionEvent(event=event, cursor=encode_cursor((stored.epoch, number, offset)))
                count += 1
                if count == limit:
                    return

    async def _runs(
        self, stored: StoredSession, first: int, *, backward: bool
    ) -> AsyncIterator[tuple[int, Sequence[str]]]:
        """Yield the events of segments by number, and of the tail, some segments at a time."""
        unread = list(range(first, -1, -1) if backward else range(first, stored.sealed + 1))
        step = 1
        while unread:
            if unread[0] == stored.sealed:
                yield unread.pop(0), stored.tail
                continue
            some = [number for number in unread[:step] if number != stored.sealed]
            in_order = range(min(some), max(some) + 1)
            segments = await self._reader.segments(stored, in_order)
            if segments is None:
                raise await self._missing(stored)
            texts = {number: one.texts for number, one in zip(in_order, segments, strict=True)}
            for number in some:
                await asyncio.sleep(0)  # events of segments in memory come without any other pause
                yield number, texts[number]
            del unread[: len(some)]
            step = min(step * 2, _SEGMENTS_AT_ONCE)

    async def _event(self, stored: StoredSession, number: int, texts: Sequence[str], index: int) -> Event:
        where = self._reader.place_of(stored, number)
        some = await decode_events(texts[index : index + 1], where=where, first=index, pauses=Pauses())
        try:
            (event,) = await self._reader.complete_events(stored, some)
        except PayloadMissingError as exc:
            if await self._reader.is_gone(stored):
                raise _gone(stored.key) from exc
            raise
        return event

    async def _missing(self, stored: StoredSession) -> StoreError:
        """Return what it means that a segment of *stored* is not there."""
        if await self._reader.is_gone(stored):
            return _gone(stored.key)
        return StoredDataError(f"one of the {stored.sealed} segments is missing")

    async def _query(self, app: str, user: str | None, page: Page, *, include_state: bool) -> list[Document]:
        fields = HEADER_FIELDS if include_state else HEADER_WITHOUT_STATE
        collection = self._storage.layout.sessions_collection
        if user is not None:
            parent = self._storage.layout.user(UserKey(app=app, user=user))
            return await self._storage.documents.query(parent, collection, fields=fields, page=page)
        page = replace(page, where=("app", app))
        try:
            return await self._storage.documents.query(
                "", collection, all_descendants=True, fields=fields, page=page
            )
        except NotProvisionedError as exc:
            command = page_index(self._storage.layout.prefix, descending=page.descending).command
            raise NotProvisionedError(f"{exc}; pages of an app need an index: {command}") from exc

    async def _complete(
        self, sessions: Iterable[StoredSession], states: Mapping[UserKey, ScopedState] | None
    ) -> list[Found]:
        """Return *sessions* that are not gone with the *states* of their owners, read unless given."""
        living = await paced((stored, stored.key.owner) for stored in sessions if not stored.has_expired)
        if states is None:
            states = await self._states_of([owner for _, owner in living])
        found: list[Found] = []
        pauses = Pauses()
        light: dict[UserKey, bool] = {}
        for start in range(0, len(living), _COMPLETED_AT_ONCE):
            some: list[Found] = []
            for one, owner in living[start : start + _COMPLETED_AT_ONCE]:
                if owner not in light:
                    light[owner] = is_light((states[owner].app, states[owner].user))
                shared = await apart(partial(_own, states[owner]), light=light[owner])
                some.append(Found(stored=one, shared=shared, events=[]))
                if pauses.is_due:
                    await pauses.take()
            if any(refers(one.stored.state) for one in some):  # most have nothing to fetch
                completed = await fan_out(self._completed(one.stored, one.shared) for one in some)
                some = [one for one in completed if one is not None]
            found += some
        return found

    async def _completed(self, stored: StoredSession, shared: ScopedState) -> Found | None:
        """Return a session as the reader completes it, as it is now if it changed under the listing."""
        rereads = Rereads(self._storage.documents.deadline_s)
        while True:
            try:
                return await self._reader.complete(stored, [], shared)
            except PayloadMissingError:
                # A value may have been replaced since, and its payload removed.
                now = await self._reader.header(stored.key)
                if now is None:
                    return None
                if now.update_time == stored.update_time:
                    raise
                stored = now
            await rereads.again()

    async def _states_of(self, owners: Sequence[UserKey]) -> dict[UserKey, ScopedState]:
        """Return app and user state by user of one app."""
        users = list(dict.fromkeys(owners))
        states: dict[UserKey, ScopedState] = {}
        for start in range(0, len(users), _USERS_PER_READ):
            some = users[start : start + _USERS_PER_READ]
            # The app's state once; each scope with its payloads, side by side.
            paths = [self._storage.layout.user(owner) for owner in some]
            if not states:
                paths.append(self._storage.layout.app(some[0].app))
            documents = await self._storage.documents.get(paths)
            if not states:
                app = await self._reader.complete_app(some[0].app, documents.pop())
            found = await fan_out(
                self._reader.complete_user(owner, document)
                for owner, document in zip(some, documents, strict=True)
            )
            states |= {
                owner: ScopedState(app=app, user=user) for owner, user in zip(some, found, strict=True)
            }
        return states


async def _headers(documents: Sequence[Document], *, with_state: bool = True) -> list[StoredSession]:
    pauses = Pauses()
    found = []
    for document in documents:
        found.append(await decoded(partial(read_header, with_state=with_state), document))
        if pauses.is_due:
            await pauses.take()
    return found


def _own(shared: ScopedState) -> ScopedState:
    """Return what several sessions show for one of them: a caller may change what he gets."""
    return ScopedState(app=_copied(dict(shared.app)), user=_copied(dict(shared.user)))


def _copied(value: Any) -> Any:
    """Return an equal value of JSON; ``copy.deepcopy`` takes several times as long."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value


def _by_update(session: Session) -> tuple[float, str, str]:
    return session.last_update_time, session.user_id, session.id


def _is_count(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and given >= 1


def _gone(key: SessionKey) -> SessionMissingError:
    return SessionMissingError(f"Session {key.session} is gone meanwhile")


def _beyond(key: SessionKey) -> InvalidInputError:
    return InvalidInputError(f"cursor leads beyond the events of the session: {key}")
