"""Encode JSON texts, and take large maps out of them.

Python's encoder and parser block all other threads while they run, also that of the event loop. Each call
handles some thousand values, which takes a few milliseconds. What JSON cannot hold raises ``TypeError``,
``ValueError`` or ``RecursionError``, and damaged JSON one of the last two.

Pydantic blocks every other thread meanwhile: about 50 ms for a million numbers. Tools and callers fill these
maps: state deltas, arguments and responses of functions, custom metadata.
"""

import json
import json.scanner
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from io import StringIO
from typing import Any, Final

from google.adk.events import Event
from google.genai import types

from gcp_adk_store import machine
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.model.json_values import MAX_DEPTH, Bounds, joins, not_json, weigh
from gcp_adk_store.model.state import is_light, to_plain

_PIECE: Final = 64 * 1024
"""Characters of JSON that one call parses, in about 2 ms."""

_COMPACT: Final = (",", ":")
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_DECODER: Final = json.JSONDecoder()
_scan: Final[Callable[[str, int], tuple[Any, int]]] = json.scanner.make_scanner(_DECODER)  # type: ignore[arg-type]
_CLOSING: Final = {"[": "]", "{": "}"}
_AFTER_VALUES: Final = frozenset(",]} \t\n\r")


def to_json(value: Any, *, ascii_only: bool = False) -> str:
    """Return *value* as compact JSON, piece by piece."""
    text = StringIO()
    text.writelines(json.JSONEncoder(separators=_COMPACT, ensure_ascii=ascii_only).iterencode(value))
    return text.getvalue()


def to_json_bytes(value: Any, *, light: bool, allow_nan: bool = True) -> tuple[bytes, bool]:
    """Return *value* as compact JSON in bytes, and whether a text can hold the same JSON.

    A text cannot hold two adjacent lone surrogates: a parser joins their escapes to the pair. The
    bytes hold them unescaped, as Python's own parser accepts them. One call encodes a *light* value, which
    may do without NaN and infinite numbers.
    """
    text = (
        json.dumps(value, separators=_COMPACT, allow_nan=allow_nan)
        if light
        else to_json(value, ascii_only=True)
    )
    if "\\ud" in text and joins(raw := to_json(value, ascii_only=False)):
        return raw.encode("utf-8", "surrogatepass"), False
    return text.encode(), True


def metadata_bytes(value: Any, *, bounds: Bounds, what: str, max_depth: int = MAX_DEPTH) -> bytes:
    """Return metadata of a caller as compact JSON, from which every reader gets the same *value*.

    Raises:
        InvalidInputError: as :func:`weigh`, or JSON cannot hold it; *what* names it.
    """
    weigh(value, bounds=bounds, what=what, max_depth=max_depth)
    try:
        data, is_text = to_json_bytes(value, light=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as exc:
        raise not_json(value, what=what) from exc
    if not is_text:
        raise InvalidInputError(
            f"{what} holds two lone surrogates side by side, which JSON cannot distinguish from the pair; "
            f"join them, or {bounds.way_out}"
        )
    return data


def from_json(text: str) -> Any:
    """Return the value of the JSON *text*."""
    if len(text) <= _PIECE:
        return json.loads(text)
    value, end = _read(text, _past_space(text, 0))
    if _past_space(text, end) != len(text):
        raise ValueError(f"more than one value in {len(text)} characters")
    return value


def members(text: str, start: int) -> Iterator[tuple[str, int, int, int]]:
    """Yield the members of the JSON object that begins at *start* in *text*.

    Each is its key, where it begins, where its value begins, and where it ends.
    """
    at = _past_space(text, _past_space(text, start) + 1)
    while text[at : at + 1] != "}":
        key, value = _key(text, at)
        value = _past_space(text, value)
        _, end = _read(text, value)
        yield key, at, value, end
        at = _past_space(text, end)
        if text[at : at + 1] != ",":
            return
        at = _past_space(text, at + 1)


def _read(text: str, start: int) -> tuple[Any, int]:
    """Return the value that begins at *start*, and its end."""
    opening = text[start : start + 1]
    if opening not in _CLOSING:
        return _DECODER.raw_decode(text, start)
    closing = _CLOSING[opening]
    found: Any = [] if opening == "[" else {}
    at = _past_space(text, start + 1)
    if text[at : at + 1] != closing:
        while True:
            end = _read_items(text, at, found)
            if end == at:
                end = _read_item(text, at, found)
            at = _past_space(text, end)
            if text[at : at + 1] != ",":
                break
            at = _past_space(text, at + 1)
    if text[at : at + 1] != closing:
        raise ValueError(f"no {closing} at {at}")
    return found, at + 1


def _read_items(text: str, start: int, found: Any) -> int:
    """Add the items of the piece from *start* on to *found*; return the end of the last one."""
    piece = text[start : start + _PIECE]
    at = done = 0
    key = None
    try:
        while True:
            if type(found) is dict:
                key, at = _key(piece, at)
            value, at = _scan(piece, at)
            if piece[at] not in _AFTER_VALUES:
                break  # the start of a number that continues after the piece, such as "1."
            _add(found, key, value)
            done = at
            if piece[at] != ",":
                break
            at += 1
    except (ValueError, StopIteration, IndexError):
        pass  # an item that continues after the piece, or is damaged, which its own parse shows
    return start + done


def _read_item(text: str, start: int, found: Any) -> int:
    """Add the item at *start*, which is longer than a piece, to *found*; return its end."""
    key, at = _key(text, start) if type(found) is dict else (None, start)
    value, at = _read(text, _past_space(text, at))
    _add(found, key, value)
    return at


def _add(found: Any, key: str | None, value: Any) -> None:
    if key is None:
        found.append(value)
    else:
        found[key] = value


def _key(text: str, start: int) -> tuple[str, int]:
    if text[start : start + 1] != '"':
        raise ValueError(f"no key at {start}")
    key, at = _DECODER.raw_decode(text, start)
    at = _past_space(text, at)
    if text[at : at + 1] != ":":
        raise ValueError(f"no : at {at}")
    return key, at + 1


def _past_space(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    return start if match is None else match.end()


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
