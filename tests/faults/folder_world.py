"""A store in a folder for every case, and what goes wrong with its steps: statements and system calls."""

import asyncio
import errno
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
from google.adk.platform import time as platform_time

from gcp_adk_store import ArtifactLimits, ArtifactService, SessionLimits, SessionService
from gcp_adk_store.codec.names import UPLOADS
from gcp_adk_store.kernel.ports import Backend
from gcp_adk_store.local.backend import DATABASE, contents_of
from gcp_adk_store.local.database import Database
from gcp_adk_store.local.documents import LocalDocuments
from gcp_adk_store.local.objects import LocalObjects, LocalUploads, local_signer
from gcp_adk_store.local.sweep import Sweeper
from tests.faults.world import DAY_S, NOW, Holdings, Tasks, World, meaning
from tests.support.folder import files_without_object, read_documents, read_objects
from tests.support.stored import plain_text
from tests.support.stores import sessions_over

T = TypeVar("T")

_CALLS: Final = ("open", "write", "fsync", "rename", "mkdir", "unlink")
_THREADS: Final = ("adk-store-files", "adk_store_local")
"""How the names of the store's threads begin."""


class FolderWorld(World):
    """A folder that no other case has seen."""

    def __init__(self, folder: Path, now: float = NOW) -> None:
        super().__init__(now)
        self.folder = folder

    @contextmanager
    def keeping_time(self) -> Iterator[None]:
        """Let the running task, and what it starts, live at the time of this world."""
        platform_time.set_time_provider(lambda: self.now)
        try:
            yield
        finally:
            platform_time.reset_time_provider()

    async def put_upload(self, name: str) -> None:
        objects = self._backend().objects
        await objects.create(name, plain_text(b"put"))
        await objects.close()

    async def collect(self, *, uploads: bool = True) -> None:
        """Remove all garbage, and the files that a sweep removes once they are older than a day."""
        await super().collect(uploads=uploads)
        objects = Database(self.folder / DATABASE)
        contents = contents_of(objects, ArtifactLimits())
        await Sweeper(objects, contents).sweep_objects(now=time.time() + 2 * DAY_S)
        await contents.close()
        await objects.close()
        assert not files_without_object(self.folder)

    def _backend(
        self, limits: SessionLimits | None = None, artifacts: ArtifactLimits | None = None
    ) -> Backend:
        """Return a backend without a sweeper: for it, what expires in a case would have expired long ago."""
        database = Database(self.folder / DATABASE)
        artifacts = artifacts or ArtifactLimits()
        contents = contents_of(database, artifacts)
        objects = LocalObjects(database, contents, artifacts)
        return Backend(
            documents=LocalDocuments(database, limits or SessionLimits()),
            objects=objects,
            uploads=LocalUploads(objects, contents),
            signer=local_signer(),
        )

    def _open_sessions(
        self, limits: SessionLimits, *, bucket: bool, acting: bool, options: dict[str, Any]
    ) -> SessionService:
        del acting
        backend = self._backend(limits)
        objects = backend.objects if bucket else None
        return sessions_over(backend.documents, objects, limits=limits, **options)

    def _open_artifacts(self, limits: ArtifactLimits, *, acting: bool) -> ArtifactService:
        del acting
        backend = self._backend(artifacts=limits)
        return ArtifactService(backend.objects, backend.uploads, backend.signer, limits)

    def _open_tasks(self, kind: type[Tasks], limits: SessionLimits, *, acting: bool) -> Tasks:
        del acting
        return kind(self._backend(limits).documents, prefix="adk", limits=limits)

    async def holdings(self) -> Holdings:
        return await asyncio.to_thread(self._read)

    def _read(self) -> Holdings:
        objects = {
            name: {"md5Hash": found.md5, "contentType": found.content_type, "metadata": found.metadata}
            for name, found in read_objects(self.folder).items()
            if not name.startswith(f"{UPLOADS}/")
        }
        return meaning(read_documents(self.folder)) | objects


