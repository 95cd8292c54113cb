"""Give each test a database of its own."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gcp_adk_store.local.database import Database
from tests.support.temporary import temporary_folder


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
