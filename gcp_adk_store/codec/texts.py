"""Encode values as JSON texts and parse them, in pieces if they are large.

Python's encoder and parser block all other threads while they run, also that of the event loop. Each call
handles some thousand values, which takes a few milliseconds. What JSON cannot hold raises ``TypeError``,
``ValueError`` or ``RecursionError``, and damaged JSON one of the last two.
"""

import json.scanner
import re
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any, Final

from gcp_adk_store.model.halves import joins

_PIECE: Final = 64 * 1024
"""Characters of JSON that one call parses, in about 2 ms."""

_COMPACT: Final = (",", ":")
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_DECODER: Final = json.JSONDecoder()
_scan: Final[Callable[[str, int], tuple[Any, int]]] = json.scanner.make_scanner(_DECODER)  # type: ignore[arg-type]
_CLOSING: Final = {"[": "]", "{": "}"}
_AFTER_VALUES: Final = frozenset(",]} \t\n\r")


def to_json(value: Any, *, ascii_only: bool = False) -> str:
    """Return *value* as compact JSON, piece by piece."""
    text = StringIO()
    text.writelines(json.JSONEncoder(separators=_COMPACT, ensure_ascii=ascii_only).iterencode(value))
    return text.getvalue()


def to_json_bytes(value: Any, *, light: bool) -> tuple[bytes, bool]:
    """Return *value* as compact JSON in bytes, and whether a text can hold the same JSON.

    A text cannot hold two adjacent halves of a surrogate pair: a parser joins their escapes to the pair. The
    bytes hold them unescaped, as Python's own parser accepts them. One call encodes a *light* value.
    """
    text = json.dumps(value, separators=_COMPACT) if light else to_json(value, ascii_only=True)
    if "\\ud" in text and joins(raw := to_json(value, ascii_only=False)):
        return raw.encode("utf-8", "surrogatepass"), False
    return text.encode(), True


def from_json(text: str) -> Any:
    """Return the value of the JSON *text*."""
    if len(text) <= _PIECE:
        return json.loads(text)
    value, end = _read(text, _past_space(text, 0))
    if _past_space(text, end) != len(text):
        raise ValueError(f"more than one value in {len(text)} characters")
    return value


def members(text: str, start: int) -> Iterator[tuple[str, int, int, int]]:
    """Yield the members of the JSON object that begins at *start* in *text*.

    Each is its key, where it begins, where its value begins, and where it ends.
    """
    at = _past_space(text, _past_space(text, start) + 1)
    while text[at : at + 1] != "}":
        key, value = _key(text, at)
        value = _past_space(text, value)
        _, end = _read(text, value)
        yield key, at, value, end
        at = _past_space(text, end)
        if text[at : at + 1] != ",":
            return
        at = _past_space(text, at + 1)


def _read(text: str, start: int) -> tuple[Any, int]:
    """Return the value that begins at *start*, and its end."""
    opening = text[start : start + 1]
    if opening not in _CLOSING:
        return _DECODER.raw_decode(text, start)
    closing = _CLOSING[opening]
    found: Any = [] if opening == "[" else {}
    at = _past_space(text, start + 1)
    if text[at : at + 1] != closing:
        while True:
            end = _read_items(text, at, found)
            if end == at:
                end = _read_item(text, at, found)
            at = _past_space(text, end)
            if text[at : at + 1] != ",":
                break
            at = _past_space(text, at + 1)
    if text[at : at + 1] != closing:
        raise ValueError(f"no {closing} at {at}")
    return found, at + 1


def _read_items(text: str, start: int, found: Any) -> int:
    """Add the items of the piece from *start* on to *found*; return the end of the last one."""
    piece = text[start : start + _PIECE]
    at = done = 0
    key = None
    try:
        while True:
            if type(found) is dict:
                key, at = _key(piece, at)
            value, at = _scan(piece, at)
            if piece[at] not in _AFTER_VALUES:
                break  # the start of a number that continues after the piece, such as "1."
            _add(found, key, value)
            done = at
            if piece[at] != ",":
                break
            at += 1
    except (ValueError, StopIteration, IndexError):
        pass  # an item that continues after the piece, or is damaged, which its own parse shows
    return start + done


def _read_item(text: str, start: int, found: Any) -> int:
    """Add the item at *start*, which is longer than a piece, to *found*; return its end."""
    key, at = _key(text, start) if type(found) is dict else (None, start)
    value, at = _read(text, _past_space(text, at))
    _add(found, key, value)
    return at


def _add(found: Any, key: str | None, value: Any) -> None:
    if key is None:
        found.append(value)
    else:
        found[key] = value


def _key(text: str, start: int) -> tuple[str, int]:
    if text[start : start + 1] != '"':
        raise ValueError(f"no key at {start}")
    key, at = _DECODER.raw_decode(text, start)
    at = _past_space(text, at)
    if text[at : at + 1] != ":":
        raise ValueError(f"no : at {at}")
    return key, at + 1


def _past_space(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    return start if match is None else match.end()
