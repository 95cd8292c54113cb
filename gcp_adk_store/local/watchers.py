"""Wake those that watch documents."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from gcp_adk_store.errors import StoreError

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 0.5
"""Between two looks for commits of other processes. A look takes 0.1 ms, and reads one row's time."""


class Watcher:
    """One who waits for changes of a document, in one event loop."""

    def __init__(self, *, is_shared: bool) -> None:
        """Prepare it; *is_shared* says whether other processes may change the document, too."""
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._is_shared = is_shared
        self._pause_s = _FIRST_PAUSE_S
        self.is_closed = False

    def wake(self) -> None:
        """Wake it, from any thread."""
        with suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self._news.set)

    async def changed(self, *, may_wait_longer: bool) -> None:
        """Wait until the document may have changed.

        Args:
            may_wait_longer: Whether the last look found no change.

        Raises:
            StoreError: the store was closed.
        """
        longer_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        self._pause_s = longer_s if may_wait_longer else _FIRST_PAUSE_S
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), self._pause_s if self._is_shared else None)
        if self.is_closed:
            raise StoreError("the store was closed while a session was followed")
        self._news.clear()


class Watchers:
    """The watchers of the documents of one database in this process."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._of: dict[bytes, set[Watcher]] = {}

    @contextmanager
    def of(self, key: bytes, *, is_shared: bool) -> Iterator[Watcher]:
        """Return a watcher of the document *key* for the block; the rest is as :class:`Watcher`."""
        watcher = Watcher(is_shared=is_shared)
        with self._guard:
            self._of.setdefault(key, set()).add(watcher)
        try:
            yield watcher
        finally:
            with self._guard:
                others = self._of.get(key, set())
                others.discard(watcher)
                if not others:
                    self._of.pop(key, None)

    def wake(self, keys: Sequence[bytes]) -> None:
        """Wake the watchers of the documents *keys*, which may have changed."""
        if not self._of:
            return
        with self._guard:
            watchers = [watcher for key in keys for watcher in self._of.get(key, ())]
        for watcher in watchers:
            watcher.wake()

    def close(self) -> None:
        """End all watchers."""
        with self._guard:
            ended = [watcher for watchers in self._of.values() for watcher in watchers]
        for watcher in ended:
            watcher.is_closed = True
            watcher.wake()
