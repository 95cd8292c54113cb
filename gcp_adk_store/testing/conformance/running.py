"""Run each test of a suite in an event loop of its own, regardless of the user's plugins."""

import asyncio
import contextlib
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

from google.adk.artifacts import BaseArtifactService
from google.adk.memory import BaseMemoryService
from google.adk.sessions import BaseSessionService

P = ParamSpec("P")


def in_its_own_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Make a plain test of an asynchronous one: pytest alone can run it.

    A fixture may give the service itself, or an asynchronous context manager that yields it: that is
    entered and left in the loop of the test.
    """

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(_opened(test, args, kwargs))

    return run


async def _opened(
    test: Callable[..., Coroutine[Any, Any, None]], args: tuple[Any, ...], given: dict[str, Any]
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        opened = {
            # A service may be a context manager as well: that one is for its fixture to leave.
            name: await stack.enter_async_context(value)
            if isinstance(value, contextlib.AbstractAsyncContextManager)
            and not isinstance(value, BaseSessionService | BaseArtifactService | BaseMemoryService)
            else value
            for name, value in given.items()
        }
        await test(*args, **opened)
