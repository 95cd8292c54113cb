"""Describe what storage holds in vain, and decide how old it must be to be sure of that."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.model.payloads import PayloadOwner, PayloadPlace

DEFAULT_AGE_S: Final = 24 * 3600.0
"""What is garbage by default has been so for a day."""

_LEAST_AGE_S: Final = 3600.0
"""A payload is written before what refers to it: an hour is far more than any deadline between the two."""


class GarbageKind(enum.Enum):
    """Why something is in nobody's use."""

    DELETION = "deletion"
    """A session that was deleted, and whose parts were not all removed."""
    PAYLOAD = "payload"
    """Large content that nothing refers to."""
    UPLOAD = "upload"
    """A file that a browser put, and nobody made a version of an artifact."""
    UNREADABLE = "unreadable"
    """What belongs to a document that cannot be read: it is left alone."""


Versions: TypeAlias = Sequence[tuple[str, str]]
"""Name and version of all documents or objects that something is made of, as they were seen: it is removed if
none of them has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPayload:
    """A payload as a scan finds it."""

    owner: PayloadOwner | None
    """``None`` where it does not say."""
    sha256: str
    place: PayloadPlace
    name: str
    """Path of its first document, or name of its object."""
    put_at: float
    """Unix time in seconds at which it was put last."""
    size: int | None
    """Bytes, where the scan tells."""
    versions: Versions


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage:
    """Something that storage holds in vain."""

    kind: GarbageKind
    place: PayloadPlace
    """In documents (``chunks``) or in the bucket."""
    name: str
    """Path of the document, or name of the object: ids, never content."""
    since: float
    """Unix time in seconds at which it was written last."""
    size: int | None = None
    """Bytes, where the scan tells."""
    reason: str = ""
    """Why it is left alone."""
    versions: Versions = ()


def require_age(older_than_s: float) -> None:
    """Refuse an age at which something may still be wanted.

    Raises:
        InvalidInputError: it is below an hour.
    """
    if not older_than_s >= _LEAST_AGE_S:
        raise InvalidInputError(
            f"older_than_s is {older_than_s}, it must be at least {_LEAST_AGE_S:.0f}: what is younger may be "
            "waiting for the commit that refers to it"
        )
