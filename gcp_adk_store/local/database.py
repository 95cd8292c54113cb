"""One SQLite file, used from any number of threads, event loops and processes at once.

The standard library on threads of its own: a write of 100 kB takes 0.25 ms, a read 0.03 ms, where aiosqlite,
which crosses to its thread for each statement, takes 0.49 and 0.18 ms (medians, synchronous=FULL both).
"""

import asyncio
import contextvars
import os
import sqlite3
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Executor, Future
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeVar

from gcp_adk_store import machine
from gcp_adk_store.errors import InvalidInputError, OutcomeUnknownError, UnavailableError
from gcp_adk_store.kernel.concurrency import Limiter
from gcp_adk_store.kernel.operation import at_most
from gcp_adk_store.kernel.process import NotPicklable, OwnProcess
from gcp_adk_store.kernel.threads import ended
from gcp_adk_store.kernel.transact import jitter
from gcp_adk_store.local import opening
from gcp_adk_store.local.opening import connect

T = TypeVar("T")

_READERS: Final = 4
"""Reads of one process at a time, each with a thread and a connection of about 2 MB."""

_MAX_WAITING: Final = 10_000
"""Calls of one process that wait for one that runs; one more is an OverloadedError."""

_LONGEST_WAIT_S: Final = 30.0
"""For a file that others hold, if the running operation has no earlier deadline."""

_LONGEST_PAUSE_S: Final = 0.005
"""Between two tries of a held file: a commit holds it for less than a millisecond."""


