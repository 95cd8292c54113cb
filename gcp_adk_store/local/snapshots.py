"""Read a SQLite database at one moment, while others write to it."""

import asyncio
import sqlite3
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.local import failures

T = TypeVar("T")


class Snapshot:
    """A database at one moment, for reads alone."""

    def __init__(self, sql: sqlite3.Connection, path: Path | None) -> None:
        """Own *sql*, which is within a transaction of the moment; *path* is for errors."""
        self._sql = sql
        self._path = path
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="adk_store_snapshot")
        weakref.finalize(self, sql.close)

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what *work* returns.

        Raises:
            UnavailableError, StoredDataError: as :meth:`Database.read`.
        """
        try:
            return await asyncio.wrap_future(self._threads.submit(work, self._sql))
        except sqlite3.Error as exc:
            failure = failures.of_sqlite(exc, self._path, committing=False)
            if failure is exc:
                raise
            raise failure from exc

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Refuse *work*.

        Raises:
            InvalidInputError: always.
        """
        del work
        raise InvalidInputError("a snapshot is for reads alone; write to the database itself")

    async def snapshot(self) -> "Snapshot":
        """Refuse it, as :meth:`write`."""
        raise InvalidInputError("a snapshot has no later moment; ask the database itself")

    async def close(self) -> None:
        """End the transaction."""
        await asyncio.to_thread(self._threads.shutdown)
        self._sql.close()
