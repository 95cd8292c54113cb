"""Keep the contents of objects in a folder of files, or in memory."""

import base64
import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeAlias, TypeVar

from gcp_adk_store import machine
from gcp_adk_store.codec.packing import RunningChecksum
from gcp_adk_store.errors import OutcomeUnknownError, StoreError, UnavailableError
from gcp_adk_store.kernel.ports import RefusedError
from gcp_adk_store.kernel.threads import Threads
from gcp_adk_store.local.database import Database
from gcp_adk_store.local.file_names import PART, FileNames, translated
from gcp_adk_store.local.object_rows import Content, unowned
from gcp_adk_store.local.opening import synchronise
from gcp_adk_store.settings import ArtifactLimits


class Summing:
    """Size and checksums of bytes that come in pieces."""

    def __init__(self) -> None:
        self.size = 0
        self._crc32c = RunningChecksum()
        self._md5 = hashlib.md5(usedforsecurity=False)

    def update(self, data: bytes) -> None:
        """Add *data*."""
        self.size += len(data)
        self._crc32c.update(data)
        self._md5.update(data)

    def content(self, name: str) -> Content:
        """Return the description of all bytes as the content *name*."""
        md5 = base64.b64encode(self._md5.digest()).decode()
        return Content(id=name, size=self.size, crc32c=self._crc32c.base64, md5=md5)


