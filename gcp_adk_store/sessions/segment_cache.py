"""Remember sealed segments, which never change, up to a bound of memory."""

from collections import OrderedDict

from gcp_adk_store.model.sessions import Segment
from gcp_adk_store.operations.forks import Guard


class SegmentCache:
    """Segments by path, the least recently used forgotten first; safe from any thread.

    A path holds the session's epoch, so a segment of it is the same for ever: nothing is ever invalidated.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity = capacity_bytes
        self._size = 0
        self._segments: OrderedDict[str, tuple[Segment, int]] = OrderedDict()
        self._guard = Guard()

    def get(self, path: str) -> Segment | None:
        """Return what was put, if it is still here."""
        with self._guard:
            known = self._segments.get(path)
            if known is None:
                return None
            self._segments.move_to_end(path)
            return known[0]

    def put(self, path: str, segment: Segment) -> None:
        """Keep *segment*; one that is larger than the whole cache is not kept."""
        size = sum(len(text.encode()) for text in segment.texts)
        with self._guard:
            if path in self._segments or size > self._capacity:
                return
            self._segments[path] = (segment, size)
            self._size += size
            while self._size > self._capacity:
                _, (_, forgotten) = self._segments.popitem(last=False)
                self._size -= forgotten
