"""Large content that lies apart from what refers to it, and what of it nothing refers to."""

import enum
import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self, TypeAlias

from gcp_adk_store.errors import InvalidInputError

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


DEFAULT_AGE_S: Final = 24 * 3600.0
"""By default only data older than a day is garbage."""

_LEAST_AGE_S: Final = 3600.0
"""The store writes a payload before its reference: an hour exceeds every deadline between the two."""


class GarbageKind(enum.Enum):
    """Why data is garbage."""

    DELETION = "deletion"
    """A deleted session that still has parts."""
    RESTORE = "restore"
    """A restored session that still has parts that were cut off, or artifacts to take back."""
    PAYLOAD = "payload"
    """Large content that nothing refers to."""
    UPLOAD = "upload"
    """A file that a browser uploaded and that did not become a version of an artifact."""
    FILE = "file"
    """A file in a folder whose bytes no object has, since a process was killed."""
    UNREADABLE = "unreadable"
    """Data of a document that cannot be read; the collector does not remove it."""


Versions: TypeAlias = Sequence[tuple[str, str]]
"""Names and versions of all documents or objects of one piece of garbage: the collector removes it only if
all of them are unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPayload:
    """A payload as a scan finds it."""

    owner: PayloadOwner | None
    """``None`` if unknown."""
    sha256: str
    place: PayloadPlace
    name: str
    """Path of its first document, or name of its object."""
    put_at: float
    """Unix time of its last write, in seconds."""
    size: int | None
    """Bytes, if the scan knows."""
    versions: Versions
    is_encrypted: bool = False
    """Whether its object's metadata say so; always ``False`` in documents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage:
    """One piece of garbage."""

    kind: GarbageKind
    place: PayloadPlace
    """In documents (``chunks``) or in the bucket."""
    name: str
    """Path of the document, or name of the object: ids, never content."""
    since: float
    """Unix time of its last write, in seconds."""
    size: int | None = None
    """Bytes, if the scan knows."""
    reason: str = ""
    """Why the collector does not remove it."""
    versions: Versions = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftFile:
    """A file of a store in a folder whose bytes no object has, and which does not say whose they are."""

    content: str
    """Its random id."""
    name: str
    """Its path below the folder of the store."""
    size: int
    """Bytes."""
    since: float
    """Unix time of its last write, in seconds; of the mark that names it if only that is there."""
    is_there: bool = True


def require_age(older_than_s: float) -> None:
    """Check that data of an age is certainly garbage.

    Raises:
        InvalidInputError: it is below an hour, or larger than a float can be.
    """
    if isinstance(older_than_s, int) and older_than_s > sys.float_info.max:
        raise InvalidInputError("older_than_s is larger than a float can be; it must be finite")
    if not older_than_s >= _LEAST_AGE_S:
        raise InvalidInputError(
            f"older_than_s is {older_than_s}, it must be at least {_LEAST_AGE_S:.0f}: what is younger may be "
            "waiting for the commit that refers to it"
        )
