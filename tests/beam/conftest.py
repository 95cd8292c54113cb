"""Give the tests of bulk jobs a store in a folder, which the workers of a job open by its path."""

import asyncio
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event

from gcp_adk_store import Store, StoreSettings
from gcp_adk_store.bulk import run
from tests.moving.hardest import APP, fill, hardest, many


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store with 24 sessions of 13 users, and one of another app; made once."""
    folder = tmp_path_factory.mktemp("made") / "store"

    async def make() -> None:
        async with Store.local(folder) as store:
            sessions: list[tuple[str, str, list[Event]]] = [
                (f"u{number:02}", name, many(number % 4)) for number in range(11) for name in ("s1", "s2")
            ]
            await fill(store.sessions, [*sessions, ("ada", "s1", hardest()), ("b/\u00f6b", "s1", many(60))])
            await store.sessions.create_session(app_name="another", user_id="ada", session_id="s1")

    asyncio.run(make())
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of that store."""
    return shutil.copytree(made, tmp_path / "store")


@pytest.fixture
def counts(folder: Path) -> Callable[..., dict[str, int]]:
    """Run a job on the store in this process, unless Beam's options say otherwise; return its counts."""

    def ran(build: Any, arguments: Sequence[str] = ()) -> dict[str, int]:
        return dict(run(build, StoreSettings(local=str(folder)), arguments))

    return ran


def lines(folder: Path, start: str) -> list[str]:
    """Return the lines of the files whose names begin so."""
    return [line for path in sorted(folder.glob(f"{start}*")) for line in path.read_text().splitlines()]


__all__ = ["APP", "lines"]
