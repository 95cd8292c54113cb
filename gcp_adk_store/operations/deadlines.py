"""Bound what a whole operation takes, whatever requests it is made of."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

# A task that an operation starts has a copy of its context, and so its end.
_ENDS_AT: Final[ContextVar[float | None]] = ContextVar("adk_store_operation_ends_at", default=None)


@contextmanager
def operation_of(seconds: float) -> Iterator[None]:
    """Let what runs in the block, and the tasks that it starts, take *seconds*."""
    token = _ENDS_AT.set(time.monotonic() + seconds)
    try:
        yield
    except GeneratorExit:
        raise  # its task is gone, and its context with it
    except BaseException:
        _ENDS_AT.reset(token)
        raise
    _ENDS_AT.reset(token)


@contextmanager
def part_of(seconds: float) -> Iterator[None]:
    """Let what runs in the block take *seconds*, and no longer than the running operation may."""
    with operation_of(at_most(seconds)):
        yield


def at_most(seconds: float) -> float:
    """Return *seconds*, or what is left of the running operation's time if that is less; at least 0."""
    ends_at = _ENDS_AT.get()
    return seconds if ends_at is None else max(0.0, min(seconds, ends_at - time.monotonic()))
