"""Keep the bytes of objects in files that are whole or absent, even if the process is killed."""

import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from gcp_adk_store import machine
from gcp_adk_store.errors import OutcomeUnknownError, StoreError
from gcp_adk_store.local import failures
from gcp_adk_store.local.contents import Content, Summing
from gcp_adk_store.local.threads import Threads
from gcp_adk_store.ports.refusals import RefusedError
from gcp_adk_store.settings import ArtifactLimits

try:
    import fcntl
except ImportError:  # Windows, where the age alone protects a file that is being written
    fcntl = None  # type: ignore[assignment]

ORPHAN_AGE_S: Final = 24 * 3600.0
"""The age from which a sweep removes a file that no object has."""

_FOLDERS: Final = 256
_LOOKED_AT: Final = 10_000
"""Files that one sweep looks at: some tens of milliseconds."""
_PART: Final = ".part"
_NAME: Final = re.compile(r"[0-9a-f]{32}(\.part)?")


class FileContents:
    """Contents as files ``{folder}/{2 hex digits}/{uuid}``.

    A file is written under a temporary name, then synchronised, then renamed, then its folder is
    synchronised. Its writer holds a lock on it until the object that has it is recorded.
    """

    def __init__(self, folder: Path, limits: ArtifactLimits) -> None:
        self._folder = folder
        self._threads = Threads(limits)
        self._made: set[Path] = set()

    @asynccontextmanager
    async def draft(self) -> AsyncIterator["FileDraft"]:
        """Write a file within a block; see :meth:`Contents.draft`."""
        draft = FileDraft(self._folder, self._threads, self._made)
        try:
            yield draft
        except BaseException as exc:
            if not draft.is_finished or _is_refusal(exc):
                draft.discard()
            raise
        finally:
            draft.release()  # after a cancellation, too, perhaps an object has it

    async def read(self, content: str, start: int, end: int) -> bytes | None:
        """Return a part of a file; see :meth:`Contents.read`."""

        def work() -> bytes | None:
            with translated(self._folder):
                try:
                    with self._path(content).open("rb") as file:
                        file.seek(start)
                        return file.read(end - start)
                except FileNotFoundError:
                    return None

        return await self._threads.run(work)

    async def remove(self, contents: Sequence[str]) -> None:
        """Remove files, temporary ones too; see :meth:`Contents.remove`."""

        def work() -> None:
            for content in contents:
                for suffix in ("", _PART):
                    with suppress(OSError):
                        self._path(content, suffix).unlink(missing_ok=True)

        if contents:
            await self._threads.run(work)

    async def old(self, *, now: float) -> list[str]:
        """Return ids of files, temporary ones too, that are older than a day; looks at some 10,000 files."""

        def work() -> list[str]:
            with translated(self._folder):
                return list(_old_files(self._folder, before=now - ORPHAN_AGE_S))

        return await self._threads.run(work)

    async def unlocked(self, contents: Sequence[str]) -> list[str]:
        """Return those of some old *contents* that nobody writes: they have their objects, or never will."""

        def work() -> list[str]:
            with translated(self._folder):
                return [content for content in contents if not self._is_locked(content)]

        return await self._threads.run(work)

    async def close(self) -> None:
        """End the threads; see :meth:`Contents.close`."""
        await self._threads.close()

    def _is_locked(self, content: str) -> bool:
        for suffix in (_PART, ""):
            with suppress(FileNotFoundError):
                descriptor = os.open(self._path(content, suffix), os.O_RDONLY)
                try:
                    return not _lock(descriptor)
                finally:
                    os.close(descriptor)
        return False

    def _path(self, content: str, suffix: str = "") -> Path:
        return _path(self._folder, content, suffix)


class FileDraft:
    """A file that is being written, and locked until it is released."""

    def __init__(self, folder: Path, threads: Threads, made: set[Path]) -> None:
        self._folder = folder
        self._threads = threads
        self._made = made
        self._id = machine.random_bytes(16).hex()
        self._sums = Summing()
        self._descriptor: int | None = None
        self.is_finished = False
        """Whether the whole file is durable."""

    async def write(self, data: bytes) -> None:
        """Append *data* to the temporary file."""
        await self._run(partial(self._write, data))

    async def finish(self) -> Content:
        """Give the whole file its name."""
        await self._run(self._finish)
        return self._sums.content(self._id)

    def release(self) -> None:
        """Leave the file to its object, or to a sweep."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            with suppress(OSError):
                os.close(descriptor)

    def discard(self) -> None:
        """Remove the file; not on a thread, so that neither a cancellation nor a busy thread prevents it."""
        for suffix in (_PART, ""):
            with suppress(OSError):  # a sweep removes what stays
                _path(self._folder, self._id, suffix).unlink(missing_ok=True)

    async def _run(self, step: Callable[[], None]) -> None:
        def work() -> None:
            with translated(self._folder):
                step()

        await self._threads.run(work)

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        descriptor = self._opened()
        while left:
            left = left[os.write(descriptor, left) :]
        self._sums.update(data)

    def _finish(self) -> None:
        path = _path(self._folder, self._id)
        os.fsync(self._opened())
        _path(self._folder, self._id, _PART).rename(path)
        synchronise(path.parent)
        self.is_finished = True

    def _opened(self) -> int:
        if self._descriptor is None:
            path = _path(self._folder, self._id, _PART)
            self._make(path.parent)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
            _lock(self._descriptor)
        return self._descriptor

    def _make(self, folder: Path) -> None:
        """Make *folder* durable: another process that made it may not have synchronised it yet."""
        if folder in self._made and folder.is_dir():
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # for this user alone
        synchronise(self._folder.parent)
        folder.mkdir(exist_ok=True)
        synchronise(self._folder)
        self._made.add(folder)


@contextmanager
def translated(folder: Path) -> Iterator[None]:
    """Translate errors of the system within the block, which works in *folder*.

    Raises:
        InvalidInputError: *folder* cannot be a folder.
        AccessDeniedError: this user may not do it.
        UnavailableError: the disk is full or fails.
    """
    try:
        yield
    except OSError as exc:
        raise failures.of_system(exc, folder) from exc


def synchronise(folder: Path) -> None:
    """Make the names in *folder* durable."""
    if os.name == "nt":
        return  # Windows opens no folders
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_refusal(exc: BaseException) -> bool:
    """Return whether *exc* says that nothing was written."""
    return isinstance(exc, (StoreError, RefusedError)) and not isinstance(exc, OutcomeUnknownError)


def _path(folder: Path, content: str, suffix: str = "") -> Path:
    return folder / content[:2] / f"{content}{suffix}"


def _lock(descriptor: int) -> bool:
    """Lock the file unless another descriptor has it locked; the lock ends with the process at the latest."""
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def _old_files(folder: Path, *, before: float) -> Iterator[str]:
    looked_at = 0
    # In random order, so that each file is reached some day if one sweep cannot look at all.
    for number in sorted(range(_FOLDERS), key=lambda _: machine.random_bytes(8)):
        try:
            entries = list(os.scandir(folder / f"{number:02x}"))
        except FileNotFoundError:
            continue
        for entry in entries:
            with suppress(FileNotFoundError):  # removed meanwhile
                if _NAME.fullmatch(entry.name) and entry.stat().st_mtime < before:
                    yield entry.name.removesuffix(_PART)
        looked_at += len(entries)
        if looked_at >= _LOOKED_AT:
            return
