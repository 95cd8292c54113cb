"""Encode events as JSON and state as Firestore fields, and take large content out of both.

Encoding raises ``InvalidInputError`` for what JSON cannot hold; *what* names a value in errors.

The text of an event with payloads has one key more, ``adk_store_payloads``: a list of places, digests and
sizes. The text of an event with encoded lone surrogates (:mod:`gcp_adk_store.model.json_values`) has
``adk_store_halves``, which is true. ADK's ``Event`` ignores keys that it does not know.

Large content of an event becomes payloads: first its inline bytes, then the whole compressed text if it is
still too long. So does a large value of state; its reference stays. What decoding needs, too, such as
:func:`decode_ref`, is here.
"""

import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from google.adk.events import Event
from google.genai import types
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from gcp_adk_store.codec.names import escape_name
from gcp_adk_store.codec.texts import LargeMaps, to_json_bytes
from gcp_adk_store.codec.validator import NULL_OF_A_PART, stored_event_validator
from gcp_adk_store.errors import InvalidInputError, StoredDataError, shown
from gcp_adk_store.model.json_values import (
    Bounds,
    decode_surrogates,
    encode_surrogates,
    map_texts,
    not_json,
    weigh,
)
from gcp_adk_store.model.keys import is_unicode
from gcp_adk_store.model.payloads import MAX_PAYLOAD_BYTES, Payload, PayloadPlace, PayloadRef
from gcp_adk_store.model.state import ScopedState, is_light
from gcp_adk_store.settings import SessionLimits

Place = tuple[int, ...]
"""The place of bytes in an event: the number of the content's part, and the number of a part within its
function response."""

WHOLE: Final[Place] = ()
"""The place that stands for the whole event."""

PAYLOADS_KEY: Final = "adk_store_payloads"
SURROGATES_KEY: Final = "adk_store_halves"
"""Keys of an event's text that ADK does not know."""


def without_bytes(
    content: types.Content | None, *, over: int
) -> tuple[types.Content | None, dict[Place, bytes]]:
    """Return a copy of *content* without inline data of more than *over* bytes, and that data."""
    taken = {place: blob.data for place, blob in blobs_of(content) if blob.data and len(blob.data) > over}
    if content is None or not taken:
        return content, {}
    emptied = content.model_copy(update={"parts": [_with_own_blobs(part) for part in parts_of(content)]})
    for place, blob in blobs_of(emptied):
        if place in taken:
            blob.data = None
    return emptied, taken


def put_bytes(content: types.Content | None, data: Mapping[Place, bytes]) -> None:
    """Put *data* back into *content*."""
    blobs = dict(blobs_of(content))
    for place, value in data.items():
        if place not in blobs:
            raise no_place(len(value))
        blobs[place].data = value


def referring(text: str, refs: Mapping[Place, PayloadRef], *, key: str = PAYLOADS_KEY) -> str:
    """Return the JSON object *text* with *refs* as one more *key*."""
    if not refs:
        return text
    named = [{"at": place, **encode_ref(ref)} for place, ref in refs.items()]
    return f"{text[:-1]},{json.dumps(key)}:{json.dumps(named, separators=(',', ':'))}}}"


def with_surrogates(text: str) -> str:
    """Return the JSON object *text*, whose lone surrogates are encoded, with the key that marks it."""
    return f"{text[:-1]},{json.dumps(SURROGATES_KEY)}:true}}"


def no_place(size: int) -> StoredDataError:
    """Return the error for a payload of *size* bytes whose place content lacks."""
    return StoredDataError(f"a payload of {size} bytes has no place in its event")


def parts_of(content: types.Content | None) -> list[types.Part]:
    """Return the parts of *content*."""
    return (content.parts if content else None) or []


def blobs_of(
    content: types.Content | None,
) -> Iterator[tuple[Place, types.Blob | types.FunctionResponseBlob]]:
    """Yield the inline data in *content*, each behind its place."""
    for number, part in enumerate(parts_of(content)):
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
        _, surrogates = weigh(slim, bounds=bounds_of(limits), what=f"event {shown(event.id)}")
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
        raise InvalidInputError(f"event {shown(event.id)} cannot be written as JSON; see the cause") from exc


