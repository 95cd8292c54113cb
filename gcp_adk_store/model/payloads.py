"""Describe payloads: large content that lies beside the document that refers to it."""

import hashlib
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadRef:
    """Names a payload by its content."""

    sha256: str
    """Hex digest of the bytes."""
    size: int
    """How many bytes they are."""

    def __str__(self) -> str:
        return f"sha256:{self.sha256} ({self.size} bytes)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """Bytes, and the name that their content gives them."""

    ref: PayloadRef
    data: bytes

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Return the payload of *data*."""
        return cls(ref=PayloadRef(sha256=hashlib.sha256(data).hexdigest(), size=len(data)), data=data)


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadOwner:
    """The document that refers to payloads, in one of its lives: they go when it does."""

    path: str
    """The document's path."""
    life: str
    """A session's epoch; a constant for documents that are never deleted."""
