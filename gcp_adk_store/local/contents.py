"""What keeps the bytes of objects, and their sizes and checksums."""

import base64
import hashlib
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from gcp_adk_store.codec.packing import RunningChecksum


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Bytes that are kept, durable."""

    id: str
    size: int
    crc32c: str
    """Base64 of the big-endian checksum."""
    md5: str
    """Base64."""


class Draft(Protocol):
    """Bytes that are being written."""

    async def write(self, data: bytes) -> None:
        """Append *data*."""
        ...

    async def finish(self) -> Content:
        """Make all bytes durable and return their description."""
        ...


class Contents(Protocol):
    """Keeps bytes by ids of its own."""

    def draft(self) -> AbstractAsyncContextManager[Draft]:
        """Write bytes within a block, which ends by recording who has them.

        If the block fails, they are removed; if its outcome is unknown, they are in doubt: a look at what
        was left removes them unless an object has them.

        Raises:
            AccessDeniedError: this user may not write there.
            UnavailableError: the disk is full or fails.
        """
        ...

    async def read(self, content: str, start: int, end: int) -> bytes | None:
        """Return bytes from *start* up to *end*, fewer if the content ends before; ``None`` if it is gone."""
        ...

    def require(self, content: str) -> None:
        """Require that a content is there, within the transaction that records its object.

        Raises:
            UnavailableError: it was removed, because nobody seemed to write it.
        """
        ...

    def doubt(self, contents: Sequence[str]) -> None:
        """Note contents that no object will have, within the transaction that removes the last one.

        Raises:
            UnavailableError, AccessDeniedError: the system refuses.
        """
        ...

    async def remove(self, contents: Sequence[str]) -> None:
        """Remove contents that no object has any more; those that cannot be removed stay in doubt."""
        ...

    async def close(self) -> None:
        """Let running steps finish and end own threads; a later call starts them again."""
        ...


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