def _read_back(event: Event, text: str) -> Event:
    try:
        return parse_event(text)
    except UNREADABLE as exc:
        # From None: pydantic's error quotes the event's content.
        raise InvalidInputError(
            f"event {shown(event.id)} cannot be read back from JSON at: {invalid_places(exc)}; "
            "is a number not finite?"
        ) from None


UNREADABLE: Final = (ValidationError, AttributeError)
"""What ADK's models raise for data that they cannot read. Enumerations of google-genai raise the second error
for a value that is not text."""


def parse_event(text: str) -> Event:
    """Return the event that *text* holds, as ``Event.model_validate_json`` returns it.

    Raises:
        ValidationError: the installed ADK cannot read it.
        AttributeError: a value of an enumeration is not text.
    """
    validator = stored_event_validator()
    if validator is not None and not ("null" in text and NULL_OF_A_PART.search(text)):
        with suppress(*UNREADABLE):  # ADK reads it, or has the error
            event: Event = validator.validate_json(text)
            return event
    return Event.model_validate_json(text)


def _require_size(event: Event, size: int, limits: SessionLimits) -> None:
    if size > bounds_of(limits).size:
        raise InvalidInputError(
            f"event {shown(event.id)} holds {size} bytes in one piece, SessionLimits.max_payload_bytes is "
            f"{limits.max_payload_bytes}; raise it (to 1 GiB at most), or keep what is larger as an artifact"
        )


def invalid_places(error: ValidationError | AttributeError) -> str:
    """Return the fields that *error*, one of ``UNREADABLE``, names, without their values."""
    if isinstance(error, AttributeError):
        return "an enumeration whose value is not text"
    places = {".".join(map(str, problem["loc"])) for problem in error.errors(include_input=False)}
    return ", ".join(sorted(places))[:200]


FieldValue = None | bool | int | float | str | bytes | datetime | list[Any] | dict[str, Any]
"""The value of a document's field; lists and maps hold such values. A state value is never a time, which JSON
lacks."""

JSON: Final = "json"
PAYLOAD: Final = "payload"
"""The one key of a map that stands for a value: its JSON text, or the reference of its payload."""

_INT64: Final = range(-(2**63), 2**63)


def encode_value(value: Any, *, what: str) -> FieldValue:
    """Return *value* as a field: text, numbers, booleans and ``None`` natively, the rest as JSON.

    A :class:`PayloadRef` stands for a spilled value.

    JSON text keeps what Firestore cannot: lists in lists, depth, integers beyond 64 bits, map keys
    that are empty or reserved, lone surrogates. It cannot keep two adjacent lone surrogates:
    :func:`spill_state` makes payloads of such values.
    """
    match value:
        case PayloadRef():
            return {PAYLOAD: encode_ref(value)}
        case None | bool() | float():
            return value
        case int() if value in _INT64:
            return value
        case str() if is_unicode(value):
            return value
    try:
        text, is_text = to_json_bytes(value, light=True)  # larger values are payloads
    except (TypeError, ValueError, RecursionError) as exc:
        raise not_json(value, what=what) from exc
    if not is_text:
        raise InvalidInputError(f"{what} holds lone surrogates side by side; make it a payload")
    return {JSON: text.decode()}


def encode_state(state: Mapping[Any, Any]) -> dict[str, FieldValue]:
    """Return a scope's state, or its state delta, as the map field ``state``.

    Raises:
        InvalidInputError: also for a key that exceeds the limit of a field name, or is not text.
    """
    fields = {}
    for key, value in state.items():
        if not isinstance(key, str):
            kind = type(key).__name__
            raise InvalidInputError(f"a state key must be text, not {kind} {ascii(key)[:40]}")
        name = escape_name(key, what=f"state key {key[:40]!r}")
        fields[name] = encode_value(value, what=f"state key {key!r}")
    return fields


CHUNK_BYTES: Final = 900 * 1024
"""Bytes of one chunk: with its name and fields, the document stays below Firestore's 1 MiB."""

