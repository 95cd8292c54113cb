"""Use a store in a process of its own that may do less than others."""

import asyncio
import os
import resource
from pathlib import Path
from typing import Any, Final

from click.testing import CliRunner

from gcp_adk_store import Store
from gcp_adk_store.cli.command import command
from tests.local.outcomes import OF, outcomes

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
