"""Run calls concurrently, and wait for items of a generator for a time."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final, TypeVar

T = TypeVar("T")
First = TypeVar("First")
Second = TypeVar("Second")

_AT_ONCE: Final = 32
"""Concurrent calls of one fan-out: each may hold a payload of megabytes."""


async def fan_out(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results in the order of *calls*, of which 32 run at a time."""
    waiting = list(calls)
    results: list[Any] = [None] * len(waiting)
    numbered = iter(enumerate(waiting))
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(_AT_ONCE, len(waiting))):
                group.create_task(_run_each(numbered, results))
    except BaseExceptionGroup as failures:
        failure = failures.exceptions[0]
        raise failure from failure.__cause__
    finally:
        for call in waiting:
            call.close()  # the calls that did not start; the others have ended
    return results


async def _run_each(numbered: Iterator[tuple[int, Coroutine[Any, Any, T]]], results: list[T]) -> None:
    for number, call in numbered:
        results[number] = await call


async def beside(
    first: Coroutine[Any, Any, First], second: Coroutine[Any, Any, Second]
) -> tuple[First, Second]:
    """Return both results, as :func:`fan_out` for two calls of different types."""
    results: list[Any] = await fan_out((first, second))
    return results[0], results[1]


@asynccontextmanager
async def stepping(
    items: AsyncGenerator[T],
) -> AsyncIterator[Callable[[float | None], Awaitable[tuple[T] | None]]]:
    """Give a function that waits so many seconds for the next of *items*, which are closed at the end.

    It returns the item in a tuple, or ``None`` if the time is over: its next call goes on with the wait.
    """
    pending: asyncio.Task[T] | None = None

    async def following() -> T:
        return await anext(items)

    async def step(timeout_s: float | None) -> tuple[T] | None:
        nonlocal pending
        pending = pending or asyncio.create_task(following())
        done, _ = await asyncio.wait({pending}, timeout=timeout_s)
        if not done:
            return None
        come, pending = pending, None
        return (come.result(),)

    async with aclosing(items):
        try:
            yield step
        finally:
            if pending is not None:
                pending.cancel()
                await asyncio.wait({pending})
                if not pending.cancelled():
                    pending.exception()  # nobody asks for it any more
