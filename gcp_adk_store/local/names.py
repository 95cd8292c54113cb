"""Encode paths of documents as keys that SQLite sorts as Firestore sorts names; check names."""

import re
from typing import Final

from gcp_adk_store.codec.names import MAX_NAME_BYTES
from gcp_adk_store.codec.writes import FieldPath
from gcp_adk_store.errors import InvalidInputError

_RESERVED: Final = re.compile(r"__.*__", re.DOTALL)
_END: Final = b"\0\0"  # of a segment: sorts before every character that continues it
_ZERO: Final = b"\0\xff"
_MAX_SEGMENTS: Final = 200
"""100 collections within each other, as Firestore's quota page says."""

_SEGMENT: Final = re.compile(r"`((?:[^`\\]|\\.)*)`|([^.`]+)", re.DOTALL)


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
    """Return the path that :func:`document_key` encoded."""
    return key.replace(_END, b"/").replace(_ZERO, b"\0").decode()


def below(key: bytes) -> tuple[bytes, bytes]:
    """Return the bounds of the keys below *key*, the second excluded."""
    return key + _END, key + b"\0\1"


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
            raise InvalidInputError(f"{ascii(shown)[:80]} holds half of a surrogate pair") from None
        if not 0 < len(name) <= MAX_NAME_BYTES:
            raise InvalidInputError(
                f"{shown[:80]!r} has a part of {len(name)} bytes; Firestore takes 1 to {MAX_NAME_BYTES}"
            )
        if segment in (".", "..") or _RESERVED.fullmatch(segment):
            raise InvalidInputError(f"{shown[:80]!r} has a part {segment[:40]!r}, which Firestore reserves")
        encoded.append(name.replace(b"\0", _ZERO))
    return _END.join(encoded)
