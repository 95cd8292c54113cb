"""Read artifacts in parts, and move them from and to files."""

import asyncio
import contextvars
import io
import logging
import os
import stat
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, BinaryIO, Final, Self, TypeVar

from gcp_adk_store import machine
from gcp_adk_store.codec.objects import ObjectFields, StoredObject
from gcp_adk_store.codec.packing import CHANGED_BYTES, RunningChecksum
from gcp_adk_store.errors import InvalidInputError, StoredDataError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.calls import Entered, begin_span, checks_kinds
from gcp_adk_store.kernel.operation import Operation, running
from gcp_adk_store.kernel.ports import CHUNK_BYTES, Objects, Uploads
from gcp_adk_store.kernel.threads import ended

logger = logging.getLogger(__name__)

T = TypeVar("T")

OnProgress = Callable[[int, int], object]
"""Called in the event loop with the bytes moved so far, and all of them."""

_PIECE: Final = 8 * 1024 * 1024
"""Bytes of each request of a download."""

_GZIP: Final = 31  # zlib's number for a gzip stream
_GZIP_START: Final = b"\x1f"


class Progress:
    """Reports a transfer to the caller's callback; after an exception, which is logged, it stops."""

    def __init__(self, size: int, on_progress: OnProgress | None) -> None:
        self._size = size
        self._on_progress = on_progress

    def __call__(self, moved: int) -> None:
        """Report the number of bytes moved so far."""
        if self._on_progress is None:
            return
        try:
            self._on_progress(moved, self._size)
        except Exception:
            # The transfer goes on: its outcome must not become unknown because of the callback.
            logger.exception(
                "on_progress failed; the transfer goes on without it", extra=telemetry.log_fields()
            )
            self._on_progress = None


@checks_kinds
class ArtifactReader:
    """Reads one version of an artifact in parts, each with one ranged request.

    It reads the version that it was opened for, also after later saves. If it reads all bytes in order, it
    checks their CRC32C with the last part; each part of an encrypted artifact is authenticated by itself.
    Only one task at a time may use it.

    ``async with`` returns the reader itself: it holds nothing between two requests, so it needs no closing.
    """

    def __init__(self, objects: Objects, stored: StoredObject) -> None:
        self._objects = objects
        self._stored = stored
        opening = running() or Operation("open_artifact")
        self._app, self._ids, self._key = opening.app, opening.ids, opening.key
        self._position = 0
        self._checksum: RunningChecksum | None = RunningChecksum()

    @property
    def size(self) -> int:
        """Bytes of the whole artifact."""
        return self._stored.size

    @property
    def mime_type(self) -> str | None:
        """Content type of the artifact."""
        return self._stored.content_type

    def tell(self) -> int:
        """Return the position of the next byte."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to *offset* bytes from the start, the position or the end, as in files; return the position.

        Raises:
            InvalidInputError: the new position is before the start, or is not a whole number.
        """
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}.get(whence)
        if start is None or start + offset < 0:
            raise InvalidInputError(
                f"cannot seek to {offset} from {whence}", operation="open_artifact", key=self._key
            )
        if start + offset != self._position:
            self._checksum = RunningChecksum() if start + offset == 0 else None
        self._position = start + offset
        return self._position

    async def read(self, size: int = -1) -> bytes:
        """Return the next *size* bytes, by default all that are left; empty bytes at the end.

        Raises:
            InvalidInputError: *size* is not a whole number.
            StoredDataError: the version was deleted meanwhile, or is damaged.
            UnavailableError, AccessDeniedError: as the service's methods.
        """
        if running() is not None:  # a part of writing the whole to a file
            return await self._read(size)
        reading = Operation("read_artifact", telemetry.STORAGE, self._app, self._ids)
        begin_span(reading)
        with Entered(reading, ends=True):
            return await self._read(size)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the bytes that are left in pieces of 8 MiB."""
        while piece := await self.read(_PIECE):
            yield piece

    async def _read(self, size: int) -> bytes:
        end = self.size if size < 0 else min(self.size, self._position + size)
        if end <= self._position:
            return b""
        part = (self._position, end)
        read = await self._objects.read(self._stored.name, generation=self._stored.generation, part=part)
        if read is None:
            raise StoredDataError("the version was deleted while it was read")
        self._position = end
        if self._checksum is not None:
            self._checksum.update(read[0])
            # Encrypted bytes have no checksum of their content: each part was authenticated.
            if end == self.size and self._stored.crc32c not in {None, self._checksum.base64}:
                raise StoredDataError(CHANGED_BYTES)
        return read[0]


async def write_to(
    reader: ArtifactReader, file: BinaryIO, *, compressed: bool, on_progress: OnProgress | None
) -> None:
    """Write all bytes of *reader* to *file*, unpacked if they are stored *compressed*.

    A cancelled call writes nothing to *file* after it ends.

    Raises:
        StoredDataError: *compressed* bytes are not gzip, or end too early.
    """
    progress = Progress(reader.size, on_progress)
    unpacked = Unpacked(file)
    write: Callable[[bytes], None] = unpacked.write if compressed else partial(_write_all, file)
    try:
        async for piece in reader:
            await to_its_end(write, piece)
            progress(reader.tell())
        unpacked.require_end()
    except zlib.error as exc:
        raise StoredDataError("the version is marked as gzip, but its bytes are not gzip") from exc


class Unpacked:
    """Unpacks a gzip stream of any size into a file, some megabytes at a time.

    As in HTTP, the stream may have several members, and padding after the last one.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._member = zlib.decompressobj(_GZIP)
        self._begun = False  # whether a member began and did not end
        self._members = 0

    def write(self, data: bytes) -> None:
        """Unpack the next *data* of the stream, and write them.

        Raises:
            zlib.error: they are not gzip.
        """
        while data or self._begun:
            if not self._begun and self._members and not data.startswith(_GZIP_START):
                return  # padding
            self._begun = True
            unpacked = self._member.decompress(data, _PIECE)
            _write_all(self._file, unpacked)
            if self._member.eof:
                data = self._member.unused_data
                self._member, self._begun = zlib.decompressobj(_GZIP), False
                self._members += 1
            elif len(unpacked) < _PIECE:
                return  # the rest is still to come
            else:
                data = self._member.unconsumed_tail

    def require_end(self) -> None:
        """Refuse a stream that ends within a member.

        Raises:
            zlib.error: it does.
        """
        if self._begun:
            raise zlib.error("the stream ends too early")


