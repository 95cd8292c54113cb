"""Spell events as JSON texts.

Large content leaves an event's text for payloads (:mod:`gcp_adk_store.codec.event_payloads`): inline bytes
by themselves, and a text that is still too long as one payload of its compressed whole.
"""

import json
import logging
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.adk.events import Event
from google.genai import types
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from gcp_adk_store import telemetry
from gcp_adk_store.codec.event_payloads import (
    WHOLE,
    Place,
    placeholder,
    put_bytes,
    put_placeholders,
    references,
    referring,
    without_bytes,
)
from gcp_adk_store.codec.packing import unpack
from gcp_adk_store.errors import InvalidInputError, StoredDataError
from gcp_adk_store.model.payloads import MAX_PAYLOAD_BYTES, Payload, PayloadPlace, PayloadRef

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLimits:
    """Sizes at which parts of an event become payloads, and where those are to lie."""

    inline_bytes: int
    """Inline data over this size becomes a payload."""
    text_bytes: int
    """A JSON text over this size of UTF-8 becomes a payload, compressed."""
    payload_bytes: int
    """The largest payload."""
    place: PayloadPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedEvent:
    """An event as it is stored."""

    text: str
    payloads: Sequence[Payload]
    """What *text* refers to."""
    event: Event
    """The event as it will be read, payloads included: tuples are lists, datetimes are text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """An event as it was read, still without its payloads."""

    event: Event
    missing: Mapping[Place, PayloadRef]

    @property
    def timestamp(self) -> float:
        """The event's own, Unix time in seconds."""
        return self.event.timestamp


def encode_event(event: Event, *, state_delta: Mapping[str, Any], limits: EventLimits) -> EncodedEvent:
    """Return *event* as JSON with *state_delta* as its change of state; *event* stays as it is.

    The whole event is kept, so a field that a newer ADK adds is kept too. The text is read back before
    it is returned: what could be written but never read (nesting of 200 levels, a timestamp that is no
    number) would lock the session for good.

    Args:
        event: The event.
        state_delta: Its change of state, JSON values only.
        limits: Sizes of payloads.

    Raises:
        InvalidInputError: the event is no JSON that ADK can read, or over the limit of a payload.
    """
    content, taken = without_bytes(event.content, over=limits.inline_bytes)
    for data in taken.values():
        _require_size(event, len(data), limits)
    payloads = {place: Payload.of(data, place=limits.place) for place, data in taken.items()}
    actions = event.actions.model_copy(update={"state_delta": dict(state_delta)})
    try:
        text = event.model_copy(update={"actions": actions, "content": content}).model_dump_json(
            exclude_none=True
        )
    except PydanticSerializationError as exc:
        raise InvalidInputError(f"event {event.id!r} cannot be written as JSON; see the cause") from exc
    text = referring(text, {place: payload.ref for place, payload in payloads.items()})
    try:
        read = Event.model_validate_json(text)
    except ValidationError as exc:
        # From None: pydantic's error quotes what the event holds.
        raise InvalidInputError(
            f"event {event.id!r} cannot be read back from JSON at: {_places(exc)}; "
            "is it nested 200 levels deep, or a number not finite?"
        ) from None
    put_bytes(read.content, taken)
    whole = text.encode()
    if len(whole) <= limits.text_bytes:
        return EncodedEvent(text=text, payloads=list(payloads.values()), event=read)
    _require_size(event, len(whole), limits)
    packed = Payload.of(zlib.compress(whole), place=limits.place)
    stub = json.dumps({"id": event.id, "author": event.author, "timestamp": event.timestamp})
    return EncodedEvent(
        text=referring(stub, {WHOLE: packed.ref}), payloads=[*payloads.values(), packed], event=read
    )


