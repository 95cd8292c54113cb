"""Show that one SQLite file serves threads, loops and processes, and that each failure says the way out."""

import asyncio
import gc
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store import InvalidInputError, StoredDataError, UnavailableError
from gcp_adk_store.local.database import Database
from gcp_adk_store.local.opening import APPLICATION_ID, FORMAT
from tests.support.small_pieces import set_numbers

LONGEST_S = 60


def add(sql: sqlite3.Connection, name: str, body: bytes) -> None:
    """Store one row."""
    sql.execute(
        "INSERT INTO documents (key, parent, collection, update_time, fields, content)"
        " VALUES (?, '', '', 0, '', ?)",
        (name, body),
    )


def count(sql: sqlite3.Connection) -> int:
    """Return how many rows there are."""
    (number,) = sql.execute("SELECT count(*) FROM documents").fetchone()
    return int(number)


def step(sql: sqlite3.Connection) -> None:
    """Add one to a number that is read first."""
    ((time,),) = sql.execute("SELECT time FROM commits").fetchall()
    sql.execute("UPDATE commits SET time = ?", (time + 1,))


def number(sql: sqlite3.Connection) -> int:
    """Return the number that :func:`step` raises."""
    ((found,),) = sql.execute("SELECT time FROM commits").fetchall()
    return int(found)


@contextmanager
def held(path: Path) -> Iterator[sqlite3.Connection]:
    """Hold the file as another writer does, until it commits or the block ends."""
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        yield holder


async def test_nothing_exists_before_the_first_call(path: Path) -> None:
    """Neither the file nor its folder; then both, the folder for this user alone."""
    database = Database(path)
    await database.close()
    assert not path.parent.exists()

    assert 0 == await database.read(count)
    assert 0o700 == path.parent.stat().st_mode & 0o777
    await database.close()
    with closing(sqlite3.connect(path)) as sql:
        assert [(APPLICATION_ID,)] == sql.execute("PRAGMA application_id").fetchall()
        assert [(FORMAT,)] == sql.execute("PRAGMA user_version").fetchall()


async def test_memory_keeps_everything_of_its_object() -> None:
    """Also after closing; another object has its own."""
    database, other = Database(None), Database(None)
    await database.write(partial(add, name="one", body=b""))
    await database.close()

    assert 1 == await database.read(count)
    assert 0 == await other.read(count)
    await asyncio.gather(
        *(database.write(step) for _ in range(50)), *(database.read(count) for _ in range(50))
    )
    assert 50 == await database.read(number)


async def test_a_read_is_one_snapshot(database: Database, path: Path) -> None:
    """A write between its statements is not seen by it, and is not held up by it."""
    other = Database(path)
    read_first, written = threading.Event(), threading.Event()

    def twice(sql: sqlite3.Connection) -> list[int]:
        first = count(sql)
        read_first.set()
        assert written.wait(60)
        return [first, count(sql)]

    async def write() -> None:
        await asyncio.to_thread(read_first.wait, 30)
        await other.write(partial(add, name="one", body=b""))
        written.set()

    found, _ = await asyncio.gather(database.read(twice), write())
    assert [0, 0] == found
    assert 1 == await database.read(count)
    await other.close()


def waiting(sql: sqlite3.Connection, begun: threading.Event, goes_on: threading.Event) -> list[tuple[int]]:
    """Read until *goes_on* is set, within the engine of *sql*."""

    def wait() -> int:
        begun.set()
        return int(goes_on.wait(60))

    sql.create_function("wait", 0, wait)
    return sql.execute("SELECT wait() FROM (VALUES (1), (2))").fetchall()


async def test_a_cancelled_read_of_a_snapshot_ends_before_its_connection_is_closed(
    database: Database,
) -> None:
    """A connection that is closed while a thread uses it ends the whole process."""
    begun, goes_on = threading.Event(), threading.Event()

    async def read() -> None:
        async with database.snapshot() as snapshot:
            await snapshot.read(partial(waiting, begun=begun, goes_on=goes_on))

    reading = asyncio.create_task(read())
    await asyncio.to_thread(begun.wait, 30)
    for _ in range(2):
        reading.cancel()
        await asyncio.sleep(0)
        assert not reading.done()
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert 0 == await database.read(count)


