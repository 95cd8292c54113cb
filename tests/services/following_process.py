"""Append numbered events to a session until somebody kills this process."""

import asyncio
from multiprocessing.connection import Connection

from gcp_adk_store import SessionLimits
from tests.services.conftest import WHO, event
from tests.services.racing_process import At, open_store


def append(caller: Connection, at: At) -> None:
    """Append, and send the text of each event that was acknowledged."""
    asyncio.run(_append(caller, at))


async def _append(caller: Connection, at: At) -> None:
    async with open_store(at, session_limits=SessionLimits(seal_tail_bytes=2000)) as store:
        held = await store.sessions.get_session(**WHO)
        assert held is not None
        for number in range(1_000_000):
            await store.sessions.append_event(held, event(f"{number}"))
            caller.send(f"{number}")
