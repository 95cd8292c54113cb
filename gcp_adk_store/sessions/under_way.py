"""See appends through to their end, also after their callers are cancelled."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from gcp_adk_store.operations import forks, telemetry
from gcp_adk_store.operations.limiter import Limiter, Permit
from gcp_adk_store.operations.operation import label

logger = logging.getLogger(__name__)

T = TypeVar("T")


class UnderWay:
    """The appends of one service that run now, by event loop."""

    def __init__(self, limiter: Limiter) -> None:
        """Prepare; the appends hold permits of *limiter* until they end."""
        self._limiter = limiter
        self._tasks: dict[asyncio.AbstractEventLoop, set[asyncio.Task[Any]]] = {}
        forks.begin(self)

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self) -> None:
        """Start without appends in a forked child: those of the parent do not run there."""
        if self._tasks:
            forks.keep(self._tasks)  # if they were freed, their calls would wait for gRPC
        self._tasks = {}

    def let_go(self) -> None:
        """Drop the appends of loops that have ended: nothing else holds them."""
        for loop in [loop for loop in self._tasks.copy() if loop.is_closed()]:
            self._tasks.pop(loop, None)

    async def wait(self) -> None:
        """Wait for the appends of this loop, also those that nobody awaits any more."""
        mine = self._tasks.get(asyncio.get_running_loop())
        if mine:
            await asyncio.wait(mine.copy())

    async def see_through(self, permit: Permit, work: Coroutine[Any, Any, T]) -> T:
        """Await *work*, then release its *permit*; cancelling the caller does not cancel *work*."""
        self.let_go()
        task = asyncio.create_task(work)
        mine = self._tasks.setdefault(permit.loop, set())
        mine.add(task)

        def end(done: asyncio.Task[T]) -> None:
            mine.discard(done)
            if not mine:
                self._tasks.pop(permit.loop, None)
            self._limiter.release(permit)

        # A callback, not a block around the work: a task that is cancelled before it starts runs no block.
        task.add_done_callback(end)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_report_unawaited)
            raise


def _report_unawaited(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (failure := task.exception()) is not None:
        logger.warning(
            "%sfailed after its caller was cancelled: %s",
            label(),
            type(failure).__name__,
            extra=telemetry.log_fields(failure),
        )