class Database(NotPicklable):
    """A SQLite file that is opened, or created with its folder, at the first call.

    Each call runs a function on a thread of this object, within one transaction. If another process holds
    the file, the whole function runs again, so it must depend on the database and its arguments alone.
    """

    def __init__(self, path: Path | None) -> None:
        """Prepare the file at *path*; ``None`` keeps everything in memory, as long as this object lives.

        Raises:
            InvalidInputError: the system cannot have the *path*, such as one with a zero byte.
        """
        if path is not None:
            _require_path(path)
        self._path = path
        self._writers = Limiter(max_waiting=_MAX_WAITING)
        self._readers = Limiter(at_once=_READERS, max_waiting=_MAX_WAITING) if path else self._writers
        self._open: dict[sqlite3.Connection, tuple[int, int] | None] = {}
        """The connections, each with device and inode of its file; ``None`` in memory."""
        self._idle: list[sqlite3.Connection] = []
        self._process = OwnProcess(self)
        # Reentrant: an executor may run a call at once, as that of a simulation does.
        self._guard = threading.RLock()
        self._threads: Executor | None = None
        weakref.finalize(self, _close_all, self._open, self._process)

    @property
    def path(self) -> Path | None:
        """The file; ``None`` for a database in memory."""
        return self._path

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what *work* returns, from one snapshot.

        Raises:
            InvalidInputError: the path cannot be that of a store, or the file is not a store.
            AccessDeniedError: this user may not write the file or its folder.
            UnavailableError: others hold the file until the deadline, or the disk is full or fails.
            OverloadedError: 10,000 calls of this process wait, or earlier ones took all the time.
            StoredDataError: the file is damaged, or has the format of another release.
            ForkedProcessError: a parent of this process used the file through this object.
        """
        return await self._run(self._readers, work, "BEGIN")

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what *work* returns; all that it writes is durable then. If it fails, nothing is written.

        What *work* raises undoes its writes. A cancelled call that has begun completes in its thread.

        Raises:
            OutcomeUnknownError: the disk failed while it stored the commit.
            InvalidInputError, AccessDeniedError, UnavailableError, StoredDataError, ForkedProcessError: as
                :meth:`read`; nothing was written.
        """
        return await self._run(self._writers, work, "BEGIN IMMEDIATE")

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator["Snapshot"]:
        """Return reads of the file as it is now, over a connection of their own.

        A database in memory has one connection: its content is copied. At its end, the log is emptied if it
        can be: a :meth:`compact` meanwhile left there what was removed.

        Raises:
            InvalidInputError, AccessDeniedError, UnavailableError, StoredDataError: as :meth:`read`.
        """
        beginning = asyncio.ensure_future(self.read(self._begin_snapshot))
        try:
            connection = await ended(beginning)
        except asyncio.CancelledError:
            if not beginning.cancelled() and beginning.exception() is None:
                self._drop(beginning.result())  # its log would grow for ever
            raise
        try:
            yield Snapshot(self, connection)
        finally:
            await ended(asyncio.wrap_future(self.submit(partial(self._end_snapshot, connection))))

    async def compact(self) -> None:
        """Write the file anew, without pages that were freed, and empty its log.

        It waits for those who read an older state of the file, which its log has to keep for them.

        Raises:
            OutcomeUnknownError: others read or write the file until the deadline, or the disk is full or
                fails: bytes of what was removed are left.
            AccessDeniedError, StoredDataError, ForkedProcessError: as :meth:`read`.
        """
        try:
            for step in (_write_anew, _empty_log):
                await self._run(self._writers, step, "")
        except UnavailableError as exc:
            name = getattr(exc.__cause__, "sqlite_errorname", type(exc.__cause__).__name__)
            raise OutcomeUnknownError.since(
                exc,
                f"{self._path}: what was removed is in no table any more, but bytes of it stay in it and "
                f"its log ({name}); if others read or write it for long, as an export does, wait for their "
                "end; if the disk is full, free some space; then call it again",
            ) from exc

    async def close(self) -> None:
        """Let running calls finish, then close the file; a later call opens it again."""
        with self._guard:
            threads, self._threads = self._threads, None
        if threads is not None:
            await asyncio.to_thread(self._end, threads)

    async def _run(
        self,
        limiter: Limiter,
        work: Callable[[sqlite3.Connection], T],
        start: Literal["BEGIN", "BEGIN IMMEDIATE", ""],
    ) -> T:
        ends_at = machine.monotonic() + at_most(_LONGEST_WAIT_S)
        tried = 0
        while True:
            permit = await limiter.acquire()
            try:
                future = self.submit(partial(self._attempt, work, start))
            except BaseException:
                limiter.release(permit)
                raise
            # Not before the thread is free: a cancelled call leaves it at work.
            future.add_done_callback(lambda _, permit=permit: limiter.release(permit))  # type: ignore[misc]
            try:
                return await asyncio.wrap_future(future)
            except _HeldError as exc:
                held = exc
            tried += 1
            if machine.monotonic() >= ends_at:
                failure = opening.of_sqlite(held.cause, self._path, committing=False)
                if isinstance(failure, UnavailableError):
                    failure.attempts = tried
                raise failure from held.cause
            await asyncio.sleep(jitter(tried, longest_s=_LONGEST_PAUSE_S))

    def submit(self, call: Callable[[], T]) -> "Future[T]":
        """Run *call* on a thread of this object, in the context of the caller: ADK's clock is part of it."""
        self._process.require_own()
        with self._guard:
            if self._threads is None:
                # In memory, one connection has all data, so one thread uses it.
                number = 1 if self._path is None else _READERS + 1
                self._threads = machine.threads(number, "adk_store_local")
            return self._threads.submit(contextvars.copy_context().run, call)

    def _attempt(self, work: Callable[[sqlite3.Connection], T], start: str) -> T:
        """Run *work* in a transaction, in this thread."""
        committing = False
        connection = None
        try:
            connection = self._take()
            if start:
                connection.execute(start)
            result = work(connection)
            if start:
                committing = start != "BEGIN"
                connection.execute("COMMIT")
        except sqlite3.Error as exc:
            self._give_back(connection, broken=not opening.is_locked(exc))
            if opening.is_locked(exc):
                raise _HeldError(exc) from exc
            failure = opening.of_sqlite(exc, self._path, committing=committing)
            if failure is exc:
                raise
            raise failure from exc
        except BaseException:
            self._give_back(connection)
            raise
        self._give_back(connection)
        return result

    def _begin_snapshot(self, sql: sqlite3.Connection) -> sqlite3.Connection:
        other = connect(self._path)
        with self._guard:
            self._open[other] = None
        try:
            if self._path is None:
                sql.backup(other)
            other.execute("BEGIN")
            # A transaction's snapshot is that of its first read.
            other.execute("SELECT time FROM commits").fetchall()
        except BaseException:
            self._drop(other)
            raise
        return other

    def _end_snapshot(self, connection: sqlite3.Connection) -> None:
        try:
            with suppress(sqlite3.Error):  # the reads are done; the next compact() says what is wrong
                connection.execute("ROLLBACK")
                _empty_log(connection)
        finally:
            self._drop(connection)

    def _take(self) -> sqlite3.Connection:
        """Return an idle connection to the file that has the path now, or a new one."""
        found = None if self._path is None else _identity(self._path)
        with self._guard:
            connection = self._idle.pop() if self._idle else None
        if connection is not None and self._open[connection] == found:
            return connection
        # Another process removed or replaced the file: what is written here is lost.
        if connection is not None:
            self._drop(connection)
            return self._take()
        connection = connect(self._path)
        with self._guard:
            self._open[connection] = None if self._path is None else _identity(self._path)
        return connection

    def _give_back(self, connection: sqlite3.Connection | None, *, broken: bool = False) -> None:
        """End the transaction of *connection*, and keep it for the next call unless it is *broken*."""
        if connection is None:
            return
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            broken = True
        if broken and self._path is not None:
            self._drop(connection)
            return
        with self._guard:
            self._idle.append(connection)

    def _drop(self, connection: sqlite3.Connection) -> None:
        with self._guard:
            self._open.pop(connection, None)
        connection.close()

    def _end(self, threads: Executor) -> None:
        threads.shutdown()
        if self._path is None:
            return  # its one connection has all data
        with self._guard:
            idle = self._idle.copy()
            self._idle.clear()
        for connection in idle:
            self._drop(connection)


