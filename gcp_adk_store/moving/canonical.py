"""Encode events and state in one way, whichever store they come from, and digest them."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from google.adk.events import Event
from pydantic_core import PydanticSerializationError

from gcp_adk_store.codec.events import bounds_of, with_halves
from gcp_adk_store.model.json_values import encode_halves, is_light, map_texts
from gcp_adk_store.model.state import persistent
from gcp_adk_store.settings import SessionLimits

_BOUNDS: Final = bounds_of(SessionLimits())


def canonical_event(event: Event) -> bytes:
    """Return *event* as JSON in ASCII with sorted keys and without spaces; ``None`` is left out.

    The state delta is what stores keep of it: JSON values, without ``temp:`` keys. Two events have the same
    encoding if and only if ADK reads them as equal.

    Raises:
        InvalidInputError: the event holds more values than a store accepts, or contains itself.
    """
    delta, _ = kept_state(event.actions.state_delta)
    actions = event.actions.model_copy(update={"state_delta": delta})
    return _encode(plain_event(event.model_copy(update={"actions": actions})))


def plain_event(event: Event) -> dict[str, Any]:
    """Return *event* as JSON values, which ``codec.events.decode_event`` reads as text.

    Halves of surrogate pairs are encoded as in storage, and a key says so.
    """
    try:
        found = json.loads(event.model_dump_json(exclude_none=True))
    except (PydanticSerializationError, UnicodeError):
        encoded = map_texts(event, encode_halves).model_dump_json(exclude_none=True)
        found = json.loads(with_halves(encoded))
    return dict(found)


def canonical_state(state: Mapping[str, Any]) -> bytes:
    """Return *state*, which holds JSON values, as JSON in ASCII with sorted keys and without spaces."""
    return _encode(dict(state))


def kept_state(state: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return what stores keep of *state*, as JSON values, and the keys of which the type is lost."""
    kept, _ = persistent(state, bounds=_BOUNDS, light=is_light(state))
    return kept, [key for key, value in kept.items() if not _is_same(value, state[key])]


class Digest:
    """The SHA-256 of a session: its events in order, each by its own SHA-256, and its state."""

    def __init__(self) -> None:
        self.events = 0
        """The number of events so far."""
        self._hash = hashlib.sha256()

    def add(self, encoded: bytes) -> None:
        """Go on with one event, *encoded* canonically."""
        self.events += 1
        self._hash.update(hashlib.sha256(encoded).digest())

    def of_events(self) -> str:
        """Return the digest of the events so far as hex digits."""
        return self._hash.hexdigest()

    def with_state(self, state: Mapping[str, Any]) -> str:
        """Return the digest of the events so far and of *state*, as hex digits."""
        whole = self._hash.copy()
        whole.update(b"state" + canonical_state(state))
        return whole.hexdigest()


def _encode(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _is_same(kept: Any, given: Any) -> bool:
    if type(kept) is not type(given):
        return False
    if isinstance(kept, dict):
        return kept.keys() == given.keys() and all(_is_same(kept[key], given[key]) for key in kept)
    if isinstance(kept, list):
        return len(kept) == len(given) and all(map(_is_same, kept, given))
    return bool(kept == given)
