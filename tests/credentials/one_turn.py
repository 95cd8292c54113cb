"""Make a session and save two artifacts, as the environment describes; run as a process of its own."""

import asyncio
from typing import Any

from google.genai import types

from gcp_adk_store import SessionLimits, Store

WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}


async def main() -> None:
    """Use all clients of a store: documents, payloads and artifacts."""
    async with Store.from_env(session_limits=SessionLimits(state_value_bytes=10)) as store:
        await store.sessions.create_session(**WHO, state={"large": "x" * 100})
        for name in ("one", "two"):
            await store.artifacts.save_artifact(**WHO, filename=name, artifact=types.Part(text=name))


if __name__ == "__main__":
    asyncio.run(main())
