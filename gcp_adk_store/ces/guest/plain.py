"""Make plain JSON of the values of user code, or name the value that is not JSON."""

import json
import math
from typing import Any, Final

import pydantic_core

MAX_DEPTH: Final = 90
"""Levels of lists and dicts; a value that contains itself goes deeper. A frame around it has some of its own,
and ``frame_depth`` is 100."""

_MAX_INT_BITS: Final = 14_000  # Python turns integers into text up to 4,300 digits.


class NotJsonError(TypeError):
    """A value cannot be JSON; the message says which and where."""


def plain(value: Any, where: str, *, lenient: bool = False, depth: int = MAX_DEPTH) -> Any:
    """Return a deep copy of *value* of None, bool, int, float, str, list and dict alone.

    Tuples become lists, subclasses what they derive from.

    Args:
        value: Anything.
        where: The name of *value* in messages.
        lenient: Whether pydantic may convert values that are not JSON.
        depth: Levels that are left.

    Raises:
        NotJsonError: a part of *value* is not JSON.
    """
    if value is None or isinstance(value, bool | str | int | float):
        return _scalar(value, where)
    if depth == 0:
        raise NotJsonError(f"{where[:200]}: nested deeper than {MAX_DEPTH} levels, or refers to itself")
    if isinstance(value, dict):
        return {
            (name := _key(key, where)): plain(below, f"{where}[{name!r}]", lenient=lenient, depth=depth - 1)
            for key, below in value.items()
        }
    if isinstance(value, list | tuple):
        return [
            plain(below, f"{where}[{index}]", lenient=lenient, depth=depth - 1)
            for index, below in enumerate(value)
        ]
    if lenient:
        return plain(_converted(value, where), where, depth=depth)
    raise _refused(value, where)


def sendable(text: str) -> str:
    """Return *text* with halves of surrogate pairs, which UTF-8 cannot hold, as Python escapes them."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def same_json(one: Any, other: Any) -> bool:
    """Return whether two plain values are the same JSON, in which 1, 1.0 and True differ."""
    if type(one) is not type(other):
        return False
    if not isinstance(one, dict | list):
        return bool(one == other)
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _scalar(value: Any, where: str) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, where)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotJsonError(f"{where}: {value} is not a number of JSON")
        return float.__float__(value)
    bits = int.bit_length(value)
    if bits > _MAX_INT_BITS:
        raise NotJsonError(f"{where}: an integer of {bits} bits is too large")
    return int.__int__(value)


def _text(value: str, where: str) -> str:
    text = str.__str__(value)
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise NotJsonError(
            f"{where}: {text[exc.start]!r} at {exc.start} is half of a surrogate pair"
        ) from None
    return text


def _key(key: object, where: str) -> str:
    if not isinstance(key, str):
        raise NotJsonError(f"{where}: the key {key!r} is {type(key).__name__}, JSON has only str")
    return _text(key, f"{where}, a key")


def _converted(value: object, where: str) -> Any:
    try:
        return pydantic_core.to_jsonable_python(value)
    except (pydantic_core.PydanticSerializationError, UnicodeDecodeError):
        raise _refused(value, where) from None


def _refused(value: object, where: str) -> NotJsonError:
    return NotJsonError(f"{where}: Object of type {type(value).__name__} is not JSON serializable")
