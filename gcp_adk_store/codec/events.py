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

from gcp_adk_store.codec.event_payloads import (
    WHOLE,
    Place,
    placeholder,
    put_bytes,
    put_placeholders,
    references,
    referring,
    spells_halves,
    with_halves,
    without_bytes,
)
from gcp_adk_store.codec.large_maps import LargeMaps
from gcp_adk_store.codec.packing import unpack
from gcp_adk_store.errors import InvalidInputError, StoredDataError
from gcp_adk_store.model.halves import map_texts, read_halves, spell_halves
from gcp_adk_store.model.payloads import MAX_PAYLOAD_BYTES, Payload, PayloadPlace, PayloadRef
from gcp_adk_store.model.weights import Bounds, is_light, weigh
from gcp_adk_store.operations import telemetry

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
    values: int = Bounds().values
    """Maps, lists and what they hold in one event."""

    @property
    def bounds(self) -> Bounds:
        """What may be spelled as one event."""
        return Bounds(values=self.values, size=min(self.payload_bytes, MAX_PAYLOAD_BYTES))


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedEvent:
    """An event as it is stored."""

    text: str
    payloads: Sequence[Payload]
    """What *text* refers to."""
    event: Event
    """The event as it will be read, payloads included: tuples are lists, datetimes are text."""
    is_payload: bool = False
    """Whether the event is a payload as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """An event as it was read, still without its payloads."""

    event: Event
    missing: Mapping[Place, PayloadRef]

    @property
    def timestamp(self) -> float:
        """The event's own, Unix time in seconds."""
        return self.event.timestamp


def encode_event(
    event: Event, *, state_delta: Mapping[str, Any], limits: EventLimits, light: bool = False
) -> EncodedEvent:
    """Return *event* as JSON with *state_delta* as its change of state; *event* stays as it is.

    The whole event is kept, so a field that a newer ADK adds is kept too. The text is read back before
    it is returned: what could be written but never read (a timestamp that is no number) would lock the
    session for good.

    Args:
        event: The event.
        state_delta: Its change of state, JSON values only.
        limits: Sizes of payloads.
        light: Whether it is known to be light, as it is with its change of state, and so within all bounds.

    Raises:
        InvalidInputError: the event is no JSON that ADK can read, holds more values than *limits* allow,
            contains itself, nests more than 200 levels deep, or is over the limit of a payload.
    """
    content, taken = without_bytes(event.content, over=limits.inline_bytes)
    for data in taken.values():
        _require_size(event, len(data), limits)
    actions = event.actions.model_copy(update={"state_delta": dict(state_delta)})
    slim = event.model_copy(update={"actions": actions, "content": content})
    halves = False
    if light or is_light(slim):
        text = _dump(slim)
        read = _read_back(slim, text)
    else:
        halves = weigh(slim, bounds=limits.bounds, what=f"event {event.id!r}").halves
        text, read = _spell(slim, halves=halves)
    payloads = {place: Payload.of(data, place=limits.place) for place, data in taken.items()}
    text = referring(text, {place: payload.ref for place, payload in payloads.items()})
    put_bytes(read.content, taken)
    whole = text.encode()
    if len(whole) <= limits.text_bytes:
        return EncodedEvent(text=text, payloads=list(payloads.values()), event=read)
    _require_size(event, len(whole), limits)
    packed = Payload.of(zlib.compress(whole), place=limits.place)
    spelled = spell_halves if halves else str
    stub = json.dumps(
        {"id": spelled(event.id), "author": spelled(event.author), "timestamp": event.timestamp}
    )
    return EncodedEvent(
        text=referring(with_halves(stub) if halves else stub, {WHOLE: packed.ref}),
        payloads=[*payloads.values(), packed],
        event=read,
        is_payload=True,
    )


def decode_event(text: str) -> StoredEvent:
    """Return the event that *text* holds, and what it refers to.

    Keys that the installed ADK forbids are left out, with a warning that names them: a newer one wrote
    them, as happens while a deployment rolls out, and the rest of the event stays readable.

    Raises:
        StoredDataError: *text* is no event to the installed ADK.
    """
    large = LargeMaps()
    text = large.take_from_json(text)
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
        event = Event.model_validate_json(pruned)
    if "timestamp" not in event.model_fields_set or not math.isfinite(event.timestamp):
        # ADK would give it the time of its reading.
        raise StoredDataError("a stored event has no timestamp")
    event = large.put_into(event)
    if spells_halves(text):
        event = map_texts(event, read_halves)
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


def _spell(event: Event, *, halves: bool) -> tuple[str, Event]:
    """Return an event that is not light as JSON, and as that will be read."""
    large = LargeMaps()
    event = large.take_from(map_texts(event, spell_halves) if halves else event)
    text = _dump(event)
    read = large.put_into(_read_back(event, text))
    text = large.put_into_json(text)
    return (with_halves(text), map_texts(read, read_halves)) if halves else (text, read)


def _dump(event: Event) -> str:
    try:
        return event.model_dump_json(exclude_none=True)
    except PydanticSerializationError as exc:
        raise InvalidInputError(f"event {event.id!r} cannot be written as JSON; see the cause") from exc


def _read_back(event: Event, text: str) -> Event:
    try:
        return Event.model_validate_json(text)
    except ValidationError as exc:
        # From None: pydantic's error quotes what the event holds.
        raise InvalidInputError(
            f"event {event.id!r} cannot be read back from JSON at: {_places(exc)}; is a number not finite?"
        ) from None


def _require_size(event: Event, size: int, limits: EventLimits) -> None:
    if size > min(limits.payload_bytes, MAX_PAYLOAD_BYTES):
        raise InvalidInputError(
            f"event {event.id!r} holds {size} bytes in one piece, SessionLimits.max_payload_bytes is "
            f"{limits.payload_bytes}; raise it (to 1 GiB at most), or keep what is larger as an artifact"
        )


def _without_forbidden(text: str, error: ValidationError) -> str | None:
    """Return the event *text* without the keys that *error* forbids; ``None`` if that is not all it says."""
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
        pruned = json.dumps(data)
        Event.model_validate_json(pruned)
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return None
    return pruned


def _places(error: ValidationError) -> str:
    places = {".".join(map(str, problem["loc"])) for problem in error.errors(include_input=False)}
    return ", ".join(sorted(places))[:200]
