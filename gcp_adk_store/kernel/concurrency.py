"""Share processor, memory and connections among calls: permits, gathers, threads, caches."""

import asyncio
import contextvars
import math
import os
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Hashable,
    Iterable,
    Iterator,
)
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Generic, TypeVar

from gcp_adk_store import machine
from gcp_adk_store.errors import OverloadedError
from gcp_adk_store.kernel.operation import at_most, running
from gcp_adk_store.kernel.process import OwnProcess, in_each_process

_SWEEP_INTERVAL_S: Final = 1.0


class Permit:
    """A permit that a call holds or waits for, and the call's event loop. The limiter's guard protects it."""

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.loop = asyncio.get_running_loop()
        self.ends_at = math.inf
        """When its call waits no longer."""
        self.is_granted = False
        """Whether the limiter has granted it, and its call knows that."""
        self._news: asyncio.Future[None] | None = None
        self._stopped_since: float | None = None

    async def wait(self) -> None:
        """Wait until the permit is granted, or :meth:`wake` is called."""
        self._news = self.loop.create_future()
        await self._news

    def wake(self) -> None:
        """Let the call that waits go on, with the permit or without it."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

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
        self.is_granted = True
        self.wake()


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
        # One timer for all calls of a loop that wait: a thousand would end at once, and stall it.
        self._timers: dict[asyncio.AbstractEventLoop, asyncio.TimerHandle] = {}

    async def acquire(self, key: Hashable = None) -> Permit:
        """Wait for a permit of *key* and return it, for :meth:`release`. A cancelled call holds no permit.

        Raises:
            OverloadedError: *max_waiting* calls wait already, or this one waited for too long.
            ForkedProcessError: a parent of this process acquired a permit: its calls do not run here.
        """
        if self._process.pid != os.getpid():
            self._process.require_own()
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
        with self._guard:
            queue = self._queue(key)
            queue.waiting.append(mine)
            self._waiting += 1
            self._grant(queue)
        operation = running()
        if operation is not None:
            operation.counts.waiting += 1
        try:
            await self._until(mine, at_most(self._longest_wait_s))
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

    async def _until(self, mine: Permit, seconds: float) -> None:
        """Wait for a permit; lost permits are reclaimed meanwhile."""
        mine.ends_at = machine.monotonic() + seconds
        with self._guard:
            self._look_in(mine.loop, min(seconds, self._sweep_interval_s))
        await mine.wait()
        if not mine.is_granted:
            raise TimeoutError

    def _look_in(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        """Look in so many *seconds*, or before, at the calls of the running *loop* that wait."""
        timer = self._timers.get(loop)
        if timer is None or timer.when() > loop.time() + seconds:
            if timer is not None:
                timer.cancel()
            self._timers[loop] = loop.call_later(seconds, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Reclaim lost permits, and wake the calls of the running *loop* that have waited for too long."""
        with self._guard:
            del self._timers[loop]
            self._sweep()
            now = machine.monotonic()
            queues = [*self._queues.values()]
            waiting = [mine for queue in queues for mine in queue.waiting if mine.loop is loop]
            for mine in waiting:
                if mine.ends_at <= now:
                    mine.wake()
            left = [mine.ends_at - now for mine in waiting if mine.ends_at > now]
            if left:
                self._look_in(loop, min(*left, self._sweep_interval_s))

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
        self._timers = {loop: timer for loop, timer in self._timers.items() if not loop.is_closed()}
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


T = TypeVar("T")
First = TypeVar("First")
Second = TypeVar("Second")

_LONGEST_S: Final = 0.002
"""How long a computation blocks the event loop. A task that begins to wait between two steps runs after the
second one."""


class Pauses:
    """Pauses of one computation, which asks after each step whether a pause is due."""

    def __init__(self) -> None:
        self._due = machine.monotonic() + _LONGEST_S

    @property
    def is_due(self) -> bool:
        """Whether the computation has blocked the loop for 2 ms."""
        return machine.monotonic() >= self._due

    async def pause(self) -> None:
        """Let every ready task run once."""
        await asyncio.sleep(0)
        self._due = machine.monotonic() + _LONGEST_S


_AT_ONCE: Final = 32
"""Concurrent calls of one gather: each may hold a payload of megabytes."""


async def gather(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results in the order of *calls*, of which 32 run at a time.

    It pauses between calls that wait for nothing.
    """
    waiting = list(calls)
    results: list[Any] = [None] * len(waiting)
    numbered = iter(enumerate(waiting))
    pauses = Pauses()
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(_AT_ONCE, len(waiting))):
                group.create_task(_run_each(numbered, results, pauses))
    except BaseExceptionGroup as failures:
        failure = failures.exceptions[0]
        raise failure from failure.__cause__
    finally:
        for call in waiting:
            call.close()  # the calls that did not start; the others have ended
    return results


async def _run_each(
    numbered: Iterator[tuple[int, Coroutine[Any, Any, T]]], results: list[T], pauses: Pauses
) -> None:
    for number, call in numbered:
        results[number] = await call
        if pauses.is_due:
            await pauses.pause()


async def both(
    first: Coroutine[Any, Any, First], second: Coroutine[Any, Any, Second]
) -> tuple[First, Second]:
    """Return both results, as :func:`gather` for two calls of different types."""
    results: list[Any] = await gather((first, second))
    return results[0], results[1]


@asynccontextmanager
async def stepping(
    items: AsyncGenerator[T],
) -> AsyncIterator[Callable[[float | None], Awaitable[tuple[T] | None]]]:
    """Give a function that waits so many seconds for the next of *items*, which are closed at the end.

    It returns the item in a tuple, or ``None`` if the time is over: its next call goes on with the wait.
    """
    pending: asyncio.Task[T] | None = None

    async def following() -> T:
        return await anext(items)

    async def step(timeout_s: float | None) -> tuple[T] | None:
        nonlocal pending
        pending = pending or asyncio.create_task(following())
        done, _ = await asyncio.wait({pending}, timeout=timeout_s)
        if not done:
            return None
        come, pending = pending, None
        return (come.result(),)

    async with aclosing(items):
        try:
            yield step
        finally:
            if pending is not None:
                pending.cancel()
                await asyncio.wait({pending})
                if not pending.cancelled():
                    pending.exception()  # nobody asks for it any more


async def yielding(items: Iterable[T]) -> list[T]:
    """Compute *items* one by one with pauses between them, and return them."""
    pauses = Pauses()
    computed: list[T] = []
    for item in items:
        computed.append(item)
        if pauses.is_due:
            await pauses.pause()
    return computed


async def offload(compute: Callable[[], T], *, light: bool) -> T:
    """Run *compute* in the thread for computations, or here if it is *light*, and return its result.

    One thread is enough: Python runs one at a time, and each waiting thread may block the loop for the
    interpreter's switch interval, 5 ms.
    """
    if light:
        return compute()
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(_APART.thread, partial(context.run, compute))


class _Apart:
    """The thread for computations; each process has its own."""

    def __init__(self) -> None:
        in_each_process(self._begin)

    def _begin(self) -> None:
        """Create the thread, which starts with its first work."""
        self.thread = machine.threads(1, "adk_store_apart")


_APART: Final = _Apart()


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

    def lookup(self, key: K) -> V | None:
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
