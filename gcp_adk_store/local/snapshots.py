"""Read a database as it was at one time, while others write to it."""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from gcp_adk_store.local import failures
from gcp_adk_store.local.threads import ended

T = TypeVar("T")


class Reading(Protocol):
    """What reads a database."""

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what *work* returns, from one snapshot."""
        ...


class Submit(Protocol):
    """What runs a function on a thread."""

    def __call__(self, call: Callable[[], T], /) -> "Future[T]":
        """Run *call*."""
        ...


class Snapshot:
    """Reads within the transaction of one connection, one after the other."""

    def __init__(self, submit: Submit, sql: sqlite3.Connection, path: Path | None) -> None:
        self._submit = submit
        self._sql = sql
        self._path = path
        self._one = asyncio.Lock()

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what *work* returns, from the snapshot of all calls.

        It ends before a cancelled call does: a connection that is closed while in use ends the process.
        """
        async with self._one:
            return await ended(asyncio.wrap_future(self._submit(partial(self._run, work))))

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return work(self._sql)
        except sqlite3.Error as exc:
            raise failures.of_sqlite(exc, self._path, committing=False) from exc