MAX_DOCUMENT_BYTES: Final = 1024 * 1024
"""Firestore's limit on a document (its quota page)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spilled:
    """State, or a state delta, after its large values were spilled."""

    state: ScopedState
    """The state with references in place of large values."""
    whole: ScopedState
    """The state with all values."""
    app: Sequence[Payload] = ()
    user: Sequence[Payload] = ()
    session: Sequence[Payload] = ()
    """Payloads by their scope."""

    @property
    def has_payloads(self) -> bool:
        """Whether payloads are to be written."""
        return bool(self.app or self.user or self.session)


def encode_ref(ref: PayloadRef) -> dict[str, Any]:
    """Return *ref* as JSON."""
    return {"sha256": ref.sha256, "size": ref.size, "in": ref.place.value}


def spill_state(
    state: Mapping[str, Any],
    *,
    over: int,
    limit: int,
    place: PayloadPlace,
    what: str = "state",
    light: bool = False,
) -> tuple[dict[str, Any], list[Payload]]:
    """Return *state* with references in place of its large values, and the payloads of those.

    Args:
        state: JSON values.
        over: A value over this size as JSON becomes a compressed payload; so does a value with two adjacent
            lone surrogates, which JSON text cannot hold.
        limit: The largest value.
        place: The place of the payloads.
        what: Names the state in errors.
        light: Whether the state is known to be light, so that one call encodes each value.

    Raises:
        InvalidInputError: a value exceeds *limit* or is not JSON, or the remaining state alone exceeds
            Firestore's limit on a document.
    """
    kept: dict[str, Any] = {}
    payloads = []
    size = 0
    for key, value in state.items():
        kept[key] = value
        size += len(key) + 1
        if not isinstance(value, (str, list, dict)):
            continue
        try:
            text, is_text = to_json_bytes(value, light=light)
        except (TypeError, ValueError, RecursionError) as exc:
            raise not_json(value, what=f"state key {key!r}") from exc
        if len(text) > min(limit, MAX_PAYLOAD_BYTES):
            raise InvalidInputError(
                f"state key {key!r} takes {len(text)} bytes as JSON, the limit is {limit}: raise "
                "SessionLimits.max_payload_bytes (to 1 GiB at most), or keep what is larger as an artifact"
            )
        if len(text) > over or not is_text:
            payload = Payload.of(zlib.compress(text), place=place)
            kept[key] = payload.ref
            payloads.append(payload)
        else:
            size += len(value) if isinstance(value, str) else len(text)
    if size > MAX_DOCUMENT_BYTES:
        raise InvalidInputError(
            f"{what} takes at least {size} bytes in its document, beside the values that lie elsewhere; "
            f"Firestore's limit is {MAX_DOCUMENT_BYTES}: put many small values into one, or keep fewer"
        )
    return kept, payloads


def spill_scopes(
    state: ScopedState, *, limits: SessionLimits, place: PayloadPlace, light: bool = False
) -> Spilled:
    """Return *state* of all scopes, each after :func:`spill_state`."""
    over, limit = limits.state_value_bytes, limits.max_payload_bytes
    spill = partial(spill_state, over=over, limit=limit, place=place, light=light)
    app, of_app = spill(state.app, what="app state")
    user, of_user = spill(state.user, what="user state")
    session, of_session = spill(state.session, what="session state")
    kept = ScopedState(app=app, user=user, session=session)
    return Spilled(state=kept, whole=state, app=of_app, user=of_user, session=of_session)


_DIGEST: Final = re.compile(r"[0-9a-f]{64}")

_PLACES: Final = tuple(place.value for place in PayloadPlace)


def decode_ref(entry: Mapping[str, Any], *, what: str) -> PayloadRef:
    """Return the reference that :func:`encode_ref` encoded.

    Raises:
        StoredDataError: its form is unknown. *what* names the referring item.
    """
    digest: Any = entry.get("sha256")
    size: Any = entry.get("size")
    place: Any = entry.get("in")
    named = isinstance(digest, str) and _DIGEST.fullmatch(digest)
    sized = type(size) is int and 0 <= size <= MAX_PAYLOAD_BYTES
    if not named or not sized or place not in _PLACES:
        raise StoredDataError(f"{what} refers to a payload in a form unknown to this release")
    return PayloadRef(sha256=digest, size=size, place=PayloadPlace(place))
