"""Convert values of callers' state and events to JSON values."""

from collections.abc import Callable
from math import isfinite
from typing import Any, Final

from pydantic_core import to_jsonable_python

from gcp_adk_store.model.halves import has_halves, map_texts, read_halves, spell_halves

_PLAIN: Final = frozenset({str, int, bool, type(None)})


def to_plain(value: Any, other: Callable[[Any], Any]) -> Any:
    """Return a copy of *value*, which was weighed, as JSON values.

    It converts one container at a time, so that other threads run meanwhile. *other* converts everything but
    finite numbers, texts, lists, tuples and maps with text keys.
    """
    kind = type(value)
    if kind in _PLAIN or (kind is float and isfinite(value)):
        return value
    if kind is dict and all(type(key) is str for key in value):
        return {key: to_plain(item, other) for key, item in value.items()}
    if kind is list or kind is tuple:
        return [to_plain(item, other) for item in value]
    return other(value)


def to_jsonable(value: Any, *, text_of_unknown: bool = False) -> Any:
    """Return *value*, which was weighed, as ADK encodes it, with all its texts and keys.

    Raises:
        PydanticSerializationError: JSON cannot hold it, and *text_of_unknown* does not ask for its text.
        UnicodeError: it holds bytes that are not UTF-8.
    """

    def other(item: Any) -> Any:
        halves = has_halves(item)  # pydantic refuses them in keys
        spelled = map_texts(item, spell_halves) if halves else item
        found = to_jsonable_python(spelled, serialize_unknown=text_of_unknown)
        return map_texts(found, read_halves) if halves else found

    return to_plain(value, other)
