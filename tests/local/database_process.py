"""Use a database in a process of its own."""

import asyncio
import os
import sqlite3
import threading
from pathlib import Path

from gcp_adk_store import ForkedProcessError
from gcp_adk_store.local.database import Database


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


async def fork_amid_writes(path: str, times: int) -> list[int]:
    """Fork again and again while threads write; return the statuses of the children, which may not write."""
    database = Database(Path(path))
    await database.write(step)
    may_end = threading.Event()

    async def go_on() -> None:
        while not may_end.is_set():
            await database.write(step)
            await database.read(count)

    threads = [threading.Thread(target=asyncio.run, args=(go_on(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    statuses = []
    for _ in range(times):
        child = os.fork()
        if child == 0:
            try:
                asyncio.run(database.write(step))
            except ForkedProcessError:
                os._exit(0)
            os._exit(1)
        statuses.append((await asyncio.to_thread(os.waitpid, child, 0))[1])
    may_end.set()
    for thread in threads:
        thread.join()
    await database.close()
    return statuses
