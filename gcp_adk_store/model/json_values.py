"""Weigh JSON values, and find text that UTF-8 cannot hold in them.

A Python string can hold a lone surrogate. UTF-8 cannot, and most JSON parsers refuse its escape or
join two adjacent lone surrogates. Models produce such text when a response ends within a character.
"""

import dataclasses
import enum
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

from pydantic import BaseModel

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.model.keys import whole_text

MAX_DEPTH: Final = 200
"""Nested maps and lists in the JSON of an event: the limit of pydantic's parser."""

MAX_VALUE_DEPTH: Final = MAX_DEPTH - 3
"""Nested maps and lists in a state value, which lies three levels deep in an event."""

MAX_DIGITS: Final = 4300
"""Decimal digits of an integer: the default limit of Python and pydantic."""

_TOO_LARGE: Final = 10**MAX_DIGITS
_WORTH_REMEMBERING: Final = 16
"""Containers below this weight are weighed each time: a cache entry takes about 200 bytes."""

_FIXED: Final = frozenset({bool, float, type(None)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits of one piece of JSON."""

    values: int = 2_000_000
    """Values in it: maps, lists and what they hold."""
    values_named: str = "SessionLimits.max_values"
    size: int = 100 * 1024 * 1024
    """Bytes of it."""
    size_named: str = "SessionLimits.max_payload_bytes"
    way_out: str = "raise it, or keep what is larger as an artifact"
    """Advice for a caller whose value exceeds a limit."""
    text_keys: bool = False
    """Whether a key that is no text is refused: JSON would make it one."""


def weigh(
    value: Any, *, bounds: Bounds, what: str, max_depth: int = MAX_DEPTH, beside: int = 0
) -> tuple[int, bool]:
    """Return how many values *value* has as JSON, and whether a text or a key holds a lone surrogate.

    Shared parts count at each place, and so do the values *beside* it in the same JSON, which were weighed
    before. The time and memory are proportional to the distinct objects. *what* names the value in errors.

    Raises:
        InvalidInputError: it exceeds *bounds*, contains itself, has a key that they refuse, has more than
            *max_depth* maps and lists within each other, or holds an integer of over 4,300 digits.
    """
    scale = _Scale(bounds, what, max_depth, beside)
    scale.add((value,), 0)
    return scale.values, scale.surrogates


def not_json(value: Any, *, what: str) -> InvalidInputError:
    """Return the error for *value*, which JSON cannot hold; it names the kind of what does not fit."""
    kind = "a map or a list that contains itself"
    parts = [value]
    seen: set[int] = set()
    while parts:
        part = parts.pop()
        if isinstance(part, dict | list | tuple) and id(part) not in seen:
            seen.add(id(part))
            odd = [key for key in part if not isinstance(key, str)] if isinstance(part, dict) else []
            kind = f"a {type(odd[0]).__name__} as a key" if odd else kind
            parts += part.values() if isinstance(part, dict) else part
        elif isinstance(part, float):
            kind = kind if isfinite(part) else "an infinite number, or NaN"
        elif isinstance(part, int) and abs(part) >= _TOO_LARGE:
            kind = f"an integer of over {MAX_DIGITS:,} digits"
        elif not isinstance(part, dict | list | str | int | None):
            kind = f"a {type(part).__name__}"
    return InvalidInputError(
        f"{what} holds {kind}, which JSON cannot hold; use text, finite numbers, booleans, None, lists, and "
        "maps whose keys are text"
    )


class _Scale:
    def __init__(self, bounds: Bounds, what: str, max_depth: int, values: int) -> None:
        self.values = values
        self.size = 0  # bytes of texts
        self.surrogates = False
        self._bounds = bounds
        self._what = what
        self._max_depth = max_depth
        self._known: dict[int, tuple[int, int, int]] = {}

    def add(self, items: Collection[Any], depth: int) -> int:
        """Add *items*, which lie *depth* containers deep, and return the depth of the deepest of them."""
        height = 0
        self.values += len(items)
        self._require_within_bounds()
        for item in items:
            kind = type(item)
            if kind is str:
                self._add_text(item)
            elif kind is int:
                if not -_TOO_LARGE < item < _TOO_LARGE:
                    raise self._refused(f"an integer of over {MAX_DIGITS} digits", "keep it as text")
            elif kind not in _FIXED:
                height = max(height, self._add_other(item, depth))
        self._require_within_bounds()
        return height

    def _add_text(self, text: str) -> None:
        try:
            self.size += len(text) if text.isascii() else len(text.encode())
        except UnicodeEncodeError:
            self.size += len(text)
            self.surrogates = True

    def _add_other(self, item: Any, depth: int) -> int:
        if isinstance(item, enum.Enum):
            return self.add((item.value,), depth)
        if isinstance(item, str):
            self._add_text(item)
        elif isinstance(item, bytes):
            self.size += len(item)
        elif isinstance(item, dict):
            for key in item:
                if isinstance(key, str):
                    self._add_text(key)
            return self._add_container(item, item.values(), depth)
        elif isinstance(item, (list, tuple, set, frozenset)):
            return self._add_container(item, item, depth)
        elif isinstance(item, BaseModel):
            fields = [*item.__dict__.values(), *(item.__pydantic_extra__ or {}).values()]
            return self._add_container(item, fields, depth)
        elif dataclasses.is_dataclass(item) and not isinstance(item, type):
            fields = [getattr(item, one.name) for one in dataclasses.fields(item)]
            return self._add_container(item, fields, depth)
        return 0

    def _add_container(self, container: Any, items: Collection[Any], depth: int) -> int:
        if self._bounds.text_keys and isinstance(container, dict):
            for key in container:
                if not isinstance(key, str):
                    raise self._refused(f"a key that is no text: {type(key).__name__}", "make it one")
        values, size, height = self._known.get(id(container), (0, 0, 0))
        if depth + max(height, 1) > self._max_depth:
            raise self._refused(
                f"more than {self._max_depth} maps and lists within each other, or contains itself",
                "make it flatter, or keep it as a text of JSON",
            )
        if values:
            self.values += values
            self.size += size
            self._require_within_bounds()
            return height
        values, size = self.values, self.size
        height = 1 + self.add(items, depth + 1)
        if self.values - values > _WORTH_REMEMBERING:
            self._known[id(container)] = self.values - values, self.size - size, height
        return height

    def _require_within_bounds(self) -> None:
        bounds, size = self._bounds, self.size + self.values
        if self.values > bounds.values:
            raise self._over(f"{self.values} values", f"{bounds.values_named} is {bounds.values}")
        if size > bounds.size:
            raise self._over(f"{size} bytes", f"{bounds.size_named} is {bounds.size}")

    def _refused(self, held: str, way_out: str) -> InvalidInputError:
        return InvalidInputError(f"{self._what} holds {held}; {way_out}")

    def _over(self, held: str, limit: str) -> InvalidInputError:
        return InvalidInputError(
            f"{self._what} takes at least {held} as JSON, each part as often as it stands there; {limit}: "
            f"{self._bounds.way_out}"
        )


_SIGN: Final = "\U0010fffd"  # Unicode's last private-use character
_UNSPELLED: Final = re.compile(f"[\ud800-\udfff{_SIGN}]")
_ENCODED: Final = re.compile(f"{_SIGN}({_SIGN}|d[89a-f][0-9a-f]{{2}})")
_SIDE_BY_SIDE: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def joins(text: str) -> bool:
    """Return whether *text* holds two adjacent lone surrogates, which JSON escapes would join to a pair."""
    return _SIDE_BY_SIDE.search(text) is not None


def encode_surrogates(text: str) -> str:
    r"""Return *text* as Unicode text: a half as U+10FFFD and its four hex digits, U+10FFFD twice."""
    return _UNSPELLED.sub(_encode, text)


def decode_surrogates(text: str) -> str:
    """Reverse :func:`encode_surrogates`."""
    return _ENCODED.sub(_read, text)


def has_surrogates(value: Any) -> bool:
    """Return whether a text or a key anywhere in *value* holds a lone surrogate."""
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
            return grouped(kind, [map_texts(item, change) for item in value])
        case BaseModel():
            fields = {**value.__dict__, **(value.model_extra or {})}
            return value.model_copy(
                update={name: map_texts(item, change) for name, item in fields.items() if item is not None}
            )
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: map_texts(getattr(value, one.name), change) for one in dataclasses.fields(value)}
    return value


def grouped(kind: Callable[[list[Any]], Any], items: list[Any]) -> Any:
    """Return *items* as a *kind* of group, or as they are if no set holds one: a dataclass became a map."""
    try:
        return kind(items)
    except TypeError:
        return items


def fields_of(model: BaseModel, **how: Any) -> dict[str, Any]:
    """Return the fields of *model* as JSON of Python, with its lone surrogates; *how* goes to ``model_dump``.

    Pydantic refuses those of keys, or puts U+FFFD in their place.
    """
    if not has_surrogates(model):
        return model.model_dump(mode="json", **how)
    encoded = map_texts(model, encode_surrogates).model_dump(mode="json", **how)
    return dict(map_texts(encoded, decode_surrogates))


def finite(value: Any) -> Any:
    """Return a copy of *value*, which Python calls JSON, with ``None`` for NaN and infinite numbers.

    JSON has no such numbers; events hold ``None`` for them, too.
    """
    match value:
        case float():
            return value if isfinite(value) else None
        case dict():
            return {key: finite(item) for key, item in value.items()}
        case list() | tuple():
            return [finite(item) for item in value]
    return value


def copied(value: Any) -> Any:
    """Return *value* with maps and arrays of its own; ``copy.deepcopy`` takes several times as long."""
    if isinstance(value, dict):
        return {name: copied(item) for name, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, (list, tuple)) else value


def sendable(value: Any) -> Any:
    """Return a copy of *value*, JSON of Python, that every parser of JSON reads.

    It has U+FFFD for lone surrogates, and ``None`` for NaN and infinite numbers.
    """
    return map_texts(finite(value), whole_text)


def is_equal(actual: Any, expected: Any) -> bool:
    """Return whether both are the same JSON, as a list and a tuple; 1 and 1.0 are, 1 and true are not."""
    if isinstance(actual, bool) or isinstance(expected, bool):
        return actual is expected
    if isinstance(actual, dict) and isinstance(expected, dict):
        return actual.keys() == expected.keys() and all(
            is_equal(actual[key], expected[key]) for key in actual
        )
    if isinstance(actual, list | tuple) and isinstance(expected, list | tuple):
        return len(actual) == len(expected) and all(map(is_equal, actual, expected))
    return bool(actual == expected)


def _encode(match: re.Match[str]) -> str:
    found = match[0]
    return _SIGN + (found if found == _SIGN else f"{ord(found):04x}")


def _read(match: re.Match[str]) -> str:
    found = match[1]
    return found if found == _SIGN else chr(int(found, 16))
