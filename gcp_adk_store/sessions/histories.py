"""Read histories: all events of a user, and what a session used."""

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, replace
from typing import Final

from google.adk.events import Event

from gcp_adk_store.codec.cursors import decode_user_event_cursor, encode_user_event_cursor
from gcp_adk_store.codec.stored import read_session
from gcp_adk_store.codec.values import FieldValue
from gcp_adk_store.codec.writes import Page
from gcp_adk_store.errors import SessionMissingError, StoredDataError
from gcp_adk_store.kernel.lru import Lru
from gcp_adk_store.kernel.pauses import Pauses, apart
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.segment_numbers import is_cut
from gcp_adk_store.model.sessions import EventPlace, StoredSession
from gcp_adk_store.model.usage import SessionUsage, UsageCounter
from gcp_adk_store.sessions.arguments import (
    beyond,
    require_limit,
    require_place,
    require_time,
)
from gcp_adk_store.sessions.completion import decode_events, decoded
from gcp_adk_store.sessions.iterations import SessionEvents
from gcp_adk_store.sessions.reader import NOT_FOUND, SessionReader
from gcp_adk_store.sessions.storage import SessionStorage
from gcp_adk_store.sessions.unreadable import place_by_update

_SESSIONS_PER_READ: Final = 16
"""Session documents, of 1 MiB at most, that an iteration over a user's events holds."""

_KNOWN_SESSIONS: Final = 1000
"""Sessions of which an iteration over a user's events knows how far it came: some 100 kB."""

_LIGHT_TURNS: Final = 500
"""Turns that are added up in some milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserEvent:
    """An event of one of a user's sessions."""

    session_id: str
    event: Event
    cursor: str
    """With it, an iteration of the same user and *after* continues after this event."""


class UserEvents:
    """Goes through the events of all sessions of a user."""

    def __init__(self, storage: SessionStorage, reader: SessionReader, events: SessionEvents) -> None:
        self._storage = storage
        self._reader = reader
        self._events = events

    async def iterate(
        self, user: UserKey, *, after: float | None, cursor: str | None, limit: int | None
    ) -> AsyncGenerator[UserEvent]:
        """Yield the events of a user as the service's ``iter_user_events``, which has the errors."""
        require_limit(limit)
        if after is not None:
            after = require_time("after", after)
        listing = f"{user} {after}"
        came_to = Lru[str, tuple[str, EventPlace]](_KNOWN_SESSIONS)
        place = None
        if cursor is not None:
            time, session_id, epoch, reached = decode_user_event_cursor(cursor, listing=listing)
            place = time, SessionKey(app=user.app, user=user.user, session=session_id), epoch
            came_to.put(session_id, (epoch, reached))
        count = 0
        damaged: StoredDataError | None = None
        async for last_update, stored in self._updated_sessions(user, after, place):
            session_id, epoch = stored.key.session, stored.epoch
            before = came_to.get(session_id)
            start = before[1] if before is not None and before[0] == epoch else None
            if start is not None and is_cut(start.segment, stored.cut):
                start = None  # it was restored: what comes after that place is not what came after it before
            try:
                async for reached, event in self._later_events(stored, start, after):
                    came_to.put(session_id, (epoch, reached))
                    told = encode_user_event_cursor(
                        listing, last_update, session_id, epoch=epoch, place=reached
                    )
                    yield UserEvent(session_id=session_id, event=event, cursor=told)
                    count += 1
                    if count == limit:
                        return
            except SessionMissingError:
                continue  # another call deleted it, or it has expired
            except StoredDataError as exc:
                damaged = damaged or exc
        if damaged is not None:
            raise damaged

    async def _updated_sessions(
        self, user: UserKey, after: float | None, place: tuple[float, SessionKey, str] | None
    ) -> AsyncIterator[tuple[float, StoredSession]]:
        """Yield living sessions of *user* that were updated later than *after*, by their last update.

        With the *place* of a cursor, these are its session, if it has the epoch, and those after it. The time
        that comes with a session is its own, and for the session of a cursor that of the cursor.

        Raises:
            StoredDataError: a session cannot be read; it comes after all others were yielded.
        """
        documents, layout = self._storage.documents, self._storage.layout
        last: tuple[FieldValue, str] | None = None
        damaged: StoredDataError | None = None
        if place is not None:
            time, key, epoch = place
            last = time, layout.session(key)
            stored = await self._reader.stored(key)
            if stored is not None and stored.epoch == epoch and not stored.has_expired:
                yield time, stored
        elif after is not None:
            last = after, layout.session(SessionKey(app=user.app, user=user.user, session="-"))
        page = Page(field="last_update_time", descending=False, limit=_SESSIONS_PER_READ, after=last)
        while True:
            found = await documents.query(layout.user(user), layout.sessions_collection, page=page)
            for document in found:
                last = place_by_update(document)
                try:
                    stored = await decoded(read_session, document)
                except StoredDataError as exc:
                    damaged = damaged or exc
                    continue
                # The first page begins at *after* itself, with the sessions whose names are later.
                if not stored.has_expired and (after is None or stored.last_update_time > after):
                    yield stored.last_update_time, stored
            if len(found) < page.limit:
                break
            page = replace(page, after=last)
        if damaged is not None:
            raise damaged

    async def _later_events(
        self, stored: StoredSession, start: EventPlace | None, after: float | None
    ) -> AsyncIterator[tuple[EventPlace, Event]]:
        """Yield events of *stored* later than *after*, from *start* on if given, and the place after each."""
        if start is None:
            start = EventPlace(segment=0 if after is None else await self._first_later(stored, after))
        require_place(start, stored)
        pauses = Pauses()
        async for number, texts in self._events.runs(stored, start.segment, backward=False):
            offset = start.offset if number == start.segment else 0
            if offset > len(texts):
                raise beyond()
            where = self._reader.place_of(stored, number)
            events = await decode_events(texts[offset:], where=where, first=offset, pauses=pauses)
            for index, event in enumerate(events, start=offset):
                if after is None or event.timestamp > after:
                    place = EventPlace(segment=number, offset=index + 1)
                    yield place, await self._events.completed(stored, event)

    async def _first_later(self, stored: StoredSession, after: float) -> int:
        """Return the number of the first segment with an event later than *after*, or that of the tail."""
        if stored.sealed_max is None or stored.sealed_max <= after:
            return stored.sealed
        # The newest times do not fall from segment to segment, and callers mostly ask for recent events.
        live = stored.live
        low, high, step = 0, len(live) - 1, 1
        while low < high:
            middle = max((low + high) // 2, high - step)
            (segment,) = await self._events.segments(stored, [live[middle]])
            if segment.running_max > after:
                high, step = middle, step * 2
            else:
                low = middle + 1
        return live[low]


async def usage_of(key: SessionKey, reader: SessionReader, events: SessionEvents) -> SessionUsage:
    """Return what a session used, as the service's ``get_session_usage``, which has the errors."""
    stored = await reader.stored(key)
    if stored is None or stored.has_expired:
        raise SessionMissingError(NOT_FOUND)
    counter = UsageCounter()
    pauses = Pauses()
    async for number, texts in events.runs(stored, 0, backward=False):
        where = reader.place_of(stored, number)
        for event in await decode_events(texts, where=where, pauses=pauses):
            counter.add(await events.completed(stored, event, only_whole=True))
            if pauses.is_due:
                await pauses.take()
    return await apart(counter.usage, light=counter.turns <= _LIGHT_TURNS)