async def test_a_snapshot_whose_begin_is_cancelled_leaves_no_reader(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that nobody ends would keep every removed byte in the log."""
    begun, goes_on = threading.Event(), threading.Event()
    begin = Database._begin_snapshot

    def slow(self: Database, sql: sqlite3.Connection) -> Any:
        connection = begin(self, sql)
        begun.set()
        assert goes_on.wait(60)
        return connection

    async def read() -> None:
        async with database.snapshot():
            pass

    await database.write(partial(add, name="one", body=b"secret"))
    with monkeypatch.context() as patch:
        patch.setattr(Database, "_begin_snapshot", slow)
        reading = asyncio.create_task(read())
        await asyncio.to_thread(begun.wait, 30)
        reading.cancel()
        await asyncio.sleep(0)
        goes_on.set()
        with pytest.raises(asyncio.CancelledError):
            await reading

    set_numbers(monkeypatch, wait_for_readers_s=0.0)
    await database.compact()


async def test_a_held_file_is_waited_for(path: Path, database: Database) -> None:
    """Until the other one has written; reads need not wait."""
    await database.read(count)
    with held(path) as holder:
        writing = asyncio.create_task(database.write(partial(add, name="one", body=b"")))
        assert 0 == await database.read(count)
        assert not writing.done()
        holder.execute("COMMIT")
        await writing
    assert 1 == await database.read(count)


async def test_a_cancelled_call_that_waits_writes_nothing(path: Path, database: Database) -> None:
    """And the calls behind it go on."""
    await database.read(count)
    with held(path):
        first = asyncio.create_task(database.write(partial(add, name="one", body=b"")))
        second = asyncio.create_task(database.write(partial(add, name="two", body=b"")))
        assert 0 == await database.read(count)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await database.close()  # when it returns, no try of the first runs any more
    await second
    assert 1 == await database.read(count)


async def test_a_loop_that_ends_amid_a_write_does_not_stop_the_others(database: Database) -> None:
    """Another loop writes next."""
    begun, may_end = threading.Event(), threading.Event()

    def slow(sql: sqlite3.Connection) -> None:
        begun.set()
        assert may_end.wait(60)
        step(sql)

    async def leave() -> None:
        call = asyncio.create_task(database.write(slow))
        await asyncio.to_thread(begun.wait, 30)
        call.cancel()

    await asyncio.to_thread(asyncio.run, leave())
    may_end.set()
    await database.write(step)
    assert 2 == await database.read(number)


async def test_a_removed_folder_is_made_again(path: Path, database: Database) -> None:
    """A write into the removed file would be lost, though it succeeds."""
    await database.write(partial(add, name="one", body=b""))
    shutil.rmtree(path.parent)
    await database.write(partial(add, name="two", body=b""))

    other = Database(path)
    assert 1 == await other.read(count)
    await other.close()


async def test_a_file_of_its_greatest_size_is_full(path: Path, database: Database) -> None:
    """SQLite's own limit is reported as a full disk is."""

    def overflow(sql: sqlite3.Connection) -> None:
        sql.execute("PRAGMA max_page_count = 20")
        add(sql, "large", bytes(1_000_000))

    with pytest.raises(UnavailableError, match="takes no more") as caught:
        await database.write(overflow)
    assert str(path) in str(caught.value)
    assert 0 == await database.read(count)


async def test_the_database_of_another_program_is_refused(path: Path, database: Database) -> None:
    """And stays as it is."""
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as sql:
        sql.execute("CREATE TABLE documents (path TEXT)")
    before = path.read_bytes()
    with pytest.raises(InvalidInputError, match="another program"):
        await database.read(count)
    assert before == path.read_bytes()


async def test_an_empty_file_becomes_a_store(path: Path, database: Database) -> None:
    """A process that was killed at the right moment leaves one."""
    path.parent.mkdir()
    path.touch()
    assert 0 == await database.read(count)


async def test_an_empty_file_beside_a_log_is_reported(path: Path, database: Database, tmp_path: Path) -> None:
    """SQLite would remove the log, and with it what was stored."""
    await database.write(lambda sql: add(sql, "kept", b""))
    other = tmp_path / "other" / path.name
    other.parent.mkdir()
    other.touch()
    log = other.with_name(f"{other.name}-wal")
    log.write_bytes(path.with_name(f"{path.name}-wal").read_bytes())
    before = log.read_bytes()
    with pytest.raises(StoredDataError, match=r"has 0 bytes.*backup"):
        await Database(other).read(count)
    assert before == log.read_bytes() != b""


async def test_a_damaged_file_is_reported(path: Path, database: Database) -> None:
    """With the way out."""

    def fill(sql: sqlite3.Connection) -> None:
        for one in range(200):
            add(sql, str(one), os.urandom(2000))

    await database.write(fill)
    await database.close()
    content = bytearray(path.read_bytes())
    content[4096 * 3 : 4096 * 40] = os.urandom(4096 * 37)
    path.write_bytes(content)
    with pytest.raises(StoredDataError, match="backup") as caught:
        await database.read(lambda sql: sql.execute("SELECT key, content FROM documents").fetchall())
    assert str(path) in str(caught.value)


async def test_an_object_that_is_forgotten_closes_its_file(path: Path) -> None:
    """Without a warning, and without a thread that goes on."""
    gc.freeze()  # else each collection goes through all that earlier tests left
    others = {*threading.enumerate()}
    database = Database(path)
    await database.read(count)
    threads = {*threading.enumerate()} - others
    del database
    gc.collect()
    for thread in threads:  # it has the call, and with it the object, for a moment after the answer
        await asyncio.to_thread(thread.join, LONGEST_S)
    assert [path] == list(path.parent.iterdir())
