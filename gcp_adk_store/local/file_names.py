"""Name the files of objects and the marks of those that are in doubt; all steps block."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from google.adk.platform import time as platform_time

from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.local.opening import of_system, synchronise
from gcp_adk_store.model.payloads import LeftFile

try:
    import fcntl
except ImportError:  # Windows, where the age alone protects a file that is being written
    fcntl = None  # type: ignore[assignment]
_HAS_LOCKS: Final = bool(fcntl)

ABANDONED_AGE_S: Final = 24 * 3600.0
"""The age from which nobody writes a file, where the system has no locks that say so."""

PART: Final = ".part"

_NEW, _WRITING, _REMOVAL = ".new", ".write", ".remove"
_FOLDER: Final = re.compile(r"[0-9a-f]{2}")
_NAME: Final = re.compile(r"[0-9a-f]{32}(\.part)?")
_MARK: Final = re.compile(r"[0-9a-f]{32}\.(new|write|remove)")


class FileNames:
    """The files ``{folder}/{2 hex digits}/{uuid}`` and the marks ``{folder}/pending/{uuid}.{why}``.

    Marks are not synchronised: they show what a killed process left. After a loss of power, only a look at
    all files finds those that no object has.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._marks = folder / "pending"
        self._made: set[Path] = set()
        self._unsynchronised: set[Path] = set()

    def path(self, content: str, suffix: str = "") -> Path:
        """Return the path of a file."""
        return self._own(self.folder / content[:2] / f"{content}{suffix}")

    def make(self, folder: Path) -> None:
        """Make *folder* durable: another process that made it may not have synchronised it yet."""
        if folder in self._made and folder.is_dir():
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # for this user alone, as all below it
        synchronise(self.folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        synchronise(self.folder)
        self._made.add(folder)

    def mark_writing(self, content: str) -> int:
        """Mark a file before its first byte; return the descriptor that holds the mark's lock."""
        self.make(self._marks)
        new = self._mark(content, _NEW)
        while True:
            descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                _lock(descriptor)  # before it has a name that others judge by its lock
                new.rename(self._mark(content, _WRITING))
            except FileNotFoundError:
                os.close(descriptor)  # a sweep whose clock is a day ahead came before the lock
            except BaseException:
                os.close(descriptor)
                raise
            else:
                return descriptor

    def mark_removal(self, content: str) -> None:
        """Mark a file before the object that has it is removed."""
        self.path(content)  # refuses one that could not be removed
        self.make(self._marks)
        os.close(os.open(self._mark(content, _REMOVAL), os.O_RDWR | os.O_CREAT, 0o600))

    def unmark(self, content: str) -> None:
        """Remove the marks of a file that has an object."""
        for why in (_NEW, _WRITING, _REMOVAL):
            self._mark(content, why).unlink(missing_ok=True)

    def unlink(self, content: str, *, with_writer: bool = False) -> None:
        """Remove a file, then its mark, and with *with_writer* that of a writer that is done with it."""
        for suffix in ("", PART):
            self.path(content, suffix).unlink(missing_ok=True)
        self._unsynchronised.add(self.path(content).parent)
        if with_writer:
            self.unmark(content)
        else:
            self._mark(content, _REMOVAL).unlink(missing_ok=True)

    def is_held(self, content: str) -> bool:
        """Return whether a writer that runs may be about to record an object with the file."""
        # The file itself has the lock of a writer of release 0.1.
        marks = (self._mark(content, _NEW), self._mark(content, _WRITING))
        paths = (*marks, self.path(content, PART), self.path(content))
        return any(map(_is_locked, paths))

    def pending(self, *, now: float) -> list[LeftFile]:
        """Return the files that marks name, each once, also those that are gone: their marks are left."""
        marked: dict[str, LeftFile] = {}
        for entry in _entries(self._own(self._marks)):
            content, _, why = entry.name.partition(".")
            if not _MARK.fullmatch(entry.name) or content in marked:
                continue
            with suppress(FileNotFoundError):  # removed meanwhile
                marked_at = entry.stat().st_mtime
                # A writer renames a new mark at once, unless it is killed.
                if f".{why}" != _NEW or marked_at <= now - ABANDONED_AGE_S:
                    marked[content] = self._found(content, marked_at)
        return [*marked.values()]

    def folders(self) -> list[str]:
        """Return the names of the folders of files, at most 256."""
        return [entry.name for entry in _entries(self.folder) if _FOLDER.fullmatch(entry.name)]

    def listed(self, name: str) -> list[LeftFile]:
        """Return all files of the folder *name*, temporary ones too."""
        found = []
        for entry in _entries(self._own(self.folder / name)):
            # A name of another folder is not that of an object's file: nothing here would remove it.
            if _NAME.fullmatch(entry.name) and entry.name.startswith(name):
                with suppress(FileNotFoundError):  # removed meanwhile
                    content = entry.name.removesuffix(PART)
                    found.append(self._described(content, Path(entry.path), entry.stat()))
        return found

    def synchronise(self) -> None:
        """Make removals by this object durable."""
        while self._unsynchronised:
            folder = self._unsynchronised.pop()
            with suppress(FileNotFoundError):
                synchronise(folder)

    def _mark(self, content: str, why: str) -> Path:
        return self._own(self._marks / f"{content}{why}")

    def _own(self, path: Path) -> Path:
        """Return a *path* in the folder or in one below it; the folder alone may be a symbolic link."""
        for each in (path.parent, path):
            if each != self.folder and each.is_symlink():
                raise OSError(errno.ELOOP, "a symbolic link below the folder", f"{each}")
        return path

    def _found(self, content: str, marked_at: float) -> LeftFile:
        for suffix in ("", PART):
            with suppress(FileNotFoundError):
                path = self.path(content, suffix)
                return self._described(content, path, path.stat())
        return LeftFile(content=content, name="", size=0, since=marked_at, is_there=False)

    def _described(self, content: str, path: Path, found: os.stat_result) -> LeftFile:
        name = path.relative_to(self.folder.parent).as_posix()
        return LeftFile(content=content, name=name, size=found.st_size, since=found.st_mtime)


@contextmanager
def translated(folder: Path) -> Iterator[None]:
    """Translate errors of the system within the block, which works in *folder*.

    Raises:
        InvalidInputError: *folder* cannot be a folder.
        AccessDeniedError: this user may not do it.
        UnavailableError: the disk is full or fails.
        StoredDataError: a path within it is a symbolic link.
    """
    try:
        yield
    except OSError as exc:
        if exc.errno == errno.ELOOP:
            raise StoredDataError(
                f"{exc.filename} is a symbolic link, which may lead out of the store: put a copy of what it "
                "names in its place"
            ) from exc
        raise of_system(exc, folder) from exc


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(folder))
    except FileNotFoundError:
        return []


def _is_locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        if _HAS_LOCKS:
            return not _lock(descriptor)
        return os.fstat(descriptor).st_mtime > platform_time.get_time() - ABANDONED_AGE_S
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock the file unless another descriptor has it locked; the lock ends with the process at the latest."""
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True
