"""Run the callbacks of one event loop one by one, at the times of a simulated clock.

async-solipsism has such a loop, too: one, which runs by itself. A simulation has a loop for each process, and
runs, stops and forgets each of them at any callback.
"""

import asyncio
import contextvars
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_CLOSE_S = 1e-9
"""A timer that is due within so many seconds is due: differences of large numbers are that wrong."""


class SimulatedLoop(asyncio.AbstractEventLoop):
    """An event loop without sockets, threads or real time, which :meth:`run_one` drives from outside.

    What runs in a thread elsewhere runs here as one callback: no simulated process waits for a processor.
    """

    def __init__(self, clock: Callable[[], float], unhandled: Callable[[dict[str, Any]], None]) -> None:
        """Begin empty; *clock* gives the time in seconds, *unhandled* gets errors that nobody awaits."""
        self._clock = clock
        self._unhandled = unhandled
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = itertools.count()
        self._tasks: dict[int, asyncio.Task[Any]] = {}
        self._is_closed = False

    @property
    def is_ready(self) -> bool:
        """Whether a callback can run now."""
        return bool(self._ready)

    def next_timer(self) -> float | None:
        """Return when its next timer is due, on its own clock; ``None`` without one."""
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def wake(self) -> None:
        """Make the callbacks of all timers that are due ready."""
        now = self.time() + _CLOSE_S
        while (when := self.next_timer()) is not None and when <= now:
            self._ready.append(heapq.heappop(self._timers)[2])

    def run_one(self) -> None:
        """Run the first callback that is ready."""
        handle = self._ready.popleft()
        if handle.cancelled():
            return
        around = asyncio._get_running_loop()  # noqa: SLF001  # that of a test that is a coroutine
        asyncio._set_running_loop(self)  # noqa: SLF001  # documented for authors of event loops
        try:
            handle._run()  # noqa: SLF001  # as every event loop does
        finally:
            asyncio._set_running_loop(around)  # noqa: SLF001

    def left(self) -> list[asyncio.Task[Any]]:
        """Return the tasks that have not ended, in the order of their begin."""
        return [task for task in self._tasks.values() if not task.done()]

    def time(self) -> float:
        """Return the time of its clock."""
        return self._clock()

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Run *callback* after those that are ready."""
        if self._is_closed:
            raise RuntimeError("Event loop is closed")
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run *callback* after *delay* seconds."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run *callback* at a time of its clock."""
        if self._is_closed:
            raise RuntimeError("Event loop is closed")
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._numbers), handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a timer that was cancelled is passed over."""

    def create_future(self) -> "asyncio.Future[Any]":
        """Return a future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: contextvars.Context | None = None,
        **_: Any,
    ) -> "asyncio.Task[T]":
        """Start *coro*."""
        task = asyncio.Task(coro, loop=self, name=None if name is None else str(name), context=context)
        number = next(self._numbers)
        self._tasks[number] = task  # in an order that no address decides, as that of a set of tasks
        task.add_done_callback(lambda _: self._tasks.pop(number, None))
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> "asyncio.Future[T]":
        """Run *func* as one callback; *executor* is not used."""
        del executor
        future: asyncio.Future[T] = self.create_future()

        def run() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as exc:  # noqa: BLE001  # it is raised where the future is awaited
                future.set_exception(exc)

        self.call_soon(run)
        return future

    def get_task_factory(self) -> None:
        """Tasks are asyncio's own, as anyio asks."""

    def get_debug(self) -> bool:
        """Return that it does not debug."""
        return False

    def is_running(self) -> bool:
        """Return whether its process may still run."""
        return not self._is_closed

    def is_closed(self) -> bool:
        """Return whether it was closed."""
        return self._is_closed

    def close(self) -> None:
        """Forget all callbacks."""
        self._is_closed = True
        self._ready.clear()
        self._timers.clear()

    async def shutdown_asyncgens(self) -> None:
        """Do nothing: what a process leaves open is forgotten with it."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109  # asyncio's
        """Do nothing: it has none."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Report an error that nobody awaits."""
        self._unhandled(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """As :meth:`call_exception_handler`."""
        self._unhandled(context)
