"""Run blocking steps on a bounded number of own threads."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

from gcp_adk_store import machine
from gcp_adk_store.kernel.concurrency import Limiter
from gcp_adk_store.settings import ArtifactLimits

T = TypeVar("T")


async def ended(begun: "asyncio.Future[T]") -> T:
    """Return the result of *begun*, which ends before this call does, even if cancelled."""
    cancelled: asyncio.CancelledError | None = None
    while not begun.done():
        try:
            await asyncio.wait([begun])
        except asyncio.CancelledError as exc:
            cancelled = exc
    if cancelled is not None:
        if not begun.cancelled():
            begun.exception()  # the cancellation ends the call in any case
        raise cancelled
    return begun.result()


class Threads:
    """Threads for any number of event loops."""

    def __init__(self, limits: ArtifactLimits) -> None:
        self._at_once = limits.max_workers
        # As many permits as threads: a step never waits in the executor, where no deadline ends its wait.
        self._limiter = Limiter(
            at_once=limits.max_workers, max_waiting=limits.max_waiting, longest_wait_s=limits.deadline_s
        )
        self._opening = threading.Lock()
        self._executor: Executor | None = None

    async def run(self, work: Callable[[], T]) -> T:
        """Return what blocking *work* returns. Once begun, it ends before this call does, even if cancelled.

        Raises:
            OverloadedError: no thread was free before the deadline, or too many steps wait; *work* did not
                begin.
        """
        async with self._limiter.permit():
            in_context = contextvars.copy_context().run
            return await ended(asyncio.get_running_loop().run_in_executor(self._started(), in_context, work))

    async def close(self) -> None:
        """Let running steps finish, then end the threads; a later step starts them again."""
        with self._opening:
            executor, self._executor = self._executor, None
        if executor is not None:
            await asyncio.to_thread(executor.shutdown)

    def _started(self) -> Executor:
        with self._opening:
            if self._executor is None:
                self._executor = machine.threads(self._at_once, "adk-store-files")
            return self._executor