class MemoryContents:
    """Contents in memory, beside a database that is in memory; the methods are those of `FileContents`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept: dict[str, bytearray] = {}

    @asynccontextmanager
    async def draft(self) -> AsyncIterator["MemoryDraft"]:
        """Collect bytes within a block."""
        name = machine.random_bytes(16).hex()
        self._kept[name] = bytearray()
        try:
            yield MemoryDraft(name, self._kept[name])
        except GeneratorExit:
            raise  # the event loop has ended, and with it soon the process
        except BaseException:
            await self.remove([name])
            raise

    async def read(self, content: str, start: int, end: int) -> bytes | None:
        """Return a part of a content."""
        kept = self._kept.get(content)
        return None if kept is None else bytes(kept[start:end])

    def require(self, content: str) -> None:
        """Accept any: nobody else removes them."""

    def doubt(self, contents: Sequence[str]) -> None:
        """Note nothing: they end with the process."""

    async def remove(self, contents: Sequence[str]) -> None:
        """Remove contents that no object has."""
        if contents:
            # A cancelled call may have recorded an object that has them.
            for content in await self._database.read(lambda connection: unowned(connection, contents)):
                self._kept.pop(content, None)

    async def close(self) -> None:
        """Keep all, as the database does."""


class MemoryDraft(Summing):
    """Bytes that are being collected."""

    def __init__(self, name: str, kept: bytearray) -> None:
        super().__init__()
        self._name = name
        self._kept = kept

    async def write(self, data: bytes) -> None:
        """Append *data*."""
        self._kept += data
        self.update(data)

    async def finish(self) -> Content:
        """Return the description of all bytes."""
        return self.content(self._name)


T = TypeVar("T")


class FileContents:
    """Contents as files ``{folder}/{2 hex digits}/{uuid}``, in doubt while ``{folder}/pending`` names them.

    A file is written under a temporary name, then synchronised, then renamed, then its folder is
    synchronised. Its mark is there before its first byte, until the object that has it is recorded, and again
    before that object is removed, until the file is gone. So a process that is killed leaves no file that
    has neither an object nor a mark. A writer holds a lock on its mark.
    """

    def __init__(self, folder: Path, limits: ArtifactLimits) -> None:
        self._names = FileNames(folder)
        self._threads = Threads("adk-store-files", limits)

    @asynccontextmanager
    async def draft(self) -> AsyncIterator["FileDraft"]:
        """Write a file within a block, which ends by recording who has it.

        If the block fails, the file is removed; if its outcome is unknown, it is in doubt: a look at what was
        left removes it unless an object has it.

        Raises:
            AccessDeniedError: this user may not write there.
            UnavailableError: the disk is full or fails.
        """
        draft = FileDraft(self._names, self.run)
        try:
            yield draft
        except BaseException as exc:
            if not draft.is_finished or _is_refusal(exc):
                draft.discard()
            raise
        else:
            draft.settle()
        finally:
            draft.release()  # after a cancellation, too, perhaps an object has it

    async def read(self, content: str, start: int, end: int) -> bytes | None:
        """Return bytes from *start* up to *end*, fewer if the file ends before; ``None`` if it is gone."""

        def work(names: FileNames) -> bytes | None:
            try:
                with names.path(content).open("rb") as file:
                    file.seek(start)
                    return file.read(min(end, os.fstat(file.fileno()).st_size) - start)
            except FileNotFoundError:
                return None

        return await self.run(work)

    def require(self, content: str) -> None:
        """Require that a whole file is there, within the transaction that records its object.

        Raises:
            UnavailableError: it was removed, because nobody seemed to write it.
        """
        with translated(self._names.folder):
            path = self._names.path(content)
        if not path.exists():
            raise UnavailableError(
                f"{path} was removed while it was written; nothing was recorded; try again"
            )

    def doubt(self, contents: Sequence[str]) -> None:
        """Mark files that no object will have, within the transaction that removes the last one.

        Raises:
            UnavailableError, AccessDeniedError: the system refuses.
        """
        with translated(self._names.folder):
            for content in contents:
                self._names.mark_removal(content)

    async def remove(self, contents: Sequence[str]) -> None:
        """Remove files that no object has any more, then their marks; what cannot be removed stays marked."""

        def work() -> None:
            for content in contents:
                with suppress(OSError):  # its mark stays
                    self._names.unlink(content)

        if contents:
            await self._threads.run(work)

    def unlink(self, content: str) -> bool:
        """Remove a file that no object has, unless a writer holds it; return whether it is gone.

        Only within a transaction that writes: then no other call records an object with it meanwhile.

        Raises:
            UnavailableError, AccessDeniedError: the system refuses; the mark stays.
        """
        with translated(self._names.folder):
            if self._names.is_held(content):
                return False
            self._names.unlink(content, with_writer=True)
            return True

    def settle(self, content: str) -> None:
        """Remove the marks of a file that has an object; only within a transaction that writes."""
        with translated(self._names.folder):
            self._names.unmark(content)

    async def close(self) -> None:
        """Let running steps finish and end own threads; a later call starts them again."""
        await self._threads.close()

    async def run(self, step: Callable[[FileNames], T]) -> T:
        """Return what *step* returns, which blocks, from a thread.

        Raises:
            UnavailableError, AccessDeniedError, InvalidInputError: the system refuses.
        """

        def work() -> T:
            with translated(self._names.folder):
                return step(self._names)

        return await self._threads.run(work)


class FileDraft:
    """A file that is being written, whose mark is locked until it is released."""

    def __init__(
        self, names: FileNames, run: Callable[[Callable[[FileNames], None]], Awaitable[None]]
    ) -> None:
        self._names = names
        self._run = run
        self._id = machine.random_bytes(16).hex()
        self._sums = Summing()
        self._mark: int | None = None
        self._descriptor: int | None = None
        self.is_finished = False
        """Whether the whole file is durable."""

    async def write(self, data: bytes) -> None:
        """Append *data* to the temporary file."""
        await self._run(lambda _: self._write(data))

    async def finish(self) -> Content:
        """Give the whole file its name."""
        await self._run(lambda _: self._finish())
        return self._sums.content(self._id)

    def settle(self) -> None:
        """Remove the mark: an object has the file."""
        with suppress(OSError):  # then a sweep does
            self._names.unmark(self._id)

    def release(self) -> None:
        """Leave the file to its object, or to a sweep."""
        descriptors, self._descriptor, self._mark = (self._descriptor, self._mark), None, None
        for descriptor in descriptors:
            if descriptor is not None:
                with suppress(OSError):
                    os.close(descriptor)

    def discard(self) -> None:
        """Remove the file; not on a thread, so that neither a cancellation nor a busy thread prevents it."""
        with suppress(OSError):  # a sweep removes what stays
            self._names.unlink(self._id, with_writer=True)

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        descriptor = self._opened()
        while left:
            left = left[os.write(descriptor, left) :]
        self._sums.update(data)

    def _finish(self) -> None:
        path = self._names.path(self._id)
        os.fsync(self._opened())
        self._names.path(self._id, PART).rename(path)
        synchronise(path.parent)
        self.is_finished = True

    def _opened(self) -> int:
        if self._descriptor is None:
            self._mark = self._names.mark_writing(self._id)
            path = self._names.path(self._id, PART)
            self._names.make(path.parent)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        return self._descriptor


Contents: TypeAlias = FileContents | MemoryContents
"""Keeps bytes by ids of its own."""


def _is_refusal(exc: BaseException) -> bool:
    """Return whether *exc* says that nothing was written."""
    return isinstance(exc, (StoreError, RefusedError)) and not isinstance(exc, OutcomeUnknownError)
