"""Let other tasks of the event loop run while something long is computed, piece by piece or in a thread."""

import asyncio
import contextvars
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from gcp_adk_store.operations import forks

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
    """Return what *compute* returns, computed in the thread for that unless it is *light*.

    There is one thread: Python runs one at a time, and each that waits for its turn could hold up the loop
    for the interpreter's switch interval, 5 ms.
    """
    if light:
        return compute()
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(_APART.thread, partial(context.run, compute))


class _Apart:
    """The thread of what is computed apart; each process has its own."""

    def __init__(self) -> None:
        forks.begin(self)

    def begin(self) -> None:
        """Have a thread, which starts with its first work."""
        self.thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="adk_store_apart")


_APART: Final = _Apart()
