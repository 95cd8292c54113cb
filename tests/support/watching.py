"""Wait for what others do with a session."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Final, TypeVar

from gcp_adk_store import SessionService
from gcp_adk_store.model.keys import SessionKey

T = TypeVar("T")

HANGS_S: Final = 60.0


async def once(
    sessions: SessionService,
    look: Callable[[], Awaitable[T]],
    is_so: Callable[[T], object],
    *,
    app_name: str,
    user_id: str,
    session_id: str,
) -> T:
    """Look after each change of the session's document until what is seen *is_so*; return that."""
    storage = sessions.storage
    path = storage.layout.session(SessionKey(app=app_name, user=user_id, session=session_id))
    async with asyncio.timeout(HANGS_S), aclosing(storage.documents.watch(path)) as changes:
        async for _ in changes:
            if is_so(seen := await look()):
                return seen
    raise AssertionError("the watch ended")
