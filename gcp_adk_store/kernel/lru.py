"""Keep the most recently used values within a limit of memory."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Lru(Generic[K, V]):
    """Values by key, the least recently used forgotten first; safe from any thread.

    cachetools would be a new dependency, and leaves the lock to its caller.
    """

    def __init__(self, capacity: int, size_of: Callable[[V], int] = lambda _: 1) -> None:
        """Keep values whose sizes are *capacity* together; by default so many values."""
        self._capacity = capacity
        self._size_of = size_of
        self._size = 0
        self._known: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._guard = threading.Lock()

    def get(self, key: K) -> V | None:
        """Return the value that was put, if it is still known."""
        with self._guard:
            if key not in self._known:
                return None
            self._known.move_to_end(key)
            return self._known[key][0]

    def put(self, key: K, value: V) -> None:
        """Remember *value*; one that is larger than the capacity is not kept."""
        size = self._size_of(value)
        with self._guard:
            self._size += size - self._known.pop(key, (None, 0))[1]
            self._known[key] = (value, size)
            if size > self._capacity:
                self._size -= self._known.pop(key)[1]  # it evicts no other value
            while self._size > self._capacity:
                self._size -= self._known.popitem(last=False)[1][1]

    def forget(self, is_meant: Callable[[K], bool]) -> None:
        """Forget the values of all keys that *is_meant* accepts."""
        with self._guard:
            for key in [key for key in self._known if is_meant(key)]:
                self._size -= self._known.pop(key)[1]
