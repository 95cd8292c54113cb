"""Encode events, and take large content out of them.

The text of an event with payloads has one key more, ``adk_store_payloads``: a list of places, digests and
sizes. The text of an event with encoded lone surrogates (:mod:`gcp_adk_store.model.json_values`) has
``adk_store_halves``, which is true. ADK's ``Event`` ignores keys that it does not know. ``StoredDataError``
says that content lacks the place of a payload, or that a reference has an unknown form.

Large content of an event becomes payloads: first its inline bytes, then the whole compressed text if it is
still too long.
"""

import json
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from typing import Any, Final, NamedTuple

from google.adk.events import Event
from google.genai import types
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from gcp_adk_store.codec.markers import require_marker
from gcp_adk_store.codec.packing import unpack
from gcp_adk_store.codec.texts import LargeMaps
from gcp_adk_store.codec.values import decode_ref, encode_ref
from gcp_adk_store.errors import InvalidInputError, StoredDataError
from gcp_adk_store.model.appends import replaced_by
from gcp_adk_store.model.internal_metadata import restored_event
from gcp_adk_store.model.json_values import Bounds, decode_surrogates, encode_surrogates, map_texts, weigh
from gcp_adk_store.model.payloads import MAX_PAYLOAD_BYTES, Payload, PayloadPlace, PayloadRef
from gcp_adk_store.model.state import is_light
from gcp_adk_store.settings import SessionLimits

Place = tuple[int, ...]
"""The place of bytes in an event: the number of the content's part, and the number of a part within its
function response."""

WHOLE: Final[Place] = ()
"""The place that stands for the whole event."""

_OWN: Final = "adk_store_"
"""Each key that the store adds to the JSON of an event begins so."""
_KEY: Final = "adk_store_payloads"
_LONE_SURROGATES: Final = "adk_store_halves"


def without_bytes(
    content: types.Content | None, *, over: int
) -> tuple[types.Content | None, dict[Place, bytes]]:
    """Return a copy of *content* without inline data of more than *over* bytes, and that data."""
    taken = {place: blob.data for place, blob in _blobs(content) if blob.data and len(blob.data) > over}
    if content is None or not taken:
        return content, {}
    emptied = content.model_copy(update={"parts": [_with_own_blobs(part) for part in _parts(content)]})
    for place, blob in _blobs(emptied):
        if place in taken:
            blob.data = None
    return emptied, taken


def put_bytes(content: types.Content | None, data: Mapping[Place, bytes]) -> None:
    """Put *data* back into *content*."""
    blobs = dict(_blobs(content))
    for place, value in data.items():
        if place not in blobs:
            raise _no_place(len(value))
        blobs[place].data = value


def put_placeholders(content: types.Content | None, refs: Iterable[tuple[Place, PayloadRef]]) -> None:
    """Put a text that names each missing payload into its place in *content*."""
    parts = _parts(content)
    places = dict(_blobs(content))
    for place, ref in refs:
        if place not in places:
            raise _no_place(ref.size)
        part = parts[place[0]]
        if len(place) == 1:
            parts[place[0]] = types.Part(text=placeholder(ref))
        elif part.function_response is not None and part.function_response.parts:
            # A part of a function response cannot hold text.
            note = types.FunctionResponseBlob(mime_type="text/plain", data=placeholder(ref).encode())
            part.function_response.parts[place[1]] = types.FunctionResponsePart(inline_data=note)


def placeholder(ref: PayloadRef) -> str:
    """Return the text that stands for a missing payload."""
    return f"[content of {ref.size} bytes is missing: sha256:{ref.sha256}]"


def referring(text: str, refs: Mapping[Place, PayloadRef], *, key: str = _KEY) -> str:
    """Return the JSON object *text* with *refs* as one more *key*."""
    if not refs:
        return text
    named = [{"at": place, **encode_ref(ref)} for place, ref in refs.items()]
    return f"{text[:-1]},{json.dumps(key)}:{json.dumps(named, separators=(',', ':'))}}}"


def references(text: str) -> dict[Place, PayloadRef]:
    """Return the references that :func:`referring` added to *text*."""
    if _KEY not in text:  # avoids a second parse of an ordinary event
        return {}
    what = f"an event of {len(text)} characters"
    try:
        return {_place(entry["at"]): decode_ref(entry, what=what) for entry in json.loads(text).get(_KEY, [])}
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as exc:
        raise StoredDataError(f"{what} names payloads in an unknown way") from exc


def unreferring(text: str) -> str:
    """Return the JSON object *text* without the references that :func:`referring` added."""
    return json.dumps({key: value for key, value in json.loads(text).items() if key != _KEY})


def with_surrogates(text: str) -> str:
    """Return the JSON object *text*, whose lone surrogates are encoded, with the key that marks it."""
    return f"{text[:-1]},{json.dumps(_LONE_SURROGATES)}:true}}"


def encodes_surrogates(text: str) -> bool:
    """Return whether *text* comes from :func:`with_surrogates`; an event's own words may contain the key."""
    return _LONE_SURROGATES in text and json.loads(text).get(_LONE_SURROGATES) is True


