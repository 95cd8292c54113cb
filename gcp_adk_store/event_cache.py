"""Remember events by the JSON text they were read from, up to a bound of memory."""

import sys
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final

from gcp_adk_store import telemetry
from gcp_adk_store.codec.event_copies import copy_event
from gcp_adk_store.codec.events import StoredEvent, decode_event
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.forks import Guard
from gcp_adk_store.pauses import Pauses

_AT_ONCE: Final = 8
"""Events that are looked up at a time."""

# What the objects of an event take, beside its strings, measured with tracemalloc. The largest of each kind:
# a map of a state is smaller than a part of a content, and a number than a key and its value.
_EVENT_BYTES: Final = 2500
_OBJECT_BYTES: Final = 850
_ITEM_BYTES: Final = 75
_OBJECTS_OF_EACH: Final = 7
"""The event, its actions and their empty maps."""

_ORDINARY_BYTES: Final = 5000
"""All of that in an ordinary event."""

_UNKNOWN: Final = (None, 0)


class EventCache:
    """Events by text, the least recently used forgotten first; safe from any thread.

    The same text is the same event for ever: nothing is ever invalidated. What is remembered is handed out as
    copies only.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity = capacity_bytes
        self._size = 0
        self._events: OrderedDict[str, tuple[StoredEvent, int]] = OrderedDict()
        self._guard = Guard()

    async def decode(
        self, texts: Sequence[str], *, where: str, remember: bool, pauses: Pauses, first: int = 0
    ) -> list[StoredEvent]:
        """Return the events that *texts* hold, the caller's own.

        Args:
            texts: A run of events.
            where: The document that holds them, for errors.
            remember: Whether those that are new here are likely to be read again.
            pauses: Of the read that this is a part of: a thousand new events take tens of milliseconds.
            first: Place of the first of them in the document.

        Raises:
            StoredDataError: one is none, as for :func:`~gcp_adk_store.codec.events.decode_event`; it is told
                by its place.
        """
        events: list[StoredEvent] = []
        hits = 0
        try:
            for start in range(0, len(texts), _AT_ONCE):
                for text, known in self._look_up(texts[start : start + _AT_ONCE]):
                    events.append(self._decode(text, remember=remember) if known is None else _copied(known))
                    hits += known is not None
                    if pauses.is_due:  # an event can be of 256 KB of JSON
                        await pauses.take()
        except StoredDataError as exc:
            raise StoredDataError(f"{where}: event {first + len(events)}: {exc}") from exc.__cause__
        if events:
            telemetry.count_lookups("events", hits=hits, misses=len(events) - hits)
        return events

    def has_place_for(self, runs: Iterable[Sequence[str]]) -> bool:
        """Tell whether all of these events can be remembered, and others beside them.

        Of a history that is larger, each event would push out the one that is read next.
        """
        # Roughly: each read of a long history asks. What is larger than that has the other half.
        return 2 * sum(_ORDINARY_BYTES + 2 * len(text) for texts in runs for text in texts) <= self._capacity

    def put(self, text: str, event: StoredEvent) -> bool:
        """Keep *event*, which nobody else may hold any more; tell whether it is kept."""
        size = _size_of(text)
        with self._guard:
            if text in self._events or size > self._capacity:
                return False
            self._events[text] = (event, size)
            self._size += size
            while self._size > self._capacity:
                _, (_, forgotten) = self._events.popitem(last=False)
                self._size -= forgotten
            return True

    def _look_up(self, texts: Sequence[str]) -> list[tuple[str, StoredEvent | None]]:
        with self._guard:
            found: list[tuple[str, StoredEvent | None]] = []
            for text in texts:
                event, _ = self._events.get(text, _UNKNOWN)
                if event is not None:
                    self._events.move_to_end(text)
                found.append((text, event))
        return found

    def _decode(self, text: str, *, remember: bool) -> StoredEvent:
        read = decode_event(text)
        if not remember or not self.put(text, read):
            return read
        return _copied(read)


def _copied(known: StoredEvent) -> StoredEvent:
    return StoredEvent(event=copy_event(known.event), missing=known.missing)


def _size_of(text: str) -> int:
    """Return about what an event and its *text* take, rather too much than too little.

    Counted in the text, which is compact JSON: an object begins as those do, and a comma in a sentence has a
    space after it.
    """
    objects = text.count('{"') + text.count("{}")
    items = text.count(",") - text.count(", ") + text.count("[")
    # The text and the strings that were read from it; Python keeps what is not ASCII as UTF-8, too.
    strings = sys.getsizeof(text) * (2 if text.isascii() else 4)
    return _EVENT_BYTES + _OBJECT_BYTES * max(0, objects - _OBJECTS_OF_EACH) + _ITEM_BYTES * items + strings
