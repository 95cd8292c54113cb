"""Copy events and values of state: in half of the time that reading their JSON again takes."""

import copy
from typing import Any, Final

from google.adk.events import Event
from pydantic import BaseModel

_SHARED: Final = frozenset({str, int, float, bool, type(None), bytes})  # nobody can change them
_set = object.__setattr__  # as pydantic's own deep copy does: a model's would validate


def copy_event(event: Event) -> Event:
    """Return an equal event that shares nothing with *event* that could be changed."""
    copied: Event = _copy_model(event)
    return copied


def copy_value(value: Any) -> Any:
    """Return an equal value that shares nothing with *value* that could be changed."""
    kind = type(value)
    if kind in _SHARED:
        return value
    if kind is dict:
        return {key: copy_value(item) for key, item in value.items()}
    if kind is list:
        return [copy_value(item) for item in value]
    if isinstance(value, BaseModel) and kind.__deepcopy__ is BaseModel.__deepcopy__:
        return _copy_model(value)
    return copy.deepcopy(value)


def _copy_model(model: BaseModel) -> Any:
    fields = model.__dict__.copy()
    for name, value in fields.items():
        if value is not None and type(value) not in _SHARED:
            fields[name] = copy_value(value)
    extra, private = model.__pydantic_extra__, model.__pydantic_private__
    copied = object.__new__(type(model))
    _set(copied, "__dict__", fields)
    _set(copied, "__pydantic_fields_set__", model.__pydantic_fields_set__.copy())
    _set(copied, "__pydantic_extra__", None if extra is None else copy_value(extra))
    _set(copied, "__pydantic_private__", None if private is None else copy.deepcopy(private))
    return copied
