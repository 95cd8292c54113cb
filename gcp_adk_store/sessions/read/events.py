"""Iterate over the events of a session, and follow it."""

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Literal

from google.adk.events import Event

from gcp_adk_store.codec.cursors import decode_event_cursor, encode_cursor
from gcp_adk_store.codec.decode import StoredEvent
from gcp_adk_store.codec.stored import read_session
from gcp_adk_store.errors import InvalidInputError, SessionConflictError, SessionMissingError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.concurrency import Pauses, stepping
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.sessions import EventPlace, Segment, StoredSession
from gcp_adk_store.sessions.read.completion import decode_events, decoded
from gcp_adk_store.sessions.read.reader import SessionReader, segment_missing
from gcp_adk_store.sessions.read.session_objects import beyond, require_limit, require_place
from gcp_adk_store.sessions.read.storage import SessionStorage


async def versions(storage: SessionStorage, key: SessionKey) -> AsyncGenerator[StoredSession]:
    """Yield the session *key* as it is now, and again after each change of its document.

    1 read for each yielded version; versions that follow each other quickly may become one. Waiting is no
    time of the running operation.

    Raises:
        SessionMissingError: the session does not exist, was deleted or has expired, or another one has its
            id.
        SessionConflictError: it was restored.
        UnavailableError: the connection was lost, and the database did not answer before the deadline.
    """
    documents, path = storage.documents, storage.layout.session(key)
    last: StoredSession | None = None
    async with stepping(documents.watch(path)) as step:
        while True:
            left_s = None
            if last is not None and last.expiry is not None:
                left_s = max(0.0, last.expires_at - documents.clock.now())
            with telemetry.idle():
                come = await step(left_s)
            # At the end of its life it is read once more: perhaps others appended just before.
            (document,) = come if come is not None else await documents.get([path])
            stored = None if document is None else await decoded(read_session, document)
            if stored is None or stored.has_expired:
                if last is None:
                    raise SessionMissingError
                raise SessionMissingError("the session was deleted, or expired")
            if last is not None:
                _require_same(last, stored)
            is_new = last is None or stored.update_time != last.update_time
            last = stored
            if is_new:
                yield stored


def place_after(last: StoredSession, place: EventPlace, now: StoredSession) -> EventPlace:
    """Return where the events after *place*, the end of *last*, begin in a later version of the session.

    If nothing was appended since, it is the end of *now*: then no segment is read to learn that.
    """
    if now.revision != last.revision:
        return place
    return end_of(now)


def end_of(stored: StoredSession) -> EventPlace:
    """Return the place after the last event of *stored*; its tail has the number of its later segment."""
    return EventPlace(segment=stored.sealed, offset=len(stored.tail))


def _require_same(before: StoredSession, now: StoredSession) -> None:
    if now.epoch != before.epoch:
        raise SessionMissingError("the session was deleted; another one has its id")
    if now.restores != before.restores:
        raise SessionConflictError(
            "another call restored the session to an earlier point, so events that were yielded may be gone: "
            "read it again, and follow it anew"
        )