class Source:
    """Bytes to save, of a fixed size."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self.size = size

    async def read_at(self, start: int, size: int) -> bytes:
        """Return *size* bytes from *start* on.

        Raises:
            InvalidInputError: the source has become shorter.
        """
        data = await to_its_end(self._read_at, start, size)
        if len(data) != size:
            raise InvalidInputError(
                f"source had {self.size} bytes and now has fewer; save it while no other program writes it"
            )
        return data

    def _read_at(self, start: int, size: int) -> bytes:
        self._file.seek(start)
        pieces = []
        while size and (piece := self._file.read(size)):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


@asynccontextmanager
async def opened_source(source: str | os.PathLike[str] | BinaryIO) -> AsyncIterator[Source]:
    """Open a source for a block. A file of the caller is read from its start and stays open.

    Raises:
        InvalidInputError: the path is not an ordinary file, or the file object is not binary or cannot seek.
        OSError: a path cannot be read.
    """
    if isinstance(source, (str, os.PathLike)):
        file, size = await to_its_end(_open_file, source)
        try:
            yield Source(file, size)
        finally:
            await to_its_end(file.close)
        return
    yield Source(source, await to_its_end(_size_of, source))


@asynccontextmanager
async def opened_target(target: str | os.PathLike[str] | BinaryIO) -> AsyncIterator[BinaryIO]:
    """Open the target of an artifact for a block.

    The file at a path appears, or is replaced and keeps its mode, as a whole when the block succeeds. A path
    of a device is written to. A file of the caller is written from its position on and stays open.

    Raises:
        InvalidInputError: the path is malformed, or the file is closed or not binary.
        OSError: a path cannot be written.
    """
    if not isinstance(target, (str, os.PathLike)):
        await to_its_end(_require_binary, target)
        yield target
        return
    temporary = _Temporary(target)
    try:
        await to_its_end(temporary.make)
        yield temporary.file
        await to_its_end(temporary.keep)
    except BaseException:
        await to_its_end(temporary.discard)
        raise


async def to_its_end(work: Callable[..., T], *arguments: Any) -> T:
    """Run blocking *work* on a thread; also a cancelled call ends after it."""
    in_context = partial(contextvars.copy_context().run, work, *arguments)
    # Not as a task, which a loop that ends would cancel.
    return await ended(asyncio.get_running_loop().run_in_executor(None, in_context))


async def create_from(
    source: Source,
    name: str,
    fields: ObjectFields,
    *,
    objects: Objects,
    uploads: Uploads,
    on_progress: Progress,
) -> None:
    """Create the object *name* of a file, as :meth:`Objects.create` does.

    In one request or, beyond the size of a piece, by a resumable upload.
    """
    if source.size <= CHUNK_BYTES:
        data = await source.read_at(0, source.size)
        await objects.create(name, replace(fields, data=data))
    else:
        await uploads.create(name, fields, size=source.size, read_at=source.read_at, on_progress=on_progress)


class _Temporary:
    """A file beside its target, which it replaces when it is kept."""

    def __init__(self, target: str | os.PathLike[str]) -> None:
        self.file: Any = None
        self._given = target
        self._target = ""
        self._path: str | None = None

    def make(self) -> None:
        try:
            self._target = os.path.realpath(self._given)
            mode = os.stat(self._target).st_mode if os.path.exists(self._target) else None
        except ValueError as exc:
            raise _no_path("target", self._given, exc) from exc
        if mode is not None and not stat.S_ISREG(mode):
            self.file = open(self._target, "wb")
            return
        folder, name = os.path.split(self._target)
        path = os.path.join(folder, f".{name[:40]}.{machine.random_bytes(4).hex()}.part")
        self.file = open(path, "xb")
        self._path = path
        if mode is not None:
            os.chmod(path, stat.S_IMODE(mode))

    def keep(self) -> None:
        self.file.close()
        if self._path is not None:
            os.replace(self._path, self._target)
            self._path = None

    def discard(self) -> None:
        try:
            if self.file is not None:
                self.file.close()  # writes what it holds, perhaps to a full disk
        finally:
            if self._path is not None:
                os.unlink(self._path)


def _open_file(path: str | os.PathLike[str]) -> tuple[BinaryIO, int]:
    try:
        found = os.stat(path)
    except ValueError as exc:
        raise _no_path("source", path, exc) from exc
    if not stat.S_ISREG(found.st_mode) or (found.st_size == 0 and not found.st_blocks and _has_content(path)):
        raise InvalidInputError(
            f"source {os.fspath(path)[:200]!r} is not an ordinary file with a size; copy it to one first"
        )
    return open(path, "rb"), found.st_size


def _no_path(what: str, path: str | os.PathLike[str], exc: ValueError) -> InvalidInputError:
    return InvalidInputError(f"{what} {os.fspath(path)[:200]!r} is not a path: {exc}")


def _has_content(path: str | os.PathLike[str]) -> bool:
    with open(path, "rb") as file:
        return bool(file.read(1))


def _size_of(file: BinaryIO) -> int:
    try:
        file.seek(0, io.SEEK_END)
        size = file.tell()  # seek() of a mapped file returns None
        file.seek(0)
    except (AttributeError, OSError) as exc:
        raise InvalidInputError(
            "source must be a path or a file that can seek: a save may have to start again; copy a pipe to a "
            "temporary file first"
        ) from exc
    except ValueError as exc:
        raise InvalidInputError("source is closed; open it again") from exc
    if not isinstance(file.read(0), bytes):
        raise InvalidInputError("source must be opened in binary mode")
    return size


def _require_binary(file: BinaryIO) -> None:
    try:
        file.write(b"")
    except OSError:
        raise
    except (AttributeError, TypeError, ValueError) as exc:
        raise InvalidInputError("target must be an open file in binary mode") from exc


def _write_all(file: BinaryIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        written = file.write(rest)
        if not written:
            raise OSError(f"the target accepts no more bytes; {len(rest)} bytes were not written")
        rest = rest[written:]
