"""Reads and writes of documents, as the port of documents has them, and what a write makes of a document."""

import enum
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from gcp_adk_store.codec.decode import Foreign
from gcp_adk_store.codec.encode import FieldValue
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.model.session_fields import PARTS_GRACE_S

FieldPath = tuple[str, ...]
"""Names from the document down to one field of a map."""


class Must(enum.Enum):
    """The condition on a document that the whole commit requires."""

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
    """Array field -> values to add at its end unless it holds them."""
    increment: Mapping[str, int] = field(default_factory=dict)
    must: Must | str | None = None
    """A condition, or the required update time of the document."""
    life: str = field(default="", compare=False)
    """The epoch of a document that may be made anew, to which encryption binds content; it is not written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Remove one document; a missing one is an error only if *must* says so."""

    path: str
    must: str | None = None
    """The required update time of the document."""


class Operator(enum.Enum):
    """How a filter compares a field."""

    EQUAL = "equal"
    CONTAINS = "contains"
    """The field is an array that holds the value."""
    OVER = "over"
    """The field is greater than the value, and of its type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A condition on one field of a document."""

    field: str
    operator: Operator
    value: str | float


@dataclass(frozen=True, slots=True, kw_only=True)
class NameRange:
    """Documents by their names, in Firestore's order; ``None`` is the first or the last one."""

    start: str | None = None
    """Path of a document, which need not exist: it and all later ones."""
    end: str | None = None
    """Path of a document, which need not exist: all earlier ones."""


EVERY_NAME: Final = NameRange()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A part of a query's documents, ordered by one field, then by their names."""

    field: str | None
    """``None`` orders by names alone."""
    descending: bool
    limit: int
    after: tuple[FieldValue, str] | None
    """Value and path of the last document of the page before; without a field the value has no meaning."""
    filters: Sequence[Filter] = ()
    """Conditions, all of which must hold; at most one array may be asked what it contains."""
    within: NameRange = EVERY_NAME
    """Only these; for an order by names alone, ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The server's result of one write."""

    update_time: str
    incremented: Mapping[str, int]
    """New values of the fields in the write's *increment*."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document at the time of its read."""

    path: str
    fields: Mapping[str, FieldValue | Foreign]
    update_time: str
    read_time: float
    """Time of the read by Firestore's clock, as Unix time in seconds."""

    @property
    def size(self) -> int:
        """Bytes of the document by Firestore's formula."""
        return document_size(self.path, self.fields)


def in_order_of_names(path: str) -> list[bytes]:
    """Return a key by which Python sorts paths as Firestore sorts names."""
    return [name.encode() for name in path.split("/")]


def has_few_keys(fields: Mapping[str, object]) -> bool:
    """Return whether each map among *fields* has at most 1,000 keys, which take about 3 ms to convert."""
    return all(len(value) <= 1000 for value in fields.values() if type(value) is dict)  # noqa: PLR2004


ABSENT: Final = object()
"""What :func:`value_at` returns for a field that a document lacks; it equals no value."""

_OF_A_NAME: Final = 16
_OF_A_DOCUMENT: Final = 32
_NUMBER: Final = 8
INT64: Final = range(-(2**63), 2**63)
_SEGMENT: Final = re.compile(r"`((?:[^`\\]|\\.)*)`|([^.`]+)", re.DOTALL)

FORMAT: Final = 2
"""Number of the layout of sessions and segments that this release writes."""


def update(
    path: str, fields: Mapping[str, FieldValue], *, must: str, without: Iterable[str] = (), life: str = ""
) -> Write:
    """Return the write that sets *fields* of one document, and removes those of the names *without*.

    *life* is the epoch of a session.
    """
    return Write(
        path=path, fields=fields, mask=[(name,) for name in (*fields, *without)], must=must, life=life
    )


def of_part(parts_at: int | None) -> dict[str, FieldValue]:
    """Return when a part expires that is kept until *parts_at*; without it, it never does."""
    return {} if parts_at is None else {"expire_at": kept_until(parts_at)}


_LAST_DATE_S: Final = 253_402_214_400
"""Firestore's times end with the year 9999: its last day, in Unix time."""


def kept_until(parts_at: float) -> datetime:
    """Return the expiry of a part that is kept until *parts_at*, in Unix seconds, if a date is so late."""
    return time_at(math.ceil(min(parts_at, _LAST_DATE_S)) + PARTS_GRACE_S)


def time_at(seconds: int) -> datetime:
    """Return Unix time as the value of a field."""
    return datetime.fromtimestamp(seconds, UTC)


