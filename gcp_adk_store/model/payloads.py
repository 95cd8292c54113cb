"""Describe payloads: large content outside of the document that refers to it."""

import enum
import hashlib
from dataclasses import dataclass
from typing import Final, Self

MAX_PAYLOAD_BYTES: Final = 1024 * 1024 * 1024
"""The largest payload, packed or not, regardless of ``SessionLimits.max_payload_bytes``: a larger stored
one is damaged."""


class PayloadPlace(enum.Enum):
    """Where a payload lies."""

    BUCKET = "bucket"
    """One object in Cloud Storage."""
    CHUNKS = "chunks"
    """Documents below the one that refers to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadRef:
    """Names a payload by its content."""

    sha256: str
    """Hex digest of the bytes."""
    size: int
    """Number of bytes."""
    place: PayloadPlace

    def fits(self, data: bytes) -> bool:
        """Return whether *data* has this digest and size."""
        return len(data) == self.size and hashlib.sha256(data).hexdigest() == self.sha256

    def __str__(self) -> str:
        return f"sha256:{self.sha256} ({self.size} bytes, {self.place.value})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """Bytes and the reference that their content determines."""

    ref: PayloadRef
    data: bytes

    @classmethod
    def of(cls, data: bytes, *, place: PayloadPlace) -> Self:
        """Return the payload of *data*."""
        digest = hashlib.sha256(data).hexdigest()
        return cls(ref=PayloadRef(sha256=digest, size=len(data), place=place), data=data)


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadOwner:
    """The document that refers to payloads, in one of its lives: they end with that life."""

    path: str
    """The document's path."""
    life: str
    """A session's epoch; a constant for documents that are never deleted."""
