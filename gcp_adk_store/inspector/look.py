"""Find places in a session from a few of its segments."""

from bisect import bisect_left
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from google.adk.events import Event

from gcp_adk_store.codec.cursors import decode_event_cursor, encode_cursor
from gcp_adk_store.codec.decode import StoredEvent, references
from gcp_adk_store.codec.encode import WHOLE
from gcp_adk_store.errors import (
    InvalidInputError,
    PayloadMissingError,
    PointMissingError,
    SessionMissingError,
    StoredDataError,
)
from gcp_adk_store.kernel.concurrency import Pauses
from gcp_adk_store.model.sessions import EventPlace, Segment, StoredSession
from gcp_adk_store.sessions.read.completion import decode_events
from gcp_adk_store.sessions.read.events import SessionEvents, end_of
from gcp_adk_store.sessions.read.reader import SessionReader
from gcp_adk_store.sessions.read.session_objects import beyond, require_place

READS: Final = 40
"""Segments that one page reads, and payloads that are whole events."""

_AT_ONCE: Final = 8
"""Segments of one read, as of an iteration over events."""


Near = tuple[str, int]
"""A cursor, and the number of events before it."""

Known = tuple[int, EventPlace]
"""A number of events, and the place after them."""


class FartherError(Exception):
    """What a page asks for is farther than it reads; the next page goes on near a place."""

    def __init__(self, near: str, number: int | None = None) -> None:
        super().__init__("what is asked for is farther than one page reads")
        self.near = near
        self.number = number
        """Events of the session before that place; ``None`` if they were not counted."""
        self.parameters = {"near": near} | ({} if number is None else {"number": str(number)})
        """What the next page is asked with, beside what this one was."""


@dataclass(frozen=True, slots=True)
class Step:
    """An event of a session, and the place before it."""

    place: EventPlace
    stored: StoredEvent

    @property
    def event(self) -> Event:
        """The event, with a text for its content if it is a payload as a whole that is gone."""
        return self.stored.event

    @property
    def after(self) -> EventPlace:
        """The place after it."""
        return EventPlace(segment=self.place.segment, offset=self.place.offset + 1)

    @property
    def changes(self) -> Mapping[str, Any]:
        """The values that it gives to keys of state.

        Raises:
            PayloadMissingError: it is a payload as a whole that is gone, so nobody knows what it changed.
        """
        if self.stored.is_lost:
            raise PayloadMissingError(
                f"the payload of event {self.event.id!r} is gone, so its changes of state are unknown; "
                "gcp-adk-store fsck names the payload"
            )
        return self.event.actions.state_delta


