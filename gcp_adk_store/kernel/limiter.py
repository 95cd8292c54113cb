"""Limit the number of concurrent calls in one process, across its event loops."""

import asyncio
import math
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from gcp_adk_store import machine
from gcp_adk_store.errors import OverloadedError
from gcp_adk_store.kernel.operation import at_most, running
from gcp_adk_store.kernel.process import OwnProcess

_SWEEP_INTERVAL_S: Final = 1.0


class Permit:
    """A permit that a call holds or waits for, and the call's event loop. The limiter's guard protects it."""

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.loop = asyncio.get_running_loop()
        self._granted: asyncio.Future[None] | None = None
        self._stopped_since: float | None = None

    def wait(self) -> "asyncio.Future[None]":
        """Return a future that is done when the limiter grants the permit."""
        self._granted = self.loop.create_future()
        return self._granted

    def grant(self) -> bool:
        """Wake the call; return False if its event loop is closed."""
        try:
            if _is_running(self.loop):
                self.loop.call_soon(self._settle)
            else:
                self.loop.call_soon_threadsafe(self._settle)
        except RuntimeError:  # the event loop is closed
            return False
        return True

    def is_lost(self, now: float, *, after_s: float) -> bool:
        """Return whether its call is lost: its loop is closed, or has not run for *after_s*."""
        if self.loop.is_running():
            self._stopped_since = None
        elif self._stopped_since is None:
            self._stopped_since = now
        stopped_for_s = 0.0 if self._stopped_since is None else now - self._stopped_since
        return self.loop.is_closed() or stopped_for_s >= after_s

    def _settle(self) -> None:
        if self._granted is not None and not self._granted.done():
            self._granted.set_result(None)


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:  # the garbage collector closes a call of a closed loop
        return False


@dataclass(slots=True)
class _Queue:
    key: Hashable
    held: set[Permit] = field(default_factory=set)
    waiting: deque[Permit] = field(default_factory=deque)


class Limiter:
    """Permits by key, granted in the order of arrival. Without keys, all calls share one queue.

    An unused key takes no memory. A limiter bounds the concurrency of this process and prevents conflicts
    within it. Other processes have limiters of their own, so the precondition of a write is what makes the
    write correct.

    A call whose event loop ends never runs again, not even to clean up. The limiter reclaims the permits of
    a closed loop at once. A stopped loop may run again: it keeps its permits for half of *longest_wait_s*
    from when another call needs one; after that the call continues without its permit.
    """

    def __init__(
        self, *, at_once: int = 1, max_waiting: int = sys.maxsize, longest_wait_s: float = math.inf
    ) -> None:
        """Allow *at_once* permits for each key; *max_waiting* counts the waiting calls of all keys."""
        self._at_once = at_once
        self._max_waiting = max_waiting
        self._longest_wait_s = longest_wait_s
        self._sweep_interval_s = min(_SWEEP_INTERVAL_S, longest_wait_s / 4)
        self._process = OwnProcess(self)
        # Reentrant: within any block here, the garbage collector may close a call of a closed loop, which
        # releases its permit. So each block ends by granting what is free and storing the queue again.
        self._guard = threading.RLock()
        self._queues: dict[Hashable, _Queue] = {}
        self._waiting = 0
        self._swept_at = -math.inf

    async def acquire(self, key: Hashable = None) -> Permit:
        """Wait for a permit of *key* and return it, for :meth:`release`. A cancelled call holds no permit.

        Raises:
            OverloadedError: *max_waiting* calls wait already, or this one waited for too long.
            ForkedProcessError: a parent of this process acquired a permit: its calls do not run here.
        """
        self._process.require()
        mine = Permit(key)
        with self._guard:
            self._sweep()
            queue = self._queue(key)
            if len(queue.held) >= self._at_once:
                self._reclaim(queue)
            if len(queue.held) < self._at_once:
                queue.held.add(mine)
                self._queues[key] = queue
                return mine
            if self._waiting >= self._max_waiting:
                raise OverloadedError(
                    f"{self._waiting} calls of this process wait already, which is the limit (max_waiting); "
                    "send fewer at a time"
                )
        granted = mine.wait()
        with self._guard:
            queue = self._queue(key)
            queue.waiting.append(mine)
            self._waiting += 1
            self._grant(queue)
        operation = running()
        if operation is not None:
            operation.counts.waiting += 1
        try:
            await self._until(granted, at_most(self._longest_wait_s))
        except BaseException as exc:  # GeneratorExit if the loop was closed
            self.release(mine)  # also a permit that was granted at the moment of the cancellation
            if isinstance(exc, TimeoutError):
                raise OverloadedError(
                    "earlier calls of this process held all permits until the deadline; nothing was sent"
                ) from exc
            raise
        finally:
            if operation is not None:
                operation.counts.waiting -= 1
        return mine

    def waiting(self, key: Hashable) -> int:
        """Return how many calls wait for a permit of *key*."""
        with self._guard:
            return len(self._queue(key).waiting)

    def release(self, permit: Permit) -> None:
        """Grant *permit* to the next call that waits, in any event loop; ignore a reclaimed permit."""
        with self._guard:
            queue = self._queue(permit.key)
            self._drop(queue, permit)
            self._grant(queue)

    async def _until(self, granted: "asyncio.Future[None]", seconds: float) -> None:
        """Wait for a permit, and reclaim lost permits meanwhile."""
        ends_at = machine.monotonic() + seconds
        while not granted.done():
            left_s = ends_at - machine.monotonic()
            if left_s <= 0:
                raise TimeoutError
            await asyncio.wait([granted], timeout=min(left_s, self._sweep_interval_s))
            with self._guard:
                self._sweep()

    def _queue(self, key: Hashable) -> _Queue:
        queue = self._queues.get(key)
        return _Queue(key) if queue is None else queue

    def _grant(self, queue: _Queue) -> None:
        """Grant the free permits of *queue*, and remove it when it is empty."""
        while len(queue.held) < self._at_once and queue.waiting:
            following = queue.waiting.popleft()
            self._waiting -= 1
            queue.held.add(following)
            if not following.grant():
                queue.held.discard(following)
        if queue.held or queue.waiting:
            self._queues[queue.key] = queue
        elif self._queues.get(queue.key) is queue:
            del self._queues[queue.key]

    def _drop(self, queue: _Queue, permit: Permit) -> None:
        if permit in queue.held:
            queue.held.discard(permit)
        elif permit in queue.waiting:
            queue.waiting.remove(permit)
            self._waiting -= 1

    def _sweep(self) -> None:
        """Reclaim the lost permits of all keys, also of unused ones; at most once an interval."""
        now = machine.monotonic()
        if now - self._swept_at < self._sweep_interval_s:
            return
        self._swept_at = now
        for queue in self._queues.copy().values():
            for permit in queue.waiting.copy():
                if permit.loop.is_closed():
                    self._drop(queue, permit)
            self._reclaim(queue)

    def _reclaim(self, queue: _Queue) -> None:
        """Grant the lost permits of *queue* to the calls that wait."""
        now = machine.monotonic()
        for permit in queue.held.copy():
            if permit.is_lost(now, after_s=self._longest_wait_s / 2):
                queue.held.discard(permit)
        self._grant(queue)

    @asynccontextmanager
    async def permit(self, key: Hashable = None) -> AsyncIterator[None]:
        """Hold a permit of *key* for a block."""
        permit = await self.acquire(key)
        try:
            yield
        finally:
            self.release(permit)