_SEGMENTS_AT_ONCE: Final = 8
"""As many segments, of some 64 KiB of events each, as an iteration over events holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEvent:
    """An event of a session, and its place."""

    event: Event
    cursor: str
    """With it, an iteration in the same direction continues after this event."""


class SessionEvents:
    """Goes through the events of the sessions below one prefix of a database."""

    def __init__(self, storage: SessionStorage, reader: SessionReader) -> None:
        self._storage = storage
        self._reader = reader

    async def iterate(
        self,
        key: SessionKey,
        *,
        cursor: str | None,
        limit: int | None,
        direction: Literal["forward", "backward"],
        follow: bool,
        seen: Callable[[StoredSession], None] = lambda _: None,
    ) -> AsyncGenerator[SessionEvent]:
        """Yield the events of a session as the service's ``iter_events``, which has the errors.

        *seen* is called with each version of the session before its events.
        """
        require_limit(limit)
        backward = direction == "backward"
        if follow and backward:
            raise InvalidInputError('follow needs direction="forward": the newest events come last')
        last: StoredSession | None = None  # whose events have all been yielded
        place: EventPlace | None = None
        count = 0
        async with aclosing(versions(self._storage, key) if follow else self._once(key)) as found:
            async for stored in found:
                seen(stored)
                if place is None:
                    place = _start(stored, cursor, backward=backward)
                elif last is not None:
                    place = place_after(last, place, stored)
                last = None
                try:
                    async for event, after in self._events_from(stored, place, backward=backward):
                        place = after
                        next_cursor = encode_cursor((stored.epoch, place.segment, place.offset))
                        yield SessionEvent(event=event, cursor=next_cursor)
                        count += 1
                        if count == limit:
                            return
                except SessionConflictError:
                    if not follow:
                        raise
                    # The next version goes on after a redaction, and raises after a restore.
                else:
                    last, place = stored, end_of(stored)

    async def _once(self, key: SessionKey) -> AsyncGenerator[StoredSession]:
        """Yield the session *key* as it is now."""
        yield await self._reader.living(key)

    async def _events_from(
        self, stored: StoredSession, place: EventPlace, *, backward: bool
    ) -> AsyncIterator[tuple[Event, EventPlace]]:
        """Yield the events of *stored* from *place* on, each with the place after it in this direction."""
        pauses = Pauses()
        async for number, texts in self.runs(stored, place.segment, backward=backward):
            at_end = len(texts) if backward else 0
            start = place.offset if number == place.segment else at_end
            if start > len(texts):
                raise beyond()
            where = self._reader.place_of(stored, number)
            for index in reversed(range(start)) if backward else range(start, len(texts)):
                some = texts[index : index + 1]
                (event,) = await decode_events(some, where=where, first=index, pauses=pauses)
                place_after_it = EventPlace(segment=number, offset=index if backward else index + 1)
                yield await self.completed(stored, event), place_after_it

    async def runs(
        self, stored: StoredSession, first: int, *, backward: bool
    ) -> AsyncIterator[tuple[int, Sequence[str]]]:
        """Yield the events of segments by number, and of the tail, some segments at a time."""
        live, at, step = stored.live, 0, 1
        unread = live[: bisect_right(live, first)][::-1] if backward else live[bisect_left(live, first) :]
        if backward and stored.sealed <= first:
            yield stored.sealed, stored.tail
        while some := unread[at : at + step]:
            in_order = sorted(some)
            segments = await self.segments(stored, in_order)
            texts = {number: one.texts for number, one in zip(in_order, segments, strict=True)}
            for number in some:
                await asyncio.sleep(0)  # reading segments in memory has no other pause
                yield number, texts[number]
            at += len(some)
            step = min(step * 2, _SEGMENTS_AT_ONCE)
        if not backward and stored.sealed >= first:
            yield stored.sealed, stored.tail

    async def segments(self, stored: StoredSession, numbers: Sequence[int]) -> list[Segment]:
        """Return segments by number; one that is gone is an error."""
        segments = await self._reader.segments(stored, numbers)
        if segments is None:
            raise await self._reader.lost(stored) or segment_missing(stored)
        return segments

    async def completed(self, stored: StoredSession, event: StoredEvent) -> Event:
        """Return *event* with its payloads."""
        async with self._reader.unless_lost(stored):
            (completed,) = await self._reader.complete_events(stored, [event])
        return completed

    async def whole(self, stored: StoredSession, event: StoredEvent) -> StoredEvent:
        """Return *event*, read if it is a payload as a whole, without payloads of parts of its content."""
        async with self._reader.unless_lost(stored):
            whole = await self._reader.whole_event(stored, event)
        if whole.is_lost and (lost := await self._reader.lost(stored)):
            raise lost
        return whole


def _start(stored: StoredSession, cursor: str | None, *, backward: bool) -> EventPlace:
    """Return where an iteration over *stored* begins."""
    if cursor is None:
        return end_of(stored) if backward else EventPlace()
    epoch, place = decode_event_cursor(cursor)
    if epoch != stored.epoch:
        raise SessionMissingError("the session of the cursor was deleted; another one has its id")
    require_place(place, stored)
    return place
