"""Make a session and save two artifacts, as the environment describes; run as a process of its own.

With the argument ``uris`` by services of URIs, as ADK's servers have them.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from google.genai import types

from gcp_adk_store import ArtifactService, SessionLimits, SessionService, Store
from gcp_adk_store.adk_server import artifact_service, session_service
from tests.support.server_end import close_services

WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}


@asynccontextmanager
async def services(*, of_uris: bool) -> AsyncIterator[tuple[SessionService, ArtifactService]]:
    """Open both."""
    if of_uris:
        yield (
            session_service("firestore://demo/(default)?bucket=bucket&state_value_bytes=10"),
            artifact_service("gs://bucket?project=demo"),
        )
        await close_services()
        return
    async with Store.from_env(session_limits=SessionLimits(state_value_bytes=10)) as store:
        yield store.sessions, store.artifacts


async def main(*, of_uris: bool) -> None:
    """Use all clients: documents, payloads and artifacts."""
    async with services(of_uris=of_uris) as (sessions, artifacts):
        await sessions.create_session(**WHO, state={"large": "x" * 100})
        for name in ("one", "two"):
            await artifacts.save_artifact(**WHO, filename=name, artifact=types.Part(text=name))


if __name__ == "__main__":
    asyncio.run(main(of_uris="uris" in sys.argv))
