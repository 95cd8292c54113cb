"""Run calls side by side: the first failure cancels the rest and is raised as itself."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
First = TypeVar("First")
Second = TypeVar("Second")


async def fan_out(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results in the order of *calls*; what bounds them is the pool they run on."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except BaseExceptionGroup as failures:
        failure = failures.exceptions[0]
        raise failure from failure.__cause__
    return [task.result() for task in tasks]


async def beside(
    first: Coroutine[Any, Any, First], second: Coroutine[Any, Any, Second]
) -> tuple[First, Second]:
    """Return both results; as :func:`fan_out` for two calls of different types."""
    results: list[Any] = await fan_out((first, second))
    return results[0], results[1]
