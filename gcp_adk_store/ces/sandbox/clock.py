"""Measure the wall time of a run, without the time for which the host lets it wait."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager


class Clock:
    """The wall time of one run, in the event loop that the run is made in."""

    def __init__(self, *, longest_stop_s: float = 0.0) -> None:
        """Create a clock that stops for at most *longest_stop_s* seconds in total."""
        self.longest_stop_s = longest_stop_s
        self._left_s = longest_stop_s
        self._timeout: asyncio.Timeout | None = None

    @asynccontextmanager
    async def limit(self, seconds: float) -> AsyncIterator[asyncio.Timeout]:
        """Raise a TimeoutError in a block that takes longer than *seconds*, without stops."""
        async with asyncio.timeout(seconds) as self._timeout:
            yield self._timeout

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the clock for a block. Do not nest such blocks."""
        began = asyncio.get_running_loop().time()
        timeout = self._timeout
        _extend(timeout, self._left_s)
        try:
            yield
        finally:
            unused_s = max(0.0, self._left_s - (asyncio.get_running_loop().time() - began))
            _extend(timeout, -unused_s)
            self._left_s = unused_s


def _extend(timeout: asyncio.Timeout | None, seconds: float) -> None:
    when = None if timeout is None else timeout.when()
    if timeout is not None and when is not None and not timeout.expired():
        timeout.reschedule(when + seconds)