def _place(numbers: list[Any]) -> Place:
    if any(type(number) is not int for number in numbers):
        raise TypeError
    return tuple(numbers)


def _no_place(size: int) -> StoredDataError:
    return StoredDataError(f"a payload of {size} bytes has no place in its event")


def _parts(content: types.Content | None) -> list[types.Part]:
    return (content.parts if content else None) or []


def _blobs(content: types.Content | None) -> Iterator[tuple[Place, types.Blob | types.FunctionResponseBlob]]:
    for number, part in enumerate(_parts(content)):
        if part.inline_data is not None:
            yield (number,), part.inline_data
        response = part.function_response
        for inner, answer in enumerate((response.parts if response else None) or []):
            if answer.inline_data is not None:
                yield (number, inner), answer.inline_data


def _with_own_blobs(part: types.Part) -> types.Part:
    """Return a copy of *part* whose inline data can be changed; *part* stays as it is."""
    update: dict[str, Any] = {"inline_data": part.inline_data and part.inline_data.model_copy()}
    response = part.function_response
    if response is not None and response.parts:
        answers = [
            answer.model_copy(update={"inline_data": answer.inline_data and answer.inline_data.model_copy()})
            for answer in response.parts
        ]
        update["function_response"] = response.model_copy(update={"parts": answers})
    return part.model_copy(update=update)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedEvent:
    """The stored form of an event."""

    text: str
    payloads: Sequence[Payload]
    """The payloads that *text* refers to."""
    event: Event
    """The event as a reader gets it, payloads included: tuples become lists, datetimes become text."""
    is_payload: bool = False
    """Whether the event is a payload as a whole."""


class StoredEvent(NamedTuple):
    """An event from storage, without its payloads; a read makes thousands."""

    event: Event
    missing: Mapping[Place, PayloadRef]
    left_out: str = ""
    """The keys that a newer ADK wrote and that the installed one forbids, for a warning."""
    is_lost: bool = False
    """Whether it was a payload as a whole, and that is gone: what it changed is not known."""

    @property
    def timestamp(self) -> float:
        """The event's own, Unix time in seconds."""
        return self.event.timestamp


def bounds_of(limits: SessionLimits) -> Bounds:
    """Return the limits of the JSON of one event or one state delta."""
    return Bounds(values=limits.max_values, size=min(limits.max_payload_bytes, MAX_PAYLOAD_BYTES))


def encode_event(
    event: Event,
    *,
    state_delta: Mapping[str, Any],
    limits: SessionLimits,
    place: PayloadPlace,
    light: bool = False,
) -> EncodedEvent:
    """Return *event* as JSON with *state_delta*, which holds JSON values only; *event* stays as it is.

    Its payloads are for *place*. The text holds the whole event, also fields that a newer ADK adds. The
    function parses the text before it returns: an unreadable event, such as one with a text as its timestamp,
    would block the session forever. A *light* event, with its state delta, is within all limits.

    Raises:
        InvalidInputError: ADK cannot read the event's JSON, or the event holds more values than *limits*
            allow, contains itself, nests more than 200 levels deep, or exceeds the limit of a payload.
    """
    content, taken = without_bytes(event.content, over=limits.inline_bytes)
    for data in taken.values():
        _require_size(event, len(data), limits)
    actions = event.actions.model_copy(update={"state_delta": dict(state_delta)})
    slim = event.model_copy(update={"actions": actions, "content": content})
    surrogates = False
    if light or is_light(slim):
        text = _dump(slim)
        read = _read_back(slim, text)
    else:
        _, surrogates = weigh(slim, bounds=bounds_of(limits), what=f"event {event.id!r}")
        text, read = _encode(slim, surrogates=surrogates)
    payloads = [Payload.of(data, place=place) for data in taken.values()]
    text = referring(text, {place: payload.ref for place, payload in zip(taken, payloads, strict=True)})
    put_bytes(read.content, taken)
    whole = text.encode()
    if len(whole) <= limits.event_text_bytes:
        return EncodedEvent(text=text, payloads=payloads, event=read)
    _require_size(event, len(whole), limits)
    packed = Payload.of(zlib.compress(whole), place=place)
    encoded = encode_surrogates if surrogates else str
    held = {"id": encoded(event.id), "author": encoded(event.author), "timestamp": event.timestamp}
    stub = json.dumps(held)
    text = referring(with_surrogates(stub) if surrogates else stub, {WHOLE: packed.ref})
    return EncodedEvent(text=text, payloads=[*payloads, packed], event=read, is_payload=True)


