"""Split state into its scopes, merge them again, and say which values are small enough for the event loop."""

import enum
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from math import isfinite
from typing import Any, Final

from google.adk.events import Event
from google.adk.sessions import Session, State
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.model.json_values import (
    MAX_VALUE_DEPTH,
    Bounds,
    decode_surrogates,
    encode_surrogates,
    has_surrogates,
    map_texts,
    weigh,
)
from gcp_adk_store.model.keys import is_unicode

_BOUNDS: Final = Bounds()
_PLAIN: Final = frozenset({str, int, bool, type(None)})
_MANY: Final = 1000
_SHOWN: Final = 40  # characters of a key in errors and warnings


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopedState:
    """State, or a state delta, by scope; its keys lack the ``app:`` and ``user:`` prefixes."""

    app: Mapping[str, Any] = field(default_factory=dict)
    user: Mapping[str, Any] = field(default_factory=dict)
    session: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_light_values(self) -> bool:
        """Whether it has no more than a thousand keys."""
        return len(self.app) + len(self.user) + len(self.session) <= _MANY


def split_scopes(state: Mapping[str, Any]) -> ScopedState:
    """Split *state* by the prefixes of its keys; drop ``temp:`` keys."""
    app: dict[str, Any] = {}
    user: dict[str, Any] = {}
    session: dict[str, Any] = {}
    for key, value in state.items():
        if key.startswith(State.APP_PREFIX):
            app[key.removeprefix(State.APP_PREFIX)] = value
        elif key.startswith(State.USER_PREFIX):
            user[key.removeprefix(State.USER_PREFIX)] = value
        elif not key.startswith(State.TEMP_PREFIX):
            session[key] = value
    return ScopedState(app=app, user=user, session=session)


def merge_scopes(state: ScopedState) -> dict[str, Any]:
    """Return one dictionary as ADK shows it: app and user keys carry their prefix."""
    merged = dict(state.session)
    merged.update((State.APP_PREFIX + key, value) for key, value in state.app.items())
    merged.update((State.USER_PREFIX + key, value) for key, value in state.user.items())
    return merged


def overlay(state: ScopedState, delta: ScopedState) -> ScopedState:
    """Return *state* with the keys of *delta* replaced; ``None`` is a value and removes nothing."""
    return ScopedState(
        app={**state.app, **delta.app},
        user={**state.user, **delta.user},
        session={**state.session, **delta.session},
    )


def own(held: object, stored: Any) -> Any:
    """Return the caller's map or list if it is equal to what is stored, else what is stored."""
    try:
        return held if isinstance(held, dict | list) and held == stored else stored
    except Exception:  # noqa: BLE001  # of a value within it, such as an array
        return stored


def persistent(
    delta: Mapping[str, Any], *, bounds: Bounds = _BOUNDS, light: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """Return the stored form of *delta*, which is JSON values without ``temp:`` keys, and warnings to log.

    Datetimes, pydantic models and the like become what ADK makes of them. A value that JSON cannot
    hold becomes its text, with a warning that names the key and the type, as in ADK's own services. A
    *light* delta is within all bounds.

    Raises:
        InvalidInputError: a key is not a string, or a value contains itself, nests more than 197 levels
            deep, holds an integer of over 4,300 digits, or exceeds *bounds*, alone or with the others.
    """
    for key in delta:
        if not isinstance(key, str):
            raise InvalidInputError(f"a state key must be a string, not {type(key).__name__}")
    kept = {key: value for key, value in delta.items() if not key.startswith(State.TEMP_PREFIX)}
    warnings: list[str] = []
    if not (light := light or is_light(kept)):
        values = 0
        for key, value in kept.items():
            what = f"state key {key[:_SHOWN]!r}"
            values, _ = weigh(value, bounds=bounds, what=what, max_depth=MAX_VALUE_DEPTH, beside=values)
    return {key: _json_or_text(key, value, warnings, light=light) for key, value in kept.items()}, warnings


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


def _json_or_text(key: str, value: Any, warnings: list[str], *, light: bool) -> Any:
    try:
        return to_jsonable_python(value) if light else _to_jsonable(value)
    except (PydanticSerializationError, UnicodeError):
        warnings.append(f"{_held(key, value)}, which JSON cannot hold; its text is stored instead")
    except (ValueError, RecursionError) as exc:
        raise InvalidInputError(f"{_held(key, value)} that contains itself or is nested too deep") from exc
    try:
        return _to_jsonable(value, text_of_unknown=True)
    except ValueError:  # bytes that are not UTF-8
        return ascii(value)


def _held(key: str, value: Any) -> str:
    return f"state key {key[:_SHOWN]!r} holds a {type(value).__name__}"


def _to_jsonable(value: Any, *, text_of_unknown: bool = False) -> Any:
    """Return *value*, which was weighed, as ADK encodes it, with all its texts and keys."""

    def other(item: Any) -> Any:
        surrogates = has_surrogates(item)  # pydantic refuses them in keys
        encoded = map_texts(item, encode_surrogates) if surrogates else item
        found = to_jsonable_python(encoded, serialize_unknown=text_of_unknown)
        return map_texts(found, decode_surrogates) if surrogates else found

    return to_plain(value, other)


_CONTAINERS: Final = frozenset({list, tuple, set})
_INT64: Final = range(-(2**63), 2**63)
_SMALL: Final = (bool, float, datetime, enum.Enum)

_LIGHT_VALUES: Final = 4000
_LIGHT_BYTES: Final = 64 * 1024


def is_light(value: Any) -> bool:  # noqa: C901, PLR0912  # calls would take twice the time
    """Return whether *value* is small: at most 4,000 plain values, without lone surrogates.

    A light value is within every limit and takes a millisecond to encode. The count stops at the limit.
    """
    level: list[Collection[Any]] = [(value,)]
    depth = values = size = 0
    while level:
        depth += 1
        if depth > MAX_VALUE_DEPTH:
            return False
        below: list[Collection[Any]] = []
        for items in level:
            values += len(items)
            if values > _LIGHT_VALUES:
                return False
            for item in items:
                if item is None:
                    continue
                kind = type(item)
                if kind is str:
                    if not item.isascii() and not is_unicode(item):
                        return False
                    size += len(item)
                elif kind is dict:
                    below += item, item.values()
                elif kind in _CONTAINERS:
                    below.append(item)
                elif kind is int:
                    if item not in _INT64:
                        return False
                elif _is_model(kind):  # type: ignore[arg-type]  # a class has a hash
                    below += item.__dict__.values(), item.__pydantic_extra__ or ()
                elif kind is bytes:
                    size += len(item)
                elif not isinstance(item, _SMALL):
                    return False
        level = below
    return size <= _LIGHT_BYTES


@lru_cache(maxsize=512)  # pydantic's own check takes ten times as long
def _is_model(kind: type) -> bool:
    return issubclass(kind, BaseModel)


def apply_temporary(session: Session, event: Event) -> None:
    """Give the caller's *session* the ``temp:`` keys of *event*, which are never stored.

    The next agents of the invocation read them there.
    """
    delta = event.actions.state_delta
    session.state.update((key, value) for key, value in delta.items() if _is_temporary(key))


def without_temporary(event: Event) -> Event:
    """Return *event*, whose change of state has no ``temp:`` keys any more."""
    delta = event.actions.state_delta
    event.actions.state_delta = {key: value for key, value in delta.items() if not _is_temporary(key)}
    return event


def _is_temporary(key: str) -> bool:
    return key.startswith(State.TEMP_PREFIX)
