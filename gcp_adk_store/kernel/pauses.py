"""Let other tasks of the event loop run during a long computation, in pieces or in a thread."""

import asyncio
import contextvars
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeVar

from gcp_adk_store import machine
from gcp_adk_store.kernel.process import in_each_process

T = TypeVar("T")

_LONGEST_S: Final = 0.004


class Pauses:
    """Pauses of one computation, which asks after each step whether a pause is due."""

    def __init__(self) -> None:
        self._due = machine.monotonic() + _LONGEST_S

    @property
    def is_due(self) -> bool:
        """Whether the computation has blocked the loop for 4 ms."""
        return machine.monotonic() >= self._due

    async def take(self) -> None:
        """Let every ready task run once."""
        await asyncio.sleep(0)
        self._due = machine.monotonic() + _LONGEST_S


async def paced(items: Iterable[T]) -> list[T]:
    """Compute *items* one by one with pauses between them, and return them."""
    pauses = Pauses()
    computed: list[T] = []
    for item in items:
        computed.append(item)
        if pauses.is_due:
            await pauses.take()
    return computed


async def apart(compute: Callable[[], T], *, light: bool) -> T:
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
