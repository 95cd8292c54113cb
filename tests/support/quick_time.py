"""Let the time of an event loop pass at once, where nothing else is to be done."""

import asyncio
import selectors
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from gcp_adk_store import machine

T = TypeVar("T")


class QuickTime:
    """The time of the event loops of :meth:`run`, and of the library within :meth:`everywhere`.

    It is for work without threads: nothing that is under way in one takes any of this time.
    """

    now = 1000.0
    """Seconds; a test may let some pass."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of *work*, as :func:`asyncio.run`; it waits for timers in no time."""
        with asyncio.Runner(loop_factory=lambda: _QuickLoop(self)) as runner:
            return runner.run(work)

    @contextmanager
    def everywhere(self) -> Iterator["QuickTime"]:
        """Give the library this time."""
        real, machine.monotonic = machine.monotonic, lambda: self.now
        try:
            yield self
        finally:
            machine.monotonic = real


class _QuickLoop(asyncio.SelectorEventLoop):
    def __init__(self, time: QuickTime) -> None:
        self._quick = time
        super().__init__(_QuickSelector(time))

    def time(self) -> float:
        return self._quick.now


class _QuickSelector(selectors.DefaultSelector):
    def __init__(self, time: QuickTime) -> None:
        super().__init__()
        self._quick = time

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0 if timeout else timeout)
        if not ready and timeout:
            self._quick.now += timeout
        return ready