class Look:
    """One version of a session, of which a page reads a few segments."""

    def __init__(
        self, stored: StoredSession, reader: SessionReader, events: SessionEvents, *, most: int = READS
    ) -> None:
        self.stored = stored
        self.left = most
        """Segments that may still be read."""
        self.is_spent = False
        """Whether the last walk ended because none may."""
        self._reader = reader
        self._events = events
        self._numbers = [*stored.live, stored.sealed]
        self._segments: dict[int, Segment] = {}

    @property
    def start(self) -> EventPlace:
        """The place before all events."""
        return EventPlace(segment=self._numbers[0])

    @property
    def end(self) -> EventPlace:
        """The place after all events."""
        return end_of(self.stored)

    async def newest(self) -> tuple[EventPlace, int]:
        """Return the first place from which all events up to the end may be read, and how many they are.

        Reads their segments.
        """
        place, count, payloads = self.end, 0, 0
        try:
            async for number, texts in self.runs(place, backward=True):
                for offset in reversed(range(len(texts))):
                    if WHOLE in references(texts[offset]):
                        if not self.left:
                            return place, count
                        self.left -= 1
                        payloads += 1
                    place, count = EventPlace(segment=number, offset=offset), count + 1
            return place, count
        finally:
            self.left += payloads

    def cursor(self, place: EventPlace) -> str:
        """Return *place* as a text, with which an iteration forward begins there."""
        return encode_cursor((self.stored.epoch, place.segment, place.offset))

    def place_of(self, cursor: str) -> EventPlace:
        """Return the place that *cursor* names.

        Raises:
            SessionMissingError: it is of another session of this id.
            InvalidInputError: it is malformed, or a restore took the place away.
        """
        epoch, place = decode_event_cursor(cursor)
        if epoch != self.stored.epoch:
            raise SessionMissingError("the session of the cursor was deleted; another one has its id")
        require_place(place, self.stored)
        return place

    def conflicts(self, number: int) -> int:
        """Return how many appends conflicted while the tail held the events of a segment that was read."""
        return (self.stored if number == self.stored.sealed else self._segments[number]).conflicts

    def between(self, begin: EventPlace, end: EventPlace) -> int:
        """Return how many segments have the events between two places."""
        return sum(begin.segment <= number <= end.segment for number in self._numbers[:-1])

    async def runs(self, place: EventPlace, *, backward: bool) -> AsyncIterator[tuple[int, Sequence[str]]]:
        """Yield segments with their events as texts from that of *place* on, until no more may be read."""
        self.is_spent = False
        here = place.segment
        unread = [each for each in self._numbers if (each <= here if backward else each >= here)]
        if backward:
            unread.reverse()
        step = 1
        while unread:
            some = self._affordable(unread[:step])
            if not some:
                self.is_spent = True
                return
            await self._read(some)
            for number in some:
                yield number, self._texts(number)
            del unread[: len(some)]
            step = min(2 * step, _AT_ONCE)

    async def walk(self, place: EventPlace, *, backward: bool, whole: bool = True) -> AsyncIterator[Step]:
        """Yield the events from *place* on, without payloads of their content, until no more may be read.

        Without *whole*, those that are a payload as a whole have only their id, author and time.

        Raises:
            InvalidInputError: the session has no such place.
        """
        pauses = Pauses()
        async for number, texts in self.runs(place, backward=backward):
            begin, end = self._part(place, number, len(texts), backward=backward)
            where = self._reader.place_of(self.stored, number)
            found = await decode_events(texts[begin:end], where=where, first=begin, pauses=pauses)
            offsets = range(begin, end)
            for offset in reversed(offsets) if backward else offsets:
                step = Step(EventPlace(segment=number, offset=offset), found[offset - begin])
                if whole and WHOLE in step.stored.missing:
                    if not self.left:
                        self.is_spent = True
                        return
                    self.left -= 1
                    step = await self._whole(step)
                yield step

    async def _whole(self, step: Step) -> Step:
        return Step(step.place, await self._events.whole(self.stored, step.stored))

    def known(self, near: Near | None) -> Known | None:
        """Return where an earlier page came to: as :meth:`place_of`, which has the errors."""
        return None if near is None else (near[1], self.place_of(near[0]))

    async def event(self, event_id: str, at: str | None, near: Known | None) -> Step:
        """Return an event by its id: at the place *at*, or else the newest one before the place *near*.

        *near* is by default the end of the session.

        Raises:
            FartherError: none of the events that may be read is it.
            SessionMissingError: the session has no such event.
        """
        if at is not None:
            found = await self._event_at(at)
            if found is not None and found.event.id == event_id:
                return await self._whole(found)
        number, place = near or (self.stored.revision, self.end)
        async for step in self.walk(place, backward=True, whole=False):
            if step.event.id == event_id:
                return await self._whole(step)
            number, place = number - 1, step.place
        if self.is_spent:
            raise FartherError(self.cursor(place), max(0, number))
        raise SessionMissingError("the session has no event of this id; a restore may have removed it")

    async def _event_at(self, at: str) -> Step | None:
        """Return the event at a place; ``None`` if a restore took it away, or it is of another session."""
        try:
            async for step in self.walk(self.place_of(at), backward=False, whole=False):
                return step
        except (InvalidInputError, SessionMissingError):
            pass
        return None

    async def position(self, number: int, near: Known | None) -> EventPlace:
        """Return the place after the first *number* events, from the nearest of both ends and *near*.

        Raises:
            PointMissingError: the session has fewer events.
            FartherError: it is farther from all three than may be read.
        """
        if number > self.stored.revision:
            have = self.stored.revision
            raise PointMissingError(f"the session has {have} events, the point is after {number}")
        known = [(0, self.start), (self.stored.revision, self.end), *([near] if near else [])]
        count, place = min(known, key=lambda each: abs(each[0] - number))
        backward = number < count
        last = place
        async for segment, texts in self.runs(place, backward=backward):
            begin, end = self._part(place, segment, len(texts), backward=backward)
            if abs(number - count) <= end - begin:
                offset = end - (count - number) if backward else begin + number - count
                return EventPlace(segment=segment, offset=offset)
            count += begin - end if backward else end - begin
            last = EventPlace(segment=segment, offset=begin if backward else end)
        if self.is_spent:
            raise FartherError(self.cursor(last), count)
        raise StoredDataError("the session does not have as many events as it counts")

    async def as_of(self, time: float, near: Known | None) -> EventPlace:
        """Return the place before the first event with a later timestamp than *time*, Unix time in seconds.

        Takes about log2 of the segments in reads: the newest time of a segment and of all before never falls.
        No event before *near* is later.

        Raises:
            FartherError: it is farther than may be read.
        """
        place = near[1] if near else self.start
        low, high = bisect_left(self._numbers, place.segment), len(self._numbers) - 1
        while low < high:
            middle = (low + high) // 2
            number = self._numbers[middle]
            if not self._affordable([number]):
                raise FartherError(self.cursor(place))
            await self._read([number])
            if self._segments[number].running_max > time:
                high = middle
            else:
                low = middle + 1
                place = EventPlace(segment=self._numbers[low])
        async for step in self.walk(place, backward=False, whole=False):
            if step.event.timestamp > time:
                return step.place
            place = step.after
        if self.is_spent:
            raise FartherError(self.cursor(place))
        return self.end

    async def initial(self) -> Mapping[str, Any]:
        """Return the state that the session was created with, without payloads of its values.

        Takes 1 read, and 1 if it is a payload as a whole.
        """
        first = self._numbers[:1] if self.stored.live else []
        await self._read(first)
        return await self._reader.initial(self.stored, [self._segments[each] for each in first])

    async def first_values(self, keys: Iterable[str]) -> Mapping[str, Any]:
        """Return those of *keys* that the session was created with; also reads payloads of their values."""
        initial = await self.initial()
        wanted = {key: initial[key] for key in keys if key in initial}
        return await self._reader.state_of(self.stored, wanted)

    def _affordable(self, numbers: Sequence[int]) -> list[int]:
        some: list[int] = []
        cost = 0
        for number in numbers:
            cost += number != self.stored.sealed and number not in self._segments
            if cost > self.left:
                break
            some.append(number)
        return some

    async def _read(self, numbers: Iterable[int]) -> None:
        unknown = sorted(
            each for each in numbers if each != self.stored.sealed and each not in self._segments
        )
        self.left -= len(unknown)
        found = await self._events.segments(self.stored, unknown)
        self._segments.update(zip(unknown, found, strict=True))

    def _texts(self, number: int) -> Sequence[str]:
        return self.stored.tail if number == self.stored.sealed else self._segments[number].texts

    def _part(self, place: EventPlace, number: int, count: int, *, backward: bool) -> tuple[int, int]:
        """Return the first and the last offset of the events of a segment that a walk from *place* has."""
        if number != place.segment:
            return 0, count
        if place.offset > count:
            raise beyond()
        return (0, place.offset) if backward else (place.offset, count)
