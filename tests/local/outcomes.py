"""Use every kind of call of a store that refuses, and return what each says."""

import os
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from google.genai import types

from gcp_adk_store import ArtifactLimits, SessionLimits, Store, StoreError

OF: dict[str, Any] = {"app_name": "app", "user_id": "ada", "session_id": "s1"}


async def outcomes(folder: Path) -> list[list[str]]:
    """Return the kind and the text of what each call raises: two writes, then two reads."""
    limits: dict[str, Any] = {
        "session_limits": SessionLimits(deadline_s=60, inline_bytes=10**6, state_value_bytes=10**6),
        "artifact_limits": ArtifactLimits(deadline_s=60),
    }
    async with Store.local(folder, **limits) as store:
        part = types.Part.from_bytes(data=os.urandom(200_000), mime_type="image/png")
        return [
            # As large as an initial state may be in the document itself.
            await _outcome(store.sessions.create_session(**OF, state={"large": os.urandom(30_000).hex()})),
            await _outcome(store.artifacts.save_artifact(**OF, filename="plot.png", artifact=part)),
            await _outcome(store.sessions.get_session(**OF)),
            await _outcome(store.artifacts.load_artifact(**OF, filename="plot.png")),
        ]


async def _outcome(call: Awaitable[object]) -> list[str]:
    try:
        await call
    except StoreError as exc:
        return [type(exc).__name__, str(exc)]
    return ["done", ""]
