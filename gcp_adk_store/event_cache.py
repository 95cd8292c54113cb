"""Remember events by the JSON text they were read from, up to a bound of memory."""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final

from gcp_adk_store.codec.event_copies import copy_event
from gcp_adk_store.codec.events import StoredEvent, decode_event
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.pauses import Pauses

_AT_ONCE: Final = 8
"""Events between two looks at the clock: 256 KB of JSON each, at most, take some milliseconds."""

_OBJECT_BYTES: Final = 5000
"""What the objects of an event take, beside its strings: measured with tracemalloc, for one part of text."""


class EventCache:
    """Events by text, the least recently used forgotten first; safe from any thread.

    The same text is the same event for ever: nothing is ever invalidated. What is remembered is handed out as
    copies only.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity = capacity_bytes
        self._size = 0
        self._events: OrderedDict[str, StoredEvent] = OrderedDict()
        self._guard = threading.Lock()

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
        try:
            for start in range(0, len(texts), _AT_ONCE):
                for text, known in self._look_up(texts[start : start + _AT_ONCE]):
                    events.append(self._decode(text, remember=remember) if known is None else _copied(known))
                if pauses.is_due:
                    await pauses.take()
        except StoredDataError as exc:
            raise StoredDataError(f"{where}: event {first + len(events)}: {exc}") from exc.__cause__
        return events

    def has_place_for(self, runs: Iterable[Sequence[str]]) -> bool:
        """Tell whether all of these events can be remembered, and others beside them.

        Of a history that is larger, each event would push out the one that is read next.
        """
        return 2 * sum(_size_of(text) for texts in runs for text in texts) <= self._capacity

    def put(self, text: str, event: StoredEvent) -> None:
        """Keep *event*, which nobody else may hold any more."""
        size = _size_of(text)
        with self._guard:
            if text in self._events or size > self._capacity:
                return
            self._events[text] = event
            self._size += size
            while self._size > self._capacity:
                forgotten, _ = self._events.popitem(last=False)
                self._size -= _size_of(forgotten)

    def _look_up(self, texts: Sequence[str]) -> list[tuple[str, StoredEvent | None]]:
        with self._guard:
            found = [(text, self._events.get(text)) for text in texts]
            for text, known in found:
                if known is not None:
                    self._events.move_to_end(text)
        return found

    def _decode(self, text: str, *, remember: bool) -> StoredEvent:
        read = decode_event(text)
        if not remember or _size_of(text) > self._capacity:
            return read
        self.put(text, read)
        return _copied(read)


def _copied(known: StoredEvent) -> StoredEvent:
    return StoredEvent(event=copy_event(known.event), missing=known.missing)


def _size_of(text: str) -> int:
    return _OBJECT_BYTES + 2 * len(text)
