"""Use a database in a process of its own, as the arguments say; tell the result as JSON."""

import asyncio
import json
import os
import resource
import sqlite3
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from gcp_adk_store import ForkedProcessError, StoreError
from gcp_adk_store.local.database import Database

NOBODY = 65_534


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


async def _outcome(call: Awaitable[object]) -> list[str]:
    try:
        await call
    except StoreError as exc:
        return [type(exc).__name__, str(exc)]
    return ["done", ""]


async def count_up(path: str, times: int) -> None:
    """Add one to a number, again and again, two at a time."""
    database = Database(Path(path))

    async def go_on() -> None:
        for _ in range(times // 2):
            await database.write(step)

    await asyncio.gather(go_on(), go_on())
    await database.close()


async def write_pairs(path: str) -> None:
    """Write two rows in each transaction until the process is killed; tell each that is stored."""
    database = Database(Path(path))

    def pair(sql: sqlite3.Connection, number: int) -> None:
        add(sql, f"{number}-a", os.urandom(50_000))
        add(sql, f"{number}-b", os.urandom(50_000))

    number = await database.read(count)
    while True:
        await database.write(partial(pair, number=number))
        print(number, flush=True)  # noqa: T201  # the process is killed; its last word is what it stored
        number += 2


async def write_on_a_full_disk(path: str) -> list[Any]:
    """Write until files may grow no more; tell the failure, and what is stored after it."""
    database = Database(Path(path))
    await database.write(partial(add, name="small", body=b"1"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
    refused = await _outcome(database.write(partial(add, name="large", body=os.urandom(2_000_000))))
    before = await database.read(count)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await database.write(partial(add, name="next", body=b"2"))
    found = [refused, before, await database.read(count)]
    await database.close()
    return found


async def as_nobody(path: str) -> list[list[str]]:
    """Tell how a user without rights reads and writes."""
    if os.getuid() == 0:
        os.setresuid(NOBODY, NOBODY, NOBODY)
    database = Database(Path(path))
    found = [
        await _outcome(database.read(count)),
        await _outcome(database.write(partial(add, name="one", body=b""))),
    ]
    await database.close()
    return found


async def hold(path: str) -> None:
    """Hold the file as a writer until the standard input ends."""
    database = Database(Path(path))

    def wait(sql: sqlite3.Connection) -> None:
        add(sql, "held", b"")
        print("held", flush=True)  # noqa: T201  # the other process waits for it
        sys.stdin.read()

    await database.write(wait)
    await database.close()


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


_CALLS: dict[str, Callable[..., Coroutine[Any, Any, Any]]] = {
    call.__name__: call
    for call in (count_up, write_pairs, write_on_a_full_disk, as_nobody, hold, fork_amid_writes)
}

if __name__ == "__main__":
    print(json.dumps(asyncio.run(_CALLS[sys.argv[1]](*json.loads(sys.argv[2])))))  # noqa: T201
