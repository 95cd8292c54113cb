"""Translate the exceptions of one request where they arise."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def translated(
    failures: tuple[type[BaseException], ...], error: Callable[..., Exception], *where: object
) -> Iterator[None]:
    """Raise ``error(failure, *where)`` for one of the *failures* of the block, which sends one request."""
    try:
        yield
    except failures as exc:
        # A closed channel cancels its calls, and not the tasks that wait for them.
        if isinstance(exc, asyncio.CancelledError) and _is_cancelled():
            raise
        raise error(exc, *where) from exc


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
