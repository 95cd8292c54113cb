"""Let the calls of one process that concern one key run one after the other, in any event loop."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Hashable
from concurrent.futures import Future
from contextlib import asynccontextmanager


class Turns:
    """Turns by key, first come, first served; a key that nobody uses takes no memory.

    They keep the calls of this process from conflicting with each other. What makes a write correct is its
    precondition: other processes have turns of their own.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: dict[Hashable, deque[Future[None]]] = {}

    async def take(self, key: Hashable) -> None:
        """Wait for the turn of *key*; whoever has it must :meth:`pass_on`. Cancelled, it is not taken."""
        with self._guard:
            queue = self._waiting.get(key)
            if queue is None:
                self._waiting[key] = deque()
                return
            mine: Future[None] = Future()
            queue.append(mine)
        try:
            await asyncio.wrap_future(mine)
        except asyncio.CancelledError:
            if not mine.cancelled():  # given in the moment of the cancellation
                self.pass_on(key)
            raise

    def pass_on(self, key: Hashable) -> None:
        """Give the turn of *key* to the next who waits for it, in whichever event loop."""
        with self._guard:
            queue = self._waiting[key]
            while queue:
                following = queue.popleft()
                if following.set_running_or_notify_cancel():
                    following.set_result(None)
                    return
            del self._waiting[key]

    @asynccontextmanager
    async def turn(self, key: Hashable) -> AsyncIterator[None]:
        """Hold the turn of *key* for a block."""
        await self.take(key)
        try:
            yield
        finally:
            self.pass_on(key)