class Snapshot:
    """Reads within the transaction of one connection, one after the other."""

    def __init__(self, database: Database, sql: sqlite3.Connection) -> None:
        self._database = database
        self._sql = sql
        self._one = asyncio.Lock()

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what *work* returns, from the snapshot of all calls.

        It ends before a cancelled call does: a connection that is closed while in use ends the process.
        """
        async with self._one:
            return await ended(asyncio.wrap_future(self._database.submit(partial(self._run, work))))

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return work(self._sql)
        except sqlite3.Error as exc:
            raise opening.of_sqlite(exc, self._database.path, committing=False) from exc


class _HeldError(Exception):
    """Another connection holds the file."""

    def __init__(self, cause: sqlite3.Error) -> None:
        super().__init__(cause)
        self.cause = cause


def _write_anew(sql: sqlite3.Connection) -> None:
    sql.execute("VACUUM")


def _empty_log(sql: sqlite3.Connection) -> None:
    busy, *_ = sql.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        held = sqlite3.OperationalError("others read the file")
        held.sqlite_errorcode = sqlite3.SQLITE_BUSY
        held.sqlite_errorname = "SQLITE_BUSY"
        raise held


def _require_path(path: Path) -> None:
    if "\0" in str(path):
        raise InvalidInputError(f"{str(path)!r} contains a zero byte; pass another path")
    try:
        os.fsencode(path)
    except UnicodeEncodeError as exc:
        raise InvalidInputError(f"{str(path)!r} contains a lone surrogate; pass another path") from exc


def _close_all(connections: Iterable[sqlite3.Connection], process: OwnProcess) -> None:
    if process.is_this():
        for connection in connections:
            connection.close()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116  # a Path takes twice as long
    except OSError:
        return None
    return found.st_dev, found.st_ino