def decode_event(text: str) -> StoredEvent:
    """Return the event that *text* holds, and its references.

    Keys that the installed ADK forbids are left out, and named. A newer ADK writes such keys, for example
    during a rollout, and the rest of the event stays readable. The marker of a redacted tool call is read as
    a restored event: ADK does not run the call.

    Raises:
        StoredDataError: the installed ADK cannot read *text* as an event, or *text* ends as the marker of a
            redaction and contains more than a marker may.
    """
    has_own_keys = _OWN in text
    if has_own_keys:
        require_marker(text)
    large = LargeMaps()
    text = large.take_from_json(text)
    left_out = ""
    try:
        event = Event.model_validate_json(text)
    except ValidationError as exc:
        left_out = invalid_places(exc)
        pruned = _without_forbidden(text, exc)
        if pruned is None:
            # From None: pydantic's error quotes the event's content.
            raise StoredDataError(
                f"a stored event does not fit the installed google-adk at: {left_out}"
            ) from None
        event = pruned
    if "timestamp" not in event.model_fields_set or not math.isfinite(event.timestamp):
        # ADK would set the time of the read.
        raise StoredDataError("a stored event has no timestamp")
    event = large.put_into(event)
    if not has_own_keys:
        return StoredEvent(event, {}, left_out)
    if encodes_surrogates(text):
        event = map_texts(event, decode_surrogates)
    if replaced_by(text) is not None and event.get_function_calls():
        # The arguments that ADK's ToolCallIntegrityPlugin stamped are gone, and the stamps with them.
        event = restored_event(event)
    return StoredEvent(event=event, missing=references(text), left_out=left_out)


def complete_event(stored: StoredEvent, found: Mapping[PayloadRef, bytes]) -> StoredEvent:
    """Return *stored* with its payloads in their places; a text stands for each payload not in *found*.

    An event that is one whole payload may refer to further payloads; the result lacks those.

    Raises:
        StoredDataError: a payload is not an event, or its place is missing.
    """
    event = stored.event
    whole = stored.missing.get(WHOLE)
    if whole is None:
        put_bytes(event.content, {place: found[ref] for place, ref in stored.missing.items() if ref in found})
        lost = [(place, ref) for place, ref in stored.missing.items() if ref not in found]
        put_placeholders(event.content, lost)
    elif whole in found:
        completed = decode_event(unpack_text(whole, found[whole]))
        if WHOLE in completed.missing:
            raise StoredDataError(
                f"payload {whole} is an event that refers to another payload; run gcp-adk-store fsck"
            )
        return completed
    else:
        role = "user" if event.author == "user" else "model"
        event.content = types.Content(role=role, parts=[types.Part(text=placeholder(whole))])
        return StoredEvent(event=event, missing={}, is_lost=True)
    return StoredEvent(event=event, missing={})


def unpack_text(ref: PayloadRef, data: bytes) -> str:
    """Return the text of an event that is one whole payload; damaged *data* is a StoredDataError."""
    try:
        return unpack(data, limit=MAX_PAYLOAD_BYTES).decode()
    except ValueError as exc:
        raise StoredDataError(f"payload {ref} is not an event") from exc


def event_timestamp(text: str) -> float:
    """Return the timestamp of the event in *text*; without a finite one, it is a StoredDataError."""
    try:
        timestamp = float(json.loads(text)["timestamp"])
        if math.isfinite(timestamp):
            return timestamp
    except (TypeError, ValueError, KeyError, OverflowError, RecursionError):
        pass
    raise StoredDataError(f"a stored event of {len(text)} characters has no finite timestamp")


def _encode(event: Event, *, surrogates: bool) -> tuple[str, Event]:
    """Return an event that is not light as JSON, and as a reader gets it."""
    large = LargeMaps()
    event = large.take_from(map_texts(event, encode_surrogates) if surrogates else event)
    text = _dump(event)
    read = large.put_into(_read_back(event, text))
    text = large.put_into_json(text)
    return (with_surrogates(text), map_texts(read, decode_surrogates)) if surrogates else (text, read)


def _dump(event: Event) -> str:
    try:
        return event.model_dump_json(exclude_none=True)
    except PydanticSerializationError as exc:
        raise InvalidInputError(f"event {event.id!r} cannot be written as JSON; see the cause") from exc


def _read_back(event: Event, text: str) -> Event:
    try:
        return Event.model_validate_json(text)
    except ValidationError as exc:
        # From None: pydantic's error quotes the event's content.
        raise InvalidInputError(
            f"event {event.id!r} cannot be read back from JSON at: {invalid_places(exc)}; "
            "is a number not finite?"
        ) from None


def _require_size(event: Event, size: int, limits: SessionLimits) -> None:
    if size > bounds_of(limits).size:
        raise InvalidInputError(
            f"event {event.id!r} holds {size} bytes in one piece, SessionLimits.max_payload_bytes is "
            f"{limits.max_payload_bytes}; raise it (to 1 GiB at most), or keep what is larger as an artifact"
        )


def _without_forbidden(text: str, error: ValidationError) -> Event | None:
    """Return the event in *text* without the keys that *error* forbids; ``None`` for any other error."""
    try:
        data = json.loads(text)
        for problem in error.errors(include_input=False):
            if problem["type"] != "extra_forbidden":
                return None
            *path, key = problem["loc"]
            del reduce(getitem, path, data)[key]
        return Event.model_validate_json(json.dumps(data))
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return None


def invalid_places(error: ValidationError) -> str:
    """Return the fields that *error* names, without their values."""
    places = {".".join(map(str, problem["loc"])) for problem in error.errors(include_input=False)}
    return ", ".join(sorted(places))[:200]
