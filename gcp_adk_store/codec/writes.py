"""Describe writes and reads of documents as plain values, for a backend to send."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gcp_adk_store.codec.values import FieldValue, Foreign

FieldPath = tuple[str, ...]
"""Names from the document down to one field of a map."""

_MANY: Final = 1000
"""Keys that are converted in some 3 ms."""


class Must(enum.Enum):
    """What must hold of a document for the whole commit to happen."""

    BE_ABSENT = "be absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Set fields of one document.

    Without a *mask* the document is replaced; with one, only the fields it names are.
    """

    path: str
    """Document path below the database's root, ids escaped."""
    fields: Mapping[str, FieldValue]
    mask: Sequence[FieldPath] | None = None
    union: Mapping[str, Sequence[FieldValue]] = field(default_factory=dict)
    """Array field -> values to add at its end, unless it holds them already."""
    increment: Mapping[str, int] = field(default_factory=dict)
    must: Must | str | None = None
    """A condition, or the update time that the document must still have."""

    @property
    def is_light(self) -> bool:
        """Whether no map of it has more than a thousand keys."""
        return _is_light(self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Remove one document; one that is not there is no error unless *must* says so."""

    path: str
    must: str | None = None
    """The update time that the document must still have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A part of a query's documents, in the order of one number field, then of their names."""

    field: str | None
    """``None`` for the order of their names alone."""
    descending: bool
    limit: int
    after: tuple[float, str] | None
    """Value and path of the last document of the page before; without a field the value says nothing."""
    where: tuple[str, str] | None = None
    """A field and the text that it must hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What the server says of one write."""

    update_time: str
    incremented: Mapping[str, int]
    """New values of the fields in the write's *increment*."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document as it was read."""

    path: str
    fields: Mapping[str, FieldValue | Foreign]
    update_time: str
    read_time: float
    """Unix time in seconds, by Firestore's clock, at which it was as it is here."""

    @property
    def is_light(self) -> bool:
        """Whether no map of it has more than a thousand keys."""
        return _is_light(self.fields)


def _is_light(fields: Mapping[str, object]) -> bool:
    return all(len(value) <= _MANY for value in fields.values() if type(value) is dict)
