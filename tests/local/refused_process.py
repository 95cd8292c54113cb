"""Use every kind of call of a store that refuses, also in a process that may do less than others."""

import asyncio
import os
import resource
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, Final

from click.testing import CliRunner
from google.genai import types

from gcp_adk_store import ArtifactLimits, SessionLimits, Store, StoreError
from gcp_adk_store.cli.command import command

NOBODY: Final = 65_534
_BYTES: Final = 50_000


def as_nobody(path: str) -> dict[str, Any]:
    """Use the store as a user without rights."""
    if os.getuid() == 0:
        os.setresuid(NOBODY, NOBODY, NOBODY)
    return {"outcomes": _outcomes(path), **_state_of(path)}


def on_a_full_disk(path: str) -> dict[str, Any]:
    """Use the store while no file may grow beyond 50,000 bytes, then without that limit."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (_BYTES, most))
    refused = _outcomes(path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    left = asyncio.run(_left(path))
    return {"outcomes": refused, "left": left, "after": _outcomes(path)}


def _outcomes(path: str) -> list[list[str]]:
    return asyncio.run(outcomes(Path(path).parent))


def _state_of(path: str) -> dict[str, Any]:
    line = ["sessions", "list", "--local", str(Path(path).parent), "--app", "app"]
    result = CliRunner().invoke(command, line)
    return {"status": result.exit_code, "stdout": result.stdout, "stderr": result.stderr}


async def _left(path: str) -> list[Any]:
    """Return what another process would find of the calls: sessions, artifacts, and their files."""
    async with Store.local(Path(path).parent) as store:
        found = await store.sessions.list_sessions(app_name=OF["app_name"])
        files = (Path(path).parent / "objects").glob("??/*")
        return [
            [each.id for each in found.sessions],
            await store.artifacts.list_artifact_keys(**OF),
            [each.name for each in files],
        ]


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
