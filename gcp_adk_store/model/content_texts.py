"""Find the texts of an event that users, models and tools wrote, and put others in their places."""

import enum
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from google.adk.events import Event
from google.adk.sessions import State
from pydantic import BaseModel

from gcp_adk_store.model.internal_metadata import stamps_of

_NAMES: Final = frozenset(
    {
        *("id", "invocation_id", "author", "branch", "isolation_scope", "node_info", "role", "name"),
        *("mime_type", "file_uri", "language", "model_version", "finish_reason", "error_code", "outcome"),
        *("interaction_id", "long_running_tool_ids", "artifact_delta", "transfer_to_agent", "usage_metadata"),
        *("rewind_before_invocation_id", "route", "live_session_id", "cache_metadata"),
    }
)
"""Fields of ADK's models that hold names, ids and numbers. Keys of a tool's arguments are not such fields."""


def map_content(event: Event, change: Callable[[str], str]) -> Event:
    """Return a copy of *event* with *change* applied to each text in it; *event* stays as it is.

    These are the values of all fields, at any depth, but names, ids, keys, bytes, ``temp:`` state and stamps
    of ADK's ``ToolCallIntegrityPlugin``.
    """
    stamps = {*stamps_of(event).values()}
    if stamps:
        change = _but(stamps, change)
    actions = event.actions
    delta = {
        key: value if key.startswith(State.TEMP_PREFIX) else map_values(value, change)
        for key, value in actions.state_delta.items()
    }
    rest = map_values(actions.model_copy(update={"state_delta": {}}), change)
    mapped: Event = map_values(event.model_copy(update={"actions": None}), change)
    return mapped.model_copy(update={"actions": rest.model_copy(update={"state_delta": delta})})


def _but(kept: AbstractSet[str], change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: text if text in kept else change(text)


def map_state(state: Mapping[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """Return *state* with *change* applied to each text in its values, except in those of ``temp:`` keys."""
    return {
        key: value if key.startswith(State.TEMP_PREFIX) else map_values(value, change)
        for key, value in state.items()
    }


def map_values(value: Any, change: Callable[[str], str]) -> Any:  # noqa: PLR0911  # one for each kind
    """Return *value* with *change* applied to each text in it that is neither a key nor a name."""
    match value:
        case enum.Enum():
            return value
        case str():
            return change(value) if value else value
        case dict():
            return {key: map_values(item, change) for key, item in value.items()}
        case list():
            return [map_values(item, change) for item in value]
        case tuple():
            return tuple(map_values(item, change) for item in value)
        case set() | frozenset():
            return type(value)(map_values(item, change) for item in sorted(value, key=repr))
        case BaseModel():
            fields = {**value.__dict__, **(value.model_extra or {})}
            return value.model_copy(
                update={
                    name: map_values(item, change)
                    for name, item in fields.items()
                    if item is not None and name not in _NAMES
                }
            )
    return value
