"""Run blocking calls on threads of a service, as many at a time as it has permits."""

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


class Threads:
    """Threads for any number of event loops."""

    def __init__(self, name: str, limits: ArtifactLimits) -> None:
        self._name = name
        self._at_once = limits.max_workers
        # As many permits as threads: a call never waits in the executor, where no deadline ends its wait.
        self._limiter = Limiter(
            at_once=limits.max_workers, max_waiting=limits.max_waiting, longest_wait_s=limits.deadline_s
        )
        self._opening = threading.Lock()
        self._executor: Executor | None = None

    async def run(self, work: Callable[[], T], *, to_its_end: bool = True) -> T:
        """Return what blocking *work* returns, in the caller's context.

        Once begun, it ends before this call does, even if cancelled, unless *to_its_end* is false.

        Raises:
            OverloadedError: no thread was free before the deadline, or too many calls wait; *work* did not
                begin.
        """
        async with self._limiter.permit():
            in_context = contextvars.copy_context().run
            begun = asyncio.get_running_loop().run_in_executor(self._started(), in_context, work)
            return await (ended(begun) if to_its_end else begun)

    async def close(self) -> None:
        """Let running calls finish, then end the threads; a later call starts them again."""
        with self._opening:
            executor, self._executor = self._executor, None
        if executor is not None:
            await asyncio.to_thread(executor.shutdown)

    def _started(self) -> Executor:
        with self._opening:
            if self._executor is None:
                self._executor = machine.threads(self._at_once, self._name)
            return self._executor


async def ended(begun: "asyncio.Future[T]") -> T:
    """Return the result of *begun*, which ends before this call does, even if cancelled.

    If *begun* is a task, an event loop that ends cancels it too, as all tasks.
    """
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
