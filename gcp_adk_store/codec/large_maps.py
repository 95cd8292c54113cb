"""Move large maps out of an event, so that pydantic encodes and parses only the rest.

Pydantic blocks every other thread meanwhile: about 50 ms for a million numbers. Tools and callers fill these
maps: state deltas, arguments and responses of functions, custom metadata.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import Any, Final

from google.adk.events import Event
from google.genai import types

from gcp_adk_store import machine
from gcp_adk_store.codec.texts import from_json, to_json
from gcp_adk_store.model.state import to_plain
from gcp_adk_store.model.weights import is_light

_IN_ONE: Final = 256 * 1024
"""Characters of an event that pydantic parses in about 5 ms."""

Change = Callable[[dict[str, Any]], dict[str, Any]]


class LargeMaps:
    """The large maps of one event, each with its placeholder."""

    def __init__(self) -> None:
        self._maps: list[dict[str, Any]] = []

    @cached_property
    def _sign(self) -> str:
        """The key of the placeholders: random, so no event contains it. Few events need one."""
        return machine.random_bytes(16).hex()

    def take_from(self, event: Event) -> Event:
        """Return *event* with a placeholder for each large map; *event* stays as it is.

        A map with values that only pydantic can encode stays in place.
        """

        def change(values: dict[str, Any]) -> dict[str, Any]:
            with suppress(TypeError):
                return values if is_light(values) else self._sign_for(to_plain(values, _as_in_events))
            return values

        return _changed(event, change)

    def take_from_json(self, text: str) -> str:
        """Return the JSON of an event with placeholders for large maps."""
        if len(text) <= _IN_ONE:
            return text
        try:
            data = from_json(text)
        except (ValueError, RecursionError):
            return text  # the parser reports the damage
        for holder, name in _places(data):
            if isinstance(holder[name], dict) and not is_light(holder[name]):
                holder[name] = self._sign_for(holder[name])
        return to_json(data) if self._maps else text

    def put_into(self, event: Event) -> Event:
        """Return *event* with the maps in place of their placeholders."""
        if not self._maps:
            return event
        sign = self._sign
        return _changed(event, lambda values: self._maps[values[sign]] if sign in values else values)

    def put_into_json(self, text: str) -> str:
        """Return the JSON of an event with the maps in place of their placeholders."""
        for number, values in enumerate(self._maps):
            text = text.replace(json.dumps({self._sign: number}, separators=(",", ":")), to_json(values))
        return text

    def _sign_for(self, values: dict[str, Any]) -> dict[str, Any]:
        self._maps.append(values)
        return {self._sign: len(self._maps) - 1}


def _changed(event: Event, change: Change) -> Event:
    """Return a copy of *event* with *change* applied to every map of values."""
    actions = event.actions.model_copy(update={"state_delta": change(event.actions.state_delta)})
    update: dict[str, Any] = {"actions": actions}
    if event.custom_metadata is not None:
        update["custom_metadata"] = change(event.custom_metadata)
    if event.content is not None and event.content.parts is not None:
        parts = [_changed_part(part, change) for part in event.content.parts]
        update["content"] = event.content.model_copy(update={"parts": parts})
    return event.model_copy(update=update)


def _changed_part(part: types.Part, change: Change) -> types.Part:
    update: dict[str, Any] = {}
    call, response = part.function_call, part.function_response
    if call is not None and call.args is not None:
        update["function_call"] = call.model_copy(update={"args": change(call.args)})
    if response is not None and response.response is not None:
        update["function_response"] = response.model_copy(update={"response": change(response.response)})
    return part.model_copy(update=update) if update else part


def _places(data: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the holder and the name of every map of values in the JSON of an event, damaged or not."""
    event = _map(data)
    holders = [(event, "custom_metadata"), (_map(event.get("actions")), "state_delta")]
    parts = _map(event.get("content")).get("parts")
    for part in parts if isinstance(parts, list) else ():
        holders.append((_map(_map(part).get("function_call")), "args"))
        holders.append((_map(_map(part).get("function_response")), "response"))
    yield from ((holder, name) for holder, name in holders if name in holder)


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _as_in_events(value: Any) -> Any:
    if type(value) is float:
        return None  # NaN and infinite numbers, which JSON cannot hold
    raise TypeError
