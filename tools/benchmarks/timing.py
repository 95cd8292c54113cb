"""Time operations one after the other."""

import time
from collections.abc import Awaitable, Callable


async def timed(times: int, act: Callable[[], Awaitable[object]]) -> list[float]:
    """Return milliseconds of each of so many acts, one after the other."""
    took = []
    for _ in range(times):
        start = time.perf_counter()
        await act()
        took.append((time.perf_counter() - start) * 1000)
    return took
