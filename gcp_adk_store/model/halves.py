"""Encode halves of surrogate pairs as Unicode text, and read them back.

A Python string can hold half of a surrogate pair. UTF-8 cannot, and most JSON parsers refuse its escape or
join two adjacent halves. Models produce such text when a response ends within a character.
"""

import dataclasses
import enum
import re
from collections.abc import Callable
from typing import Any, Final

from pydantic import BaseModel

_SIGN: Final = "\U0010fffd"  # Unicode's last private-use character
_UNSPELLED: Final = re.compile(f"[\ud800-\udfff{_SIGN}]")
_SPELLED: Final = re.compile(f"{_SIGN}({_SIGN}|d[89a-f][0-9a-f]{{2}})")
_SIDE_BY_SIDE: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def joins(text: str) -> bool:
    """Return whether *text* holds two adjacent halves, which JSON escapes cannot distinguish from a pair."""
    return _SIDE_BY_SIDE.search(text) is not None


def encode_halves(text: str) -> str:
    r"""Return *text* as Unicode text: a half as U+10FFFD and its four hex digits, U+10FFFD twice."""
    return _UNSPELLED.sub(_encode, text)


def read_halves(text: str) -> str:
    """Reverse :func:`encode_halves`."""
    return _SPELLED.sub(_read, text)


def has_halves(value: Any) -> bool:
    """Return whether a text or a key anywhere in *value* holds half of a surrogate pair."""
    try:
        map_texts(value, lambda text: text.encode().decode())
    except UnicodeEncodeError:
        return True
    return False


def map_texts(value: Any, change: Callable[[str], str]) -> Any:  # noqa: PLR0911  # one for each kind
    """Return a copy of *value* with *change* applied to every text and key; *value* stays as it is.

    The copy covers maps, lists, tuples, sets, pydantic models and dataclasses; a dataclass becomes a map, as
    in JSON.
    """
    match value:
        case enum.Enum():
            return value
        case str():
            return change(value)
        case dict():
            return {map_texts(key, change): map_texts(item, change) for key, item in value.items()}
        case list():
            return [map_texts(item, change) for item in value]
        case tuple() | set() | frozenset():
            kind = next(kind for kind in (tuple, set, frozenset) if isinstance(value, kind))
            return kind(map_texts(item, change) for item in value)
        case BaseModel():
            fields = {**value.__dict__, **(value.model_extra or {})}
            return value.model_copy(
                update={name: map_texts(item, change) for name, item in fields.items() if item is not None}
            )
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: map_texts(getattr(value, one.name), change) for one in dataclasses.fields(value)}
    return value


def _encode(match: re.Match[str]) -> str:
    found = match[0]
    return _SIGN + (found if found == _SIGN else f"{ord(found):04x}")


def _read(match: re.Match[str]) -> str:
    found = match[1]
    return found if found == _SIGN else chr(int(found, 16))
