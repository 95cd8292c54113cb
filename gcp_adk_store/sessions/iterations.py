"""Go through the events of a session one by one, in both directions."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Literal

from google.adk.events import Event

from gcp_adk_store.codec.cursors import decode_event_cursor, encode_cursor
from gcp_adk_store.codec.events import StoredEvent
from gcp_adk_store.errors import InvalidInputError, PayloadMissingError, SessionMissingError
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.sessions import EventPlace, Segment, StoredSession
from gcp_adk_store.operations.bounds import operation
from gcp_adk_store.operations.pauses import Pauses
from gcp_adk_store.sessions.arguments import beyond, require_either, require_limit, require_place
from gcp_adk_store.sessions.completion import decode_events
from gcp_adk_store.sessions.following import end_of, place_after, versions
from gcp_adk_store.sessions.reader import NOT_FOUND, SessionReader, segment_missing
from gcp_adk_store.sessions.storage import SessionStorage

_SEGMENTS_AT_ONCE: Final = 8
"""As many segments, of some 64 KiB of events each, as an iteration over events holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEvent:
    """An event of a session, and its place."""

    event: Event
    cursor: str
    """With it, an iteration in the same direction continues after this event."""


class IterationMethods:
    """The methods of the session service that go through the events of one session.

    The service's constructor sets the attributes.
    """

    _reader: SessionReader
    _storage: SessionStorage

    @operation
    async def iter_events(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        cursor: str | None = None,
        limit: int | None = None,
        direction: Literal["forward", "backward"] = "forward",
        follow: bool = False,
    ) -> AsyncGenerator[SessionEvent]:
        """Yield the events of a session one by one, with payloads, in append order or in reverse.

        They are those that the session has when the first one is requested. Takes 1 read then, and 1 for the
        next one to eight segments that this process does not know: a history of any length takes little
        memory.

        With *follow*, it goes on: it yields each event that any process appends, once and in append order,
        until the session is gone or the caller stops. Each change of the session document is 1 read, and
        holds the new events; a segment is read only if it was sealed together with events that were not
        yielded yet. Waiting costs nothing on Firestore. A local store yields the events of its own process at
        once, and those of others within half a second. A lost connection is opened again, which is 1 read,
        with growing waits of a minute at most. To begin with the last *n* events, pass the cursor of the
        *n*-th event of ``direction="backward"``.

        Args:
            app_name: The app.
            user_id: The user.
            session_id: The session.
            cursor: ``cursor`` of an event, to continue after it in *direction*; appends do not invalidate
                it. By default all events.
            limit: The most events; ``None`` for all.
            direction: ``forward`` from the oldest on, ``backward`` from the newest on.
            follow: Whether to wait for further events after the last one; only ``forward``.

        Raises:
            SessionMissingError: the session does not exist, or *cursor* belongs to an earlier one of its id;
                with *follow*, also when it is deleted or expires, also if another one then has its id.
            SessionConflictError: another call restored the session during the iteration, and events are gone:
                read the session again, and follow it anew.
            InvalidInputError: *cursor*, *limit* or *direction* is invalid, or a restore of the session took
                away the place of *cursor*: those of segments before the restore's point go on.
            UnavailableError: with *follow*, also when Firestore does not answer any more; go on from the last
                cursor.
        """
        require_either("direction", direction, "forward", "backward")
        require_limit(limit)
        backward = direction == "backward"
        if follow and backward:
            raise InvalidInputError('follow goes with direction="forward" alone: the newest events come last')
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        last: StoredSession | None = None
        place = EventPlace()
        count = 0
        async with aclosing(versions(self._storage, key) if follow else self._once(key)) as found:
            async for stored in found:
                if last is None:
                    place = _start(stored, cursor, backward=backward)
                else:
                    place = place_after(last, place, stored)
                last = stored
                async for event, after in self._events_from(stored, place, backward=backward):
                    told = encode_cursor((stored.epoch, after.segment, after.offset))
                    yield SessionEvent(event=event, cursor=told)
                    count += 1
                    if count == limit:
                        return
                place = end_of(stored)

    async def _once(self, key: SessionKey) -> AsyncGenerator[StoredSession]:
        """Yield the session *key* as it is now."""
        stored = await self._reader.stored(key)
        if stored is None or stored.has_expired:
            raise SessionMissingError(NOT_FOUND)
        yield stored

    async def _events_from(
        self, stored: StoredSession, place: EventPlace, *, backward: bool
    ) -> AsyncIterator[tuple[Event, EventPlace]]:
        """Yield the events of *stored* from *place* on, each with the place after it in this direction."""
        async for number, texts in self._runs(stored, place.segment, backward=backward):
            at_end = len(texts) if backward else 0
            start = place.offset if number == place.segment else at_end
            if start > len(texts):
                raise beyond()
            for index in reversed(range(start)) if backward else range(start, len(texts)):
                event = await self._event(stored, number, texts, index)
                yield event, EventPlace(segment=number, offset=index if backward else index + 1)

    async def _runs(
        self, stored: StoredSession, first: int, *, backward: bool
    ) -> AsyncIterator[tuple[int, Sequence[str]]]:
        """Yield the events of segments by number, and of the tail, some segments at a time."""
        numbers = [*stored.live, stored.sealed]
        unread = [number for number in numbers if (number <= first if backward else number >= first)]
        if backward:
            unread.reverse()
        step = 1
        while unread:
            if unread[0] == stored.sealed:
                yield unread.pop(0), stored.tail
                continue
            some = [number for number in unread[:step] if number != stored.sealed]
            in_order = sorted(some)
            segments = await self._segments(stored, in_order)
            texts = {number: one.texts for number, one in zip(in_order, segments, strict=True)}
            for number in some:
                await asyncio.sleep(0)  # reading segments in memory has no other pause
                yield number, texts[number]
            del unread[: len(some)]
            step = min(step * 2, _SEGMENTS_AT_ONCE)

    async def _segments(self, stored: StoredSession, numbers: Sequence[int]) -> list[Segment]:
        """Return segments by number; one that is gone is an error."""
        segments = await self._reader.segments(stored, numbers)
        if segments is None:
            raise await self._reader.lost(stored) or segment_missing(stored)
        return segments

    async def _event(self, stored: StoredSession, number: int, texts: Sequence[str], index: int) -> Event:
        where = self._reader.place_of(stored, number)
        some = texts[index : index + 1]
        (event,) = await decode_events(some, where=where, first=index, pauses=Pauses())
        return await self._completed_event(stored, event)

    async def _completed_event(
        self, stored: StoredSession, event: StoredEvent, *, only_whole: bool = False
    ) -> Event:
        """Return *event* with its payloads; with *only_whole*, without those of parts of its content."""
        try:
            if only_whole:
                return await self._reader.whole_event(stored, event)
            (completed,) = await self._reader.complete_events(stored, [event])
        except PayloadMissingError as exc:
            if lost := await self._reader.lost(stored):
                raise lost from exc
            raise
        return completed


def _start(stored: StoredSession, cursor: str | None, *, backward: bool) -> EventPlace:
    """Return where an iteration over *stored* begins."""
    if cursor is None:
        return end_of(stored) if backward else EventPlace()
    epoch, place = decode_event_cursor(cursor)
    if epoch != stored.epoch:
        raise SessionMissingError("the session of the cursor was deleted; another one has its id")
    require_place(place, stored)
    return place
