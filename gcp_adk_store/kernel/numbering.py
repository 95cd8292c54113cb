"""Create the next object of a numbered row: the twin of :mod:`gcp_adk_store.kernel.transact` for objects.

The number is the condition: each object requires to be absent, so two writers never make the same one.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from gcp_adk_store.kernel.backoff import jitter
from gcp_adk_store.kernel.ports import ObjectExistsError


async def create_next(
    number: int,
    create: Callable[[int], Awaitable[None]],
    *,
    is_own: Callable[[Any], bool],
    following: Callable[[int], Awaitable[int]],
    at_most: int,
) -> int | None:
    """Create the object of *number*, or of a later one; return its number, or ``None`` after *at_most* tries.

    Args:
        number: The number to begin with.
        create: Creates the object of a number.
        is_own: Whether an object that exists was made by this call, whose answer was lost.
        following: Returns the next free number after one that another writer took.
        at_most: How many numbers are tried.
    """
    for attempt in range(at_most):
        try:
            await create(number)
        except ObjectExistsError as exc:
            if not is_own(exc.found):
                # The first writer knows the next number, the others must list: a random wait gives each of
                # them a chance.
                await asyncio.sleep(jitter(attempt))
                number = await following(number)
                continue
        return number
    return None
