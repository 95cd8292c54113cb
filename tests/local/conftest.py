"""Give each test a database of its own, and the time of the machine."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from google.adk.platform import time as platform_time

from gcp_adk_store.local.database import Database
from tests.support.clock import Clock
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


@pytest.fixture
def clock() -> Iterator[Clock]:
    """The machine's clock: it stands still until the test moves it."""
    clock = Clock()
    platform_time.set_time_provider(lambda: clock.now)
    yield clock
    platform_time.reset_time_provider()
