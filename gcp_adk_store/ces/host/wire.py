"""Convert objects of ADK and of Google's SDK to the JSON that code gets."""

import base64
import enum
import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import pydantic
from pydantic_core import PydanticSerializationError, to_jsonable_python

from gcp_adk_store.errors import InvalidInputError


def to_json(value: Any, where: str, *, null_for_nan: bool = False) -> Any:
    """Return *value* as JSON: models in camelCase without what is None, bytes as standard base64.

    Args:
        value: The value to convert.
        where: What it is, for the message.
        null_for_nan: Whether NaN and infinities become null.

    Raises:
        InvalidInputError: JSON cannot hold a part of *value*; the message names *where*.
    """
    try:
        return _json(value, null_for_nan=null_for_nan)
    except (PydanticSerializationError, ValueError, TypeError, RecursionError) as exc:
        raise InvalidInputError(f"{where} cannot be JSON: {type(exc).__name__}") from exc


def to_object(value: Any, where: str, *, null_for_nan: bool = False) -> dict[str, Any]:
    """Return *value*, a model or a mapping, as a JSON object; as `to_json`.

    Raises:
        InvalidInputError: *value* is not an object.
    """
    made = to_json(value, where, null_for_nan=null_for_nan)
    if not isinstance(made, dict):
        raise InvalidInputError(f"{where} must be an object, not {type(value).__name__}")
    return made


def _json(value: Any, *, null_for_nan: bool) -> Any:  # noqa: PLR0911  # one for each kind of value
    below = partial(_json, null_for_nan=null_for_nan)
    match value:
        case pydantic.BaseModel():
            return below(value.model_dump(mode="python", by_alias=True, exclude_none=True))
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case enum.Enum():
            return below(value.value)
        case float() if not math.isfinite(value):
            if null_for_nan:
                return None
            raise ValueError(f"{value} is not JSON")
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            return {_key(key): below(each) for key, each in value.items()}
        case list() | tuple():
            return [below(each) for each in value]
        case set() | frozenset():
            return sorted(below(each) for each in value)
        case _:
            return to_jsonable_python(value)


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError("a key is not text")
    return key
