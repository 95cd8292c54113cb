"""Wake those that watch documents."""

import asyncio
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress


class Watchers:
    """Those that watch documents of one database in this process, each in its event loop."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._of: dict[bytes, list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = {}
        self.closings = 0
        """How often they were ended."""

    @contextmanager
    def of(self, key: bytes) -> Iterator[asyncio.Event]:
        """Return, for the block, what is set when the document *key* may have changed, or watchers end."""
        mine = asyncio.get_running_loop(), asyncio.Event()
        with self._guard:
            self._of.setdefault(key, []).append(mine)
        try:
            yield mine[1]
        finally:
            with self._guard:
                self._of[key].remove(mine)
                if not self._of[key]:
                    del self._of[key]

    def wake(self, keys: Iterable[bytes]) -> None:
        """Wake the watchers of the documents *keys*, which may have changed; from any thread."""
        if not self._of:
            return
        with self._guard:
            watchers = [watcher for key in keys for watcher in self._of.get(key, ())]
        for loop, news in watchers:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(news.set)

    def close(self) -> None:
        """End all watchers."""
        self.closings += 1
        with self._guard:
            keys = [*self._of]
        self.wake(keys)
