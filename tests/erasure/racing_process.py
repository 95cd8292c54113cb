"""Create sessions of one user, and tell when each was acknowledged."""

import asyncio
import time
from multiprocessing.connection import Connection

from gcp_adk_store import SessionLimits, Store

SESSIONS = 20


def create(caller: Connection, folder: str, app: str, user: str, name: str) -> None:
    """Tell the ids of the sessions, each with the time of its acknowledgement."""
    caller.send(asyncio.run(_create(caller, folder, app, user, name)))


async def _create(caller: Connection, folder: str, app: str, user: str, name: str) -> dict[str, float]:
    acknowledged: dict[str, float] = {}
    async with Store.local(folder, session_limits=SessionLimits(state_value_bytes=100)) as store:
        caller.send("ready")
        caller.recv()
        for number in range(SESSIONS):
            session_id = f"{name}-{number}"
            await store.sessions.create_session(
                app_name=app, user_id=user, session_id=session_id, state={"large": "x" * 500}
            )
            acknowledged[session_id] = time.time()
    return acknowledged
