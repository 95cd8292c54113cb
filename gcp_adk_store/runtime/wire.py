"""Spell objects of ADK and of Google's SDK as the JSON that code gets."""

import base64
import enum
from collections.abc import Mapping
from typing import Any

import pydantic
from pydantic_core import PydanticSerializationError, to_jsonable_python

from gcp_adk_store.errors import InvalidInputError


def to_json(value: Any, where: str) -> Any:
    """Return *value* as JSON: models in camelCase without what is None, bytes as standard base64.

    Raises:
        InvalidInputError: there is something in it that JSON cannot hold; the message says where.
    """
    try:
        return _json(value)
    except (PydanticSerializationError, ValueError, TypeError, RecursionError) as exc:
        raise InvalidInputError(f"{where} cannot be JSON: {type(exc).__name__}") from exc


def to_object(value: Any, where: str) -> dict[str, Any]:
    """Return *value*, a model or a mapping, as a JSON object.

    Raises:
        InvalidInputError: it is none.
    """
    made = to_json(value, where)
    if not isinstance(made, dict):
        raise InvalidInputError(f"{where} must be an object, not {type(value).__name__}")
    return made


def _json(value: Any) -> Any:  # noqa: PLR0911  # one for each kind of value
    match value:
        case pydantic.BaseModel():
            return _json(value.model_dump(mode="python", by_alias=True, exclude_none=True))
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case enum.Enum():
            return _json(value.value)
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            return {_key(key): _json(below) for key, below in value.items()}
        case list() | tuple():
            return [_json(below) for below in value]
        case set() | frozenset():
            return sorted(_json(below) for below in value)
        case _:
            return to_jsonable_python(value)


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError("a key is no text")
    return key
