"""Collect the bytes of one resumable upload."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from .errors import bad_request

if TYPE_CHECKING:
    from .exchange import JsonObject
    from .preconditions import Preconditions
    from .ranges import ContentRange
    from .resources import Hashes

CHUNK_UNIT: Final = 256 * 1024  # Every chunk but the last is a multiple of this.


@dataclass(slots=True, kw_only=True)
class UploadSession:
    """One resumable upload between its start and its end."""

    bucket: str
    name: str
    fields: JsonObject
    hashes: Hashes
    preconditions: Preconditions
    declared_size: int | None
    received: bytearray = field(default_factory=bytearray)
    finished: JsonObject | None = None
    """The resource it became: a sender that lost the last answer may ask again."""

    def accept(self, chunk: bytes, place: ContentRange) -> bool:
        """Keep *chunk* at *place* and return whether the upload is now complete.

        Bytes that arrived before are skipped, so a chunk may be sent twice.

        Raises:
            ApiError: 400 for a gap, for a chunk that is neither the last nor a multiple of
                256 KiB, and for a size other than the one declared. Nothing was kept.
        """
        total = place.total
        if total is not None and self.declared_size not in {None, total}:
            raise bad_request(f"The upload was declared with {self.declared_size} bytes, not {total}")
        have = len(self.received)
        if place.start is None:
            return total is not None and have == total
        if place.start > have:
            raise bad_request(f"Content-Range starts at {place.start}, but {have} bytes are stored")
        complete = total is not None and place.start + len(chunk) == total
        if not complete and len(chunk) % CHUNK_UNIT:
            raise bad_request(f"A chunk of {len(chunk)} bytes is not a multiple of {CHUNK_UNIT}")
        self.received += chunk[have - place.start :]
        return total is not None and len(self.received) == total

    def finish(self, resource: JsonObject) -> None:
        """Remember the outcome and let go of the bytes."""
        self.finished = resource
        self.received = bytearray()
