"""Use the objects of a store in another process: race for names, die at a step, fork, or fill the disk."""

import asyncio
import os
import resource
import shutil
import signal
import sqlite3
import threading
from collections.abc import Callable
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from gcp_adk_store.codec.objects import ObjectFields
from gcp_adk_store.errors import ForkedProcessError, UnavailableError
from gcp_adk_store.kernel.ports import ObjectExistsError
from tests.local.objects.conftest import Kept, kept_at

FIELDS: Final = ObjectFields(content_type="text/plain", metadata={"k": "v"})
OLD: Final = b"old" * 1000
NEW: Final = b"new" * 100_000
NAMES: Final = 40
_LARGEST: Final = 1024 * 1024


def upload(data: bytes) -> ObjectFields:
    """Return an upload of *data*."""
    return ObjectFields(data=data, content_type=FIELDS.content_type, metadata=FIELDS.metadata)


async def create(kept: Kept) -> None:
    """Create an object at once."""
    await kept.objects.create("new", upload(NEW))


async def send(kept: Kept) -> None:
    """Create an object in pieces."""

    async def read_at(start: int, size: int) -> bytes:
        return NEW[start : start + min(size, 100_000)]

    await kept.uploads.create("new", FIELDS, size=len(NEW), read_at=read_at, on_progress=lambda _: None)


async def copy(kept: Kept) -> None:
    """Copy the old object."""
    source = await kept.objects.info("old")
    assert source is not None
    await kept.objects.copy(source, "new", FIELDS)


async def delete(kept: Kept) -> None:
    """Delete the old object."""
    await kept.objects.delete("old", generation=None)


CALLS: Final = {call.__name__: call for call in (create, send, copy, delete)}


def killed(folder: str, name: str, every: int) -> int:
    """Run a call on copies of ``{folder}/store``, killed at steps; return the first that is not there."""
    for step in count(0, every):
        copied = Path(folder) / f"{step}"
        shutil.copytree(Path(folder) / "store", copied)
        child = os.fork()
        if not child:
            _die_at(step)
            asyncio.run(CALLS[name](kept_at(copied)))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            assert 0 == os.WEXITSTATUS(status)
            return step
        assert signal.SIGKILL == os.WTERMSIG(status)
    raise AssertionError


def _die_at(step: int) -> None:
    """Kill this process before its call *step* of the system or of SQLite; some writes count twice."""
    steps = count()

    def one() -> None:
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*arguments: Any, **options: Any) -> Any:
            one()
            return call(*arguments, **options)

        return instead

    write, connect = os.write, sqlite3.connect

    def write_in_halves(descriptor: int, data: bytes) -> int:
        if not threading.current_thread().name.startswith("adk-store-files"):
            return write(descriptor, data)  # of asyncio, to itself
        one()
        half = write(descriptor, data[: len(data) // 2])
        one()
        return half + write(descriptor, data[half:])

    def connect_traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.set_trace_callback(lambda _: one())
        return connection

    for name in ("open", "fsync", "rename", "mkdir", "unlink", "close"):
        setattr(os, name, counted(getattr(os, name)))
    setattr(os, "write", write_in_halves)  # noqa: B010  # of another type
    setattr(sqlite3, "connect", connect_traced)  # noqa: B010  # likewise


def race(caller: Connection, folder: str, data: str) -> None:
    """Create all names as soon as the caller says so; tell those that were free."""

    async def run() -> list[str]:
        kept = kept_at(Path(folder))
        won = []
        caller.send("ready")
        await asyncio.to_thread(caller.recv)
        for number in range(NAMES):
            try:
                await kept.objects.create(f"{number}", upload(data.encode() * 1000))
            except ObjectExistsError:
                continue
            won.append(f"{number}")
        await kept.objects.close()
        return won

    caller.send(asyncio.run(run()))


def forked(folder: str) -> list[str]:
    """Create objects before a fork, in a child that may not, and afterwards; return their names."""
    kept = kept_at(Path(folder))
    asyncio.run(kept.objects.create("before", upload(OLD)))
    child = os.fork()
    if not child:
        try:
            asyncio.run(kept.objects.create("child", upload(NEW)))
        except ForkedProcessError:
            os._exit(0)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert 0 == status
    asyncio.run(kept.objects.create("after", upload(OLD)))
    return asyncio.run(kept.objects.names("", delimiter=None))


def full(folder: str) -> list[str]:
    """Create a small object after a large one that the disk cannot take; return what was said of that."""

    async def run() -> list[str]:
        kept = kept_at(Path(folder))
        resource.setrlimit(resource.RLIMIT_FSIZE, (_LARGEST, resource.RLIM_INFINITY))
        said = []
        try:
            await kept.objects.create("large", upload(bytes(2 * _LARGEST)))
        except UnavailableError as exc:
            said.append(str(exc))
        await kept.objects.create("small", upload(OLD))
        await kept.objects.close()
        return said

    return asyncio.run(run())
