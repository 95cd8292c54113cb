"""Weigh the writes of a commit."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from gcp_adk_store.codec.encode import MAX_DOCUMENT_BYTES
from gcp_adk_store.codec.indexes import TTL_FIELDS
from gcp_adk_store.codec.names import MAX_NAME_BYTES
from gcp_adk_store.codec.writes import INT64, Delete, Must, Write, document_size
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.local.encoding import RESERVED, Encoded, micros

MAX_COMMIT_BYTES: Final = 10 * 1024 * 1024
"""Of one commit (Firestore's quota page, as all limits here)."""

_MAX_VALUE_BYTES: Final = 1_048_487
"""Of one text or of one value of bytes: 1 MiB less 89 bytes."""

_MAX_DEPTH: Final = 20
_NUMBER: Final = 8


def require_commit(writes: Sequence[Write | Delete]) -> int:
    """Return the bytes of what *writes* hold.

    Raises:
        InvalidInputError: a value or a name exceeds a limit of Firestore, or all of them together do.
    """
    size = 0
    for item in writes:
        size += len(item.path)
        if isinstance(item, Write):
            size += _weigh_map(item.fields, (), 0)
            for field, values in item.union.items():
                size += _weigh_list(values, (field,), 1)
    if size > MAX_COMMIT_BYTES:
        raise InvalidInputError(
            f"a commit of {size} bytes exceeds Firestore's limit of {MAX_COMMIT_BYTES}; write less at a time"
        )
    return size


def require_document(path: str, fields: Mapping[str, Any]) -> None:
    """Check a document's size, which the sum of several writes may exceed.

    Raises:
        InvalidInputError: it takes more than 1 MiB by Firestore's formula.
    """
    size = document_size(path, fields)
    if size > MAX_DOCUMENT_BYTES:
        raise InvalidInputError(
            f"the document {path[:80]!r} would take {size} bytes, Firestore's limit is {MAX_DOCUMENT_BYTES}; "
            "put large values into artifacts"
        )


def is_surely_small(encoded: Encoded) -> bool:
    """Return whether a document is within Firestore's limit, by a rough bound of its size.

    No value takes more than eight times the characters of its JSON, with the comma after it.
    """
    size = _NUMBER * len(encoded.fields) + len(encoded.pieces or "") + len(encoded.content or b"")
    return size < MAX_DOCUMENT_BYTES // 2


def _weigh_map(fields: Mapping[str, Any], above: tuple[str, ...], depth: int) -> int:
    """Return the bytes of a map at the path *above*, without those of its own name.

    Raises:
        InvalidInputError: a name or a value in it exceeds a limit.
    """
    return sum(
        _weigh_name(name, (*above, name)) + _weigh(value, (*above, name), depth)
        for name, value in fields.items()
    )


def _weigh(value: Any, path: tuple[str, ...], depth: int) -> int:
    match value:
        case str():
            size = _weigh_text(value, path) + 1
        case None | bool():
            size = 1
        case float() | datetime():
            size = _NUMBER
        case int() if value in INT64:
            size = _NUMBER
        case bytes():
            size = _within(len(value), path)
        case dict() | list() if depth == _MAX_DEPTH:
            raise InvalidInputError(
                f"{_shown(path)} has over {_MAX_DEPTH} maps and arrays within each other, Firestore's limit; "
                "store the inner ones as JSON text"
            )
        case dict():
            size = _weigh_map(value, path, depth + 1)
        case list():
            size = _weigh_list(value, path, depth + 1)
        case _:
            raise InvalidInputError(
                f"{_shown(path)} is a {type(value).__name__} that Firestore cannot hold; store it as text"
            )
    return size


def _weigh_list(values: Sequence[Any], path: tuple[str, ...], depth: int) -> int:
    if any(isinstance(item, list) for item in values):
        raise InvalidInputError(
            f"{_shown(path)} is an array directly in an array, which Firestore refuses; put a map between"
        )
    return sum(_weigh(item, path, depth) for item in values)


def _weigh_name(name: str, path: tuple[str, ...]) -> int:
    size = _weigh_text(name, path)
    if not size or RESERVED.fullmatch(name):
        raise InvalidInputError(f"{_shown(path)} is a name that Firestore reserves; choose another")
    if size + sum(len(above.encode()) + 1 for above in path[:-1]) > MAX_NAME_BYTES:
        raise InvalidInputError(
            f"{_shown(path)} takes over {MAX_NAME_BYTES} bytes, Firestore's limit of a name; shorten it"
        )
    return size + 1


def _weigh_text(text: str, path: tuple[str, ...]) -> int:
    if text.isascii():
        return _within(len(text), path)
    try:
        return _within(len(text.encode()), path)
    except UnicodeEncodeError:
        raise InvalidInputError(f"{_shown(path)} holds a lone surrogate; correct the text") from None


def _within(size: int, path: tuple[str, ...]) -> int:
    if size > _MAX_VALUE_BYTES:
        raise InvalidInputError(
            f"{_shown(path)} takes {size} bytes, Firestore's limit of one value is {_MAX_VALUE_BYTES}; "
            "put it into an artifact"
        )
    return size


def _shown(path: tuple[str, ...]) -> str:
    return f"field {ascii('.'.join(path))[:80]}"


def require_consistent(writes: Sequence[Write | Delete]) -> None:
    """Check the conditions of several writes to one document, before any document is read.

    Raises:
        InvalidInputError: a condition does not follow from the writes before it.
    """
    earlier: dict[str, tuple[Write | Delete, Must | str | None]] = {}
    for item in writes:
        last, first = earlier.setdefault(item.path, (item, item.must))
        if last is not item:
            if item.must is Must.BE_ABSENT:
                contradicts = isinstance(last, Write)
            else:  # after a deletion, only another one can still require the time that was stored
                made_again = isinstance(last, Delete) and isinstance(item, Write)
                contradicts = item.must is not None and (item.must != first or made_again)
            if contradicts:
                raise InvalidInputError(
                    f"{item.path[:80]!r} has a condition that contradicts an earlier write of the same commit"
                )
            earlier[item.path] = (item, first)


def expires_at(collection: str, fields: Mapping[str, Any]) -> int | None:
    """Return when a document of *collection* expires, in microseconds since 1970; ``None`` for never."""
    name = TTL_FIELDS.get(collection.rpartition("_")[2])
    time = None if name is None else fields.get(name)
    return micros(time) if isinstance(time, datetime) else None
