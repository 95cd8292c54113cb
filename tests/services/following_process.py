"""Append numbered events to a session until somebody kills this process.

Run as ``python -m tests.services.following_process KIND PLACE``; each line that goes out is the text of an
event that was acknowledged.
"""

import asyncio
import sys

from gcp_adk_store import SessionLimits
from tests.services.conftest import WHO, event
from tests.services.racing_process import open_store


async def append(kind: str, place: str) -> None:
    """Append, and say so."""
    async with open_store({kind: place}, session_limits=SessionLimits(seal_tail_bytes=2000)) as store:
        held = await store.sessions.get_session(**WHO)
        assert held is not None
        for number in range(1_000_000):
            await store.sessions.append_event(held, event(f"{number}"))
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(append(*sys.argv[1:]))
