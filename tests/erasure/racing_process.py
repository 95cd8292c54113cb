"""Create sessions of one user for a while, and print when each was acknowledged."""

import asyncio
import json
import sys
import time

from gcp_adk_store import SessionLimits, Store

FOR_S = 0.6


async def create(folder: str, app: str, user: str, name: str) -> dict[str, float]:
    """Return the ids of the sessions, each with the time of its acknowledgement."""
    acknowledged: dict[str, float] = {}
    async with Store.local(folder, session_limits=SessionLimits(state_value_bytes=100)) as store:
        print("ready", flush=True)  # noqa: T201  # to the parent, which begins then
        sys.stdin.readline()
        ends_at = time.monotonic() + FOR_S
        while time.monotonic() < ends_at:
            session_id = f"{name}-{len(acknowledged)}"
            await store.sessions.create_session(
                app_name=app, user_id=user, session_id=session_id, state={"large": "x" * 500}
            )
            acknowledged[session_id] = time.time()
            await asyncio.sleep(0.01)
    return acknowledged


if __name__ == "__main__":
    print(json.dumps(asyncio.run(create(*sys.argv[1:]))))  # noqa: T201  # to the parent
