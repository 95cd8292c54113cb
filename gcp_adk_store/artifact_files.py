"""Read and write artifacts through files: of paths, of callers, and of parts of an artifact."""

import asyncio
import io
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

from gcp_adk_store.backends.gcs import Objects
from gcp_adk_store.backends.gcs_streams import RunningChecksum
from gcp_adk_store.codec.objects import StoredObject
from gcp_adk_store.errors import InvalidInputError, StoredDataError

_PIECE: Final = 4 * 1024 * 1024
"""Bytes of each piece that an iteration over an artifact yields."""


class ArtifactReader:
    """Reads one version of an artifact in parts, each with one ranged request.

    The version is that of the moment of opening: one that is saved later is never mixed in. Where it is read
    from its first byte to its last without a gap, its CRC32C is checked with the last part. Not to be used by
    several tasks at once.
    """

    def __init__(self, objects: Objects, stored: StoredObject, *, what: str) -> None:
        self._objects = objects
        self._stored = stored
        self._what = what
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
        """Go to *offset* bytes from the start, the position or the end, as in files; return the position.

        Raises:
            InvalidInputError: that is before the start.
        """
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}.get(whence)
        if start is None or start + offset < 0:
            raise InvalidInputError(f"{self._what}: cannot seek to {offset} from {whence}")
        if start + offset != self._position:
            self._checksum = RunningChecksum() if start + offset == 0 else None
        self._position = start + offset
        return self._position

    async def read(self, size: int = -1) -> bytes:
        """Return the next *size* bytes, all that are left by default; none at the end.

        Raises:
            StoredDataError: the version was deleted meanwhile, or is damaged.
            UnavailableError, AccessDeniedError: as the service's methods.
        """
        end = self.size if size < 0 else min(self.size, self._position + size)
        if end <= self._position:
            return b""
        part = (self._position, end)
        read = await self._objects.read(
            self._stored.name, generation=self._stored.generation, part=part, what=self._what
        )
        if read is None or len(read[0]) != end - self._position:
            raise StoredDataError(f"{self._what}: the version was deleted while it was read")
        self._position = end
        if self._checksum is not None:
            self._checksum.update(read[0])
            if end == self.size and self._checksum.base64 != self._stored.crc32c:
                raise StoredDataError(f"{self._what}: the bytes do not match their CRC32C")
        return read[0]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield what is left in pieces of 4 MiB."""
        while piece := await self.read(_PIECE):
            yield piece


@asynccontextmanager
async def opened_source(source: str | os.PathLike[str] | BinaryIO) -> AsyncIterator[tuple[BinaryIO, int]]:
    """Open what is to be saved for a block; yield it with its size in bytes.

    A file of the caller's is read from its start and stays open.

    Raises:
        InvalidInputError: a file object gives no bytes or cannot go back to its start.
        OSError: a path cannot be read.
    """
    if isinstance(source, (str, os.PathLike)):
        file: Any = await asyncio.to_thread(Path(source).open, "rb")
        try:
            yield file, os.fstat(file.fileno()).st_size
        finally:
            await asyncio.to_thread(file.close)
        return
    try:
        size = source.seek(0, io.SEEK_END)
        source.seek(0)
    except (AttributeError, OSError) as exc:
        raise InvalidInputError(
            "source must be a path or a file that can seek: a save may have to start again; copy a pipe to a "
            "temporary file first"
        ) from exc
    if not isinstance(source.read(0), bytes):
        raise InvalidInputError("source must be opened in binary mode")
    yield source, size


@asynccontextmanager
async def opened_target(target: str | os.PathLike[str] | BinaryIO) -> AsyncIterator[BinaryIO]:
    """Open where an artifact is to go for a block.

    The file of a path appears, or is replaced, when the block succeeds: never a part of it. A file of the
    caller's is written from its position on and stays open.

    Raises:
        OSError: a path cannot be written.
    """
    if not isinstance(target, (str, os.PathLike)):
        yield target
        return
    folder, name = os.path.split(os.fspath(target))
    # Beside its target, so that it can be renamed into it.
    file: Any = await asyncio.to_thread(
        tempfile.NamedTemporaryFile, dir=folder or os.curdir, prefix=f".{name[:40]}.", delete=False
    )
    try:
        yield file
        await asyncio.to_thread(file.close)
        await asyncio.to_thread(os.replace, file.name, target)
    except BaseException:
        file.close()
        os.unlink(file.name)  # noqa: PTH108  # no thread: nothing may await while a cancellation passes
        raise