@dataclass(frozen=True)
class Failure:
    """What a step meets; by default it is not done."""

    name: str
    """Of SQLite's code or of the system's."""
    is_done: bool = False
    """Whether the step is done all the same."""

    def error(self) -> Exception:
        """Return the exception."""
        if not self.name.startswith("SQLITE_"):
            number = getattr(errno, self.name)
            return OSError(number, os.strerror(number))
        exc = sqlite3.OperationalError(self.name)
        exc.sqlite_errorcode = getattr(sqlite3, self.name)
        exc.sqlite_errorname = self.name
        return exc


@dataclass
class Pause:
    """A step waits, before or after it is done, until it may go on."""

    is_done: bool
    reached: threading.Event = field(default_factory=threading.Event)
    may_go_on: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Kill:
    """The process ends, before or after the step is done."""

    is_done: bool


Fault = Failure | Pause | Kill
Step = tuple[str, int]
"""Its kind, and its number among those of the kind: threads take steps in any order."""


class Steps:
    """All steps of local stores of this process: each can be counted, and one of them can go wrong."""

    def __init__(self) -> None:
        self.taken: list[Step] = []
        """The steps that came while a plan was in force, in order."""
        self._plan: Callable[[Step], Fault | None] | None = None
        self._guard = threading.Lock()

    @contextmanager
    def suffering(self, plan: Callable[[Step], Fault | None]) -> Iterator[None]:
        """Let a step meet what *plan* says of it."""
        self.taken = []
        self._plan = plan
        try:
            yield
        finally:
            self._plan = None

    def take(self, kind: str, step: Callable[[], T], half: Callable[[], object] = lambda: None) -> T:
        """Do a step, or what its fault is instead; a write that fails has done *half*."""
        with self._guard:
            if self._plan is None:
                return step()
            taken = kind, sum(kind == other for other, _ in self.taken)
            self.taken.append(taken)
            fault = self._plan(taken)
        if fault is None:
            return step()
        if fault.is_done:
            result = step()
            self._meet(fault)
            return result
        if isinstance(fault, Failure | Kill):
            half()
        self._meet(fault)
        return step()

    def _meet(self, fault: Fault) -> None:
        match fault:
            case Failure():
                raise fault.error()
            case Kill():
                os.kill(os.getpid(), signal.SIGKILL)
            case Pause():
                fault.reached.set()
                fault.may_go_on.wait()


STEPS: Final = Steps()


class _Connection(sqlite3.Connection):
    """A connection whose statements are steps."""

    _writes = False

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        return STEPS.take(self._kind(sql), lambda: super(_Connection, self).execute(sql, *arguments))

    def executemany(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        return STEPS.take(self._kind(sql), lambda: super(_Connection, self).executemany(sql, *arguments))

    def _kind(self, sql: str) -> str:
        match sql.split(maxsplit=1)[0]:
            case "INSERT" | "UPDATE" | "DELETE":
                return "change"
            case "COMMIT" if self._writes:
                return "commit"
            case "BEGIN":
                self._writes = sql.endswith("IMMEDIATE")
                return "begin" if self._writes else "read"
        return "read"


def watch(patch: pytest.MonkeyPatch) -> None:
    """Let :data:`STEPS` have all steps of the stores that are opened from now on."""
    connect = sqlite3.connect
    patch.setattr(
        sqlite3, "connect", lambda *given, **options: connect(*given, **options, factory=_Connection)
    )
    for name in _CALLS:
        patch.setattr(os, name, _watched(name, getattr(os, name)))


def _watched(name: str, call: Callable[..., T]) -> Callable[..., T]:
    def instead(*given: Any, **options: Any) -> T:
        if not threading.current_thread().name.startswith(_THREADS):
            return call(*given, **options)
        half = (lambda: call(given[0], given[1][: len(given[1]) // 2])) if name == "write" else lambda: None
        return STEPS.take(name, lambda: call(*given, **options), half)

    return instead