def field_path(text: str) -> FieldPath:
    """Return the names in a field path, in which backticks quote a name that is not a plain word.

    Raises:
        InvalidInputError: *text* is not a field path.
    """
    names: list[str] = []
    at = 0
    while (match := _SEGMENT.match(text, at)) is not None:
        names.append(match[2] or re.sub(r"\\(.)", r"\1", match[1] or ""))
        at = match.end()
        if at == len(text):
            return tuple(names)
        if text[at] != ".":
            break
        at += 1
    raise InvalidInputError(f"{text[:80]!r} is not a field path")


def value_at(fields: Mapping[str, Any], path: FieldPath) -> Any:
    """Return a field's value, or a value that equals no other if the document lacks it."""
    found: Any = fields
    for name in path:
        if not isinstance(found, Mapping) or name not in found:
            return ABSENT
        found = found[name]
    return found


def order_of(value: Any) -> tuple[Any, ...]:
    """Return a key by which Python sorts values of all types as Firestore does."""
    key: tuple[Any, ...]
    match value:
        case None:
            key = (0,)
        case bool():
            key = (1, value)
        case float() if math.isnan(value):
            key = (2, 0)
        case int() | float():
            key = (2, 1, value)
        case datetime():
            key = (3, value if value.tzinfo is not None else value.replace(tzinfo=UTC))
        case str():
            key = (4, value.encode())
        case bytes():
            key = (5, value)
        case list():
            key = (6, *map(order_of, value))
        case _:
            pairs = sorted((name.encode(), item) for name, item in value.items())
            key = (7, *((name, order_of(item)) for name, item in pairs))
    return key


def document_size(path: str, fields: Mapping[str, Any]) -> int:
    """Return the bytes of a document by Firestore's formula."""
    name = _OF_A_NAME + sum(len(segment.encode()) + 1 for segment in path.split("/"))
    return name + _OF_A_DOCUMENT + _size(fields)


def _size(value: Any) -> int:
    match value:
        case str():
            return len(value.encode(errors="surrogatepass")) + 1
        case bytes():
            return len(value)
        case None | bool():
            return 1
        case Mapping():
            return sum(
                len(name.encode(errors="surrogatepass")) + 1 + _size(item) for name, item in value.items()
            )
        case list():
            return sum(map(_size, value))
        case _:
            return _NUMBER


def fields_after(write: Write, stored: dict[str, Any] | None) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the document's fields after *write*, and the new values of its counters.

    It may change *stored*, which ``None`` says to be missing, and leaves the fields of *write* as they are.
    """
    if write.mask is None:
        fields = dict(write.fields)
    else:
        fields = stored or {}
        for path in write.mask:
            _put(fields, path, value_at(write.fields, path))
    for name, values in write.union.items():
        path = field_path(name)
        _put_apart(fields, path, _union(value_at(fields, path), values))
    incremented = {}
    for name, amount in write.increment.items():
        path = field_path(name)
        number = _add(value_at(fields, path), amount)
        _put_apart(fields, path, number)
        incremented[name] = number if isinstance(number, int) else 0
    return fields, incremented


def _put(fields: dict[str, Any], path: FieldPath, value: Any) -> None:
    """Set the field at *path*, or remove it; a map replaces a value of another kind on the way to it."""
    *above, name = path
    for step in above:
        inner = fields.get(step)
        if not isinstance(inner, dict):
            if value is ABSENT:
                return
            inner = fields[step] = {}
        fields = inner
    if value is ABSENT:
        fields.pop(name, None)
    else:
        fields[name] = value


def _put_apart(fields: dict[str, Any], path: FieldPath, value: Any) -> None:
    """Set the field at *path* in copies of the maps above it, which may be those of the write."""
    at = fields
    for step in path[:-1]:
        inner = at.get(step)
        at[step] = at = dict(inner) if isinstance(inner, dict) else {}
    at[path[-1]] = value


def _union(stored: Any, values: Sequence[Any]) -> list[Any]:
    found = list(stored) if isinstance(stored, list) else []
    for value in values:
        if type(value) in (str, bytes):  # equal to their like alone, so that most arrays are compared at once
            if value not in found:
                found.append(value)
        elif order_of(value) not in map(order_of, found):
            found.append(value)
    return found


def _add(stored: Any, amount: int) -> int | float:
    if isinstance(stored, float):
        return stored + amount
    if isinstance(stored, int) and not isinstance(stored, bool):
        return min(max(stored + amount, INT64.start), INT64.stop - 1)
    return amount
