"""Wait for the next item of an asynchronous generator for a time, without losing it when the time is over."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import TypeVar

T = TypeVar("T")


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
