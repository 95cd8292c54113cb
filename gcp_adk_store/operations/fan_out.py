"""Run calls concurrently: the first failure cancels the rest and is raised as it is."""

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
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