def decode_event(text: str) -> StoredEvent:
    """Return the event that *text* holds, and what it refers to.

    Keys that the installed ADK forbids are left out, with a warning that names them: a newer one wrote
    them, as happens while a deployment rolls out, and the rest of the event stays readable.

    Raises:
        StoredDataError: *text* is no event to the installed ADK.
    """
    try:
        event = Event.model_validate_json(text)
    except ValidationError as exc:
        pruned = _without_forbidden(text, exc)
        if pruned is None:
            # From None: pydantic's error quotes what the event holds.
            raise StoredDataError(
                f"a stored event does not fit the installed google-adk at: {_places(exc)}"
            ) from None
        logger.warning(
            "a newer google-adk wrote an event; left out: %s", _places(exc), extra=telemetry.log_fields()
        )
        event = Event.model_validate(pruned)
    if "timestamp" not in event.model_fields_set or not math.isfinite(event.timestamp):
        # ADK would give it the time of its reading.
        raise StoredDataError("a stored event has no timestamp")
    return StoredEvent(event=event, missing=references(text))


def complete_event(stored: StoredEvent, found: Mapping[PayloadRef, bytes]) -> StoredEvent:
    """Return *stored* with its payloads in their places; those not *found* are named there by a text.

    An event that was a payload as a whole may refer to further ones: they are missing from the result.

    Raises:
        StoredDataError: a payload is no event, or fits no place of it.
    """
    event = stored.event
    whole = stored.missing.get(WHOLE)
    if whole is None:
        put_bytes(event.content, {place: found[ref] for place, ref in stored.missing.items() if ref in found})
        lost = [(place, ref) for place, ref in stored.missing.items() if ref not in found]
        put_placeholders(event.content, lost)
        return StoredEvent(event=event, missing={})
    if whole not in found:
        role = "user" if event.author == "user" else "model"
        event.content = types.Content(role=role, parts=[types.Part(text=placeholder(whole))])
        return StoredEvent(event=event, missing={})
    completed = decode_event(unpack_text(whole, found[whole]))
    if WHOLE in completed.missing:
        raise StoredDataError(f"payload {whole} is an event that is a payload again")
    return completed


def unpack_text(ref: PayloadRef, data: bytes) -> str:
    """Return the text of an event that was a payload as a whole.

    Raises:
        StoredDataError: *data* is damaged.
    """
    try:
        return unpack(data, limit=MAX_PAYLOAD_BYTES).decode()
    except ValueError as exc:
        raise StoredDataError(f"payload {ref} is no event") from exc


def event_timestamp(text: str) -> float:
    """Return the timestamp of the event that *text* holds, without reading the rest of it.

    Raises:
        StoredDataError: *text* has none.
    """
    try:
        timestamp = float(json.loads(text)["timestamp"])
    except (TypeError, ValueError, KeyError, OverflowError, RecursionError) as exc:
        raise StoredDataError(f"a stored event of {len(text)} characters has no timestamp") from exc
    if not math.isfinite(timestamp):
        raise StoredDataError(f"a stored event of {len(text)} characters has no finite timestamp")
    return timestamp


def _require_size(event: Event, size: int, limits: EventLimits) -> None:
    if size > min(limits.payload_bytes, MAX_PAYLOAD_BYTES):
        raise InvalidInputError(
            f"event {event.id!r} holds {size} bytes in one piece, SessionLimits.max_payload_bytes is "
            f"{limits.payload_bytes}; raise it (to 1 GiB at most), or keep what is larger as an artifact"
        )


def _without_forbidden(text: str, error: ValidationError) -> Any | None:
    """Return the event's JSON without the keys that *error* forbids; ``None`` if that is not all it says."""
    try:
        data = json.loads(text)
        for problem in error.errors(include_input=False):
            if problem["type"] != "extra_forbidden":
                return None
            *path, key = problem["loc"]
            holder = data
            for step in path:
                holder = holder[step]
            del holder[key]
        Event.model_validate(data)
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return None
    return data


def _places(error: ValidationError) -> str:
    places = {".".join(map(str, problem["loc"])) for problem in error.errors(include_input=False)}
    return ", ".join(sorted(places))[:200]
