"""Give each test a database of its own, and processes that share it."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store.local.database import Database
from tests.support.temporary import temporary_folder

ROOT = Path(__file__).parents[2]
LONGEST_S = 60

Elsewhere = Callable[..., Awaitable[Any]]


@pytest.fixture
def path() -> Iterator[Path]:
    """The path of a database that does not exist yet, in a folder that does not either."""
    with temporary_folder() as folder:
        yield folder / "store" / "store.sqlite3"


@pytest.fixture
async def database(path: Path) -> AsyncIterator[Database]:
    """A database in a file."""
    database = Database(path)
    yield database
    await database.close()


@pytest.fixture
def elsewhere(path: Path) -> Elsewhere:
    """Run a function of `tests/local/database_process.py` in another process; return what it returns."""

    async def run(name: str, *arguments: Any) -> Any:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.local.database_process"),
            *(name, json.dumps([str(path), *arguments])),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            out, _ = await asyncio.wait_for(process.communicate(), LONGEST_S)
        finally:
            if process.returncode is None:
                process.kill()
        assert 0 == process.returncode
        return json.loads(out)

    return run
