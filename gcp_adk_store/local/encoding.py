"""Encode values, and the paths of documents, for SQLite.

JSON for what is small, and long texts and bytes as they are: 160 events of 87 kB take 0.1 ms each way, where
JSON alone takes 1 ms, and MessagePack, which would be a dependency more, 0.1 ms.
"""

import base64
import json
import math
import re
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise
from typing import Any, AnyStr, Final, NamedTuple

from gcp_adk_store.codec.names import MAX_NAME_BYTES
from gcp_adk_store.codec.writes import FieldPath
from gcp_adk_store.errors import InvalidInputError, StoredDataError

RESERVED: Final = re.compile(r"__.*__", re.DOTALL)
"""Names that Firestore keeps for itself."""

_END: Final = b"\0\0"  # of a segment: sorts before every character that continues it
_ZERO: Final = b"\0\xff"
_MAX_SEGMENTS: Final = 200
"""100 collections within each other, as Firestore's quota page says."""


def document_key(path: str) -> bytes:
    """Return the key of the document at *path*.

    Raises:
        InvalidInputError: *path* is not the path of a document.
    """
    segments = path.split("/")
    if len(segments) % 2:
        raise InvalidInputError(f"{path[:80]!r} is the path of a collection, not of a document")
    return _key(segments, path)


def collection_key(parent: str, collection: str) -> bytes:
    """Return what the keys of the documents in *collection* below the document *parent* begin with.

    Raises:
        InvalidInputError: *parent* is not the path of a document, or *collection* is not an id.
    """
    above = [*parent.split("/")] if parent else []
    if len(above) % 2:
        raise InvalidInputError(f"{parent[:80]!r} is the path of a collection, not of a document")
    return _key([*above, collection], f"{parent}/{collection}")


def parent_of(key: bytes) -> tuple[bytes, str]:
    """Return the key of a document's collection, and the collection's id."""
    parent = key[: key.rindex(_END)]
    return parent, parent[parent.rfind(_END) + len(_END) if _END in parent else 0 :].replace(
        _ZERO, b"\0"
    ).decode()


def path_of(key: bytes) -> str:
    """Return the path that :func:`document_key` encoded.

    Raises:
        StoredDataError: it encoded none, as SQLite takes any value in a column.
    """
    try:
        return key.replace(_END, b"/").replace(_ZERO, b"\0").decode()
    except (AttributeError, TypeError, UnicodeDecodeError) as exc:
        raise StoredDataError("a row of a document has a damaged key: restore a backup") from exc


def below(key: bytes) -> tuple[bytes, bytes]:
    """Return the bounds of the keys below *key*, the second excluded."""
    return key + _END, key + b"\0\1"


def _key(segments: list[str], shown: str) -> bytes:
    if len(segments) > _MAX_SEGMENTS:
        raise InvalidInputError(
            f"{shown[:80]!r} has {len(segments)} parts, Firestore's limit is {_MAX_SEGMENTS}"
        )
    encoded = []
    for segment in segments:
        try:
            name = segment.encode()
        except UnicodeEncodeError:
            raise InvalidInputError(f"{ascii(shown)[:80]} holds a lone surrogate") from None
        if not 0 < len(name) <= MAX_NAME_BYTES:
            raise InvalidInputError(
                f"{shown[:80]!r} has a part of {len(name)} bytes; Firestore takes 1 to {MAX_NAME_BYTES}"
            )
        if segment in (".", "..") or RESERVED.fullmatch(segment):
            raise InvalidInputError(f"{shown[:80]!r} has a part {segment[:40]!r}, which Firestore reserves")
        encoded.append(name.replace(b"\0", _ZERO))
    return _END.join(encoded)


_SMALL: Final = 8
"""Documents that are not worth a part of their own."""

_POINTS: Final = """
SELECT key FROM (
  SELECT key, row_number() OVER (ORDER BY key) AS number FROM documents WHERE collection = ?
) WHERE number > 1 AND number % ? = 1 ORDER BY key
"""


