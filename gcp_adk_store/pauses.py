"""Let other tasks of the event loop run while something long is computed, piece by piece or in a thread."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

T = TypeVar("T")

_LONGEST_S: Final = 0.004


class Pauses:
    """Pauses of one computation: its steps ask after each whether it is time for one."""

    def __init__(self) -> None:
        self._due = time.monotonic() + _LONGEST_S

    @property
    def is_due(self) -> bool:
        """Whether the loop has been held up for some milliseconds."""
        return time.monotonic() >= self._due

    async def take(self) -> None:
        """Let every task that can run have its turn."""
        await asyncio.sleep(0)
        self._due = time.monotonic() + _LONGEST_S


async def paced(items: Iterable[T]) -> list[T]:
    """Return *items*, computed one by one with pauses between them."""
    pauses = Pauses()
    computed: list[T] = []
    for item in items:
        computed.append(item)
        if pauses.is_due:
            await pauses.take()
    return computed


async def apart(compute: Callable[[], T], *, light: bool) -> T:
    """Return what *compute* does, in a thread unless it is *light*: starting one takes longer then."""
    return compute() if light else await asyncio.to_thread(compute)