def split_points(sql: sqlite3.Connection, *, collection: str, most: int) -> list[str]:
    """Return the paths of the first documents of all parts but the first one, of which there are *most*."""
    ((count,),) = sql.execute("SELECT count(*) FROM documents WHERE collection = ?", (collection,)).fetchall()
    step = max(_SMALL, -(-count // (most + 1)))
    return [path_of(key) for (key,) in sql.execute(_POINTS, (collection, step)).fetchall()]


_LONG: Final = 256
"""Characters of a text that JSON would spend time on."""

_JSON_STEP: Final = 512
_CONTENT_STEP: Final = 16 * 1024
"""Sizes to which a row with an array is filled up. SQLite writes the changed pages alone of a row whose size
stays, so an append to 64 kB of events writes 4 pages instead of 17."""

_OF_ONE_KIND: Final = ({str}, {bytes})
_ARRAYS: Final = ("a", "l")

_FILLER: Final = b"\xff"  # in no text

# Firestore reserves such names, so no map of a document has one.
_BYTES: Final = "__bytes__"
_TIME: Final = "__time__"
_FLOAT: Final = "__float__"
_MARKED: Final = '"__'

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Encoded(NamedTuple):
    """The content of a row; equal for equal fields in any order."""

    fields: str
    """JSON of the fields that are not in *content*."""
    pieces: str | None
    """JSON of the lengths in bytes of what *content* holds, by field, in the order there: ``t`` for a text,
    ``b`` for bytes, ``a`` for an array of texts, ``l`` for one of bytes."""
    content: bytes | None
    """Long texts and bytes, one after the other; then a filler."""


class _Piece(NamedTuple):
    name: str
    kind: str
    length: int | list[int]
    content: bytes


def encode(fields: Mapping[str, Any]) -> Encoded:
    """Return the encoding of a document's *fields*."""
    shown: dict[str, Any] = {}
    apart: list[_Piece] = []
    for name, value in sorted(fields.items()):
        if type(value) is bytes:
            apart.append(_Piece(name, "b", len(value), value))
        elif type(value) is str and len(value) > _LONG:
            text = value.encode()
            apart.append(_Piece(name, "t", len(text), text))
        elif type(value) is list and value and (kinds := {*map(type, value)}) in _OF_ONE_KIND:
            items = value if kinds == {bytes} else [text.encode() for text in value]
            apart.append(_Piece(name, "l" if kinds == {bytes} else "a", [*map(len, items)], b"".join(items)))
        else:
            shown[name] = value
    if not apart:
        return Encoded(_json(shown), None, None)
    # What grows moves what follows it, and SQLite writes that again: the largest, to which events are added,
    # comes first.
    apart.sort(key=lambda piece: -len(piece.content))
    pieces = _dump({piece.name: (piece.kind, piece.length) for piece in apart}, sort_keys=False)
    content = b"".join(piece.content for piece in apart)
    if all(piece.kind not in _ARRAYS for piece in apart):
        return Encoded(_json(shown), pieces, content)
    return Encoded(
        _filled(_json(shown), " ", _JSON_STEP),
        _filled(pieces, " ", _JSON_STEP),
        _filled(content, _FILLER, _CONTENT_STEP),
    )


def read(encoded: Encoded, *, what: str) -> dict[str, Any]:
    """Return the fields that :func:`encode` encoded.

    Raises:
        StoredDataError: the row is damaged. *what* names it.
    """
    try:
        fields = _read_fields(encoded.fields)
        if encoded.pieces is not None and encoded.content is not None:
            _read_pieces(json.loads(encoded.pieces), encoded.content, fields)
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as exc:
        raise StoredDataError(f"{what} is stored in a form unknown to this release") from exc
    return fields


def micros(time: datetime) -> int:
    """Return *time* in microseconds since 1970; without a zone it is UTC."""
    return ((time if time.tzinfo is not None else time.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND


def selected(fields: Mapping[str, Any], paths: Sequence[FieldPath] | None) -> dict[str, Any]:
    """Return the part of *fields* at *paths*; all of it for ``None``."""
    if paths is None:
        return dict(fields)
    found: dict[str, Any] = {}
    for path in paths:
        _select(fields, path, found)
    return found


def holds_content(encoded: Encoded, paths: Sequence[FieldPath] | None) -> bool:
    """Return whether *paths* need the content that the row keeps apart."""
    if encoded.pieces is None:
        return False
    if paths is None:
        return True
    try:
        names = {*json.loads(encoded.pieces)}
    except (ValueError, TypeError, RecursionError):
        return True  # :func:`read` says that it is damaged
    return any(path[0] in names for path in paths)


def _filled(text: AnyStr, filler: AnyStr, step: int) -> AnyStr:
    return text + filler * (-len(text) % step)


def _select(fields: Mapping[str, Any], path: FieldPath, found: dict[str, Any]) -> None:
    name, *below = path
    if name not in fields:
        return
    value = fields[name]
    if not below:
        found[name] = value
    elif isinstance(value, dict):
        inner = found.setdefault(name, {})
        if inner is not value:
            _select(value, tuple(below), inner)


def _read_fields(text: str) -> dict[str, Any]:
    fields = json.loads(text, object_hook=_unmark if _MARKED in text else None)
    if not isinstance(fields, dict):
        raise TypeError("no map")
    return fields


def _read_pieces(pieces: Mapping[str, Any], content: bytes, fields: dict[str, Any]) -> None:
    at = 0
    for name, (kind, length) in pieces.items():
        if kind in _ARRAYS:
            ends = [*accumulate(length, initial=at)]
            items = [content[start:end] for start, end in pairwise(ends)]
            fields[name] = items if kind == "l" else [item.decode() for item in items]
            at = ends[-1]
        else:
            piece = content[at : at + length]
            fields[name] = piece if kind == "b" else piece.decode()
            at += length
    if content[at:] != _FILLER * (len(content) - at):
        raise ValueError("lengths and content differ")


def _json(value: Any) -> str:
    try:
        return _dump(value)
    except ValueError:  # not a number, or infinite: not JSON
        return _dump(_finite(value))


def _dump(value: Any, *, sort_keys: bool = True) -> str:
    return json.dumps(
        value, default=_mark, ensure_ascii=False, allow_nan=False, sort_keys=sort_keys, separators=(",", ":")
    )


def _mark(value: Any) -> dict[str, Any]:
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    if isinstance(value, datetime):
        return {_TIME: micros(value)}
    raise TypeError(f"a {type(value).__name__} cannot be a field")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {_FLOAT: repr(value)}
    return value


def _unmark(found: dict[str, Any]) -> Any:
    if len(found) == 1:
        ((name, value),) = found.items()
        if name == _BYTES:
            return base64.b64decode(value, validate=True)
        if name == _TIME:
            return _EPOCH + value * _MICROSECOND
        if name == _FLOAT:
            return float(value)
    return found
