"""Decode events and state with their exact types, and put back what was taken out of them.

Decoding raises ``StoredDataError`` for an unknown form, for content that lacks the place of a payload, and
for damaged data; *what* names a value in errors.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from google.adk.events import Event
from google.genai import types
from pydantic import ValidationError

from gcp_adk_store.codec.encode import (
    JSON,
    PAYLOAD,
    PAYLOADS_KEY,
    SURROGATES_KEY,
    UNREADABLE,
    WHOLE,
    FieldValue,
    Place,
    blobs_of,
    decode_ref,
    invalid_places,
    no_place,
    parse_event,
    parts_of,
    put_bytes,
)
from gcp_adk_store.codec.markers import require_marker
from gcp_adk_store.codec.names import unescape_name
from gcp_adk_store.codec.packing import unpack
from gcp_adk_store.codec.texts import LargeMaps, from_json
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.model.appends import replaced_by
from gcp_adk_store.model.internal_metadata import restored_event
from gcp_adk_store.model.json_values import decode_surrogates, map_texts
from gcp_adk_store.model.payloads import MAX_PAYLOAD_BYTES, PayloadRef

_OWN: Final = "adk_store_"
"""Each key that the store adds to the JSON of an event begins so."""


def put_placeholders(content: types.Content | None, refs: Iterable[tuple[Place, PayloadRef]]) -> None:
    """Put a text that names each missing payload into its place in *content*."""
    parts = parts_of(content)
    places = dict(blobs_of(content))
    for place, ref in refs:
        if place not in places:
            raise no_place(ref.size)
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


def references(text: str) -> dict[Place, PayloadRef]:
    """Return the references that :func:`referring` added to *text*."""
    if PAYLOADS_KEY not in text:  # avoids a second parse of an ordinary event
        return {}
    what = f"an event of {len(text)} characters"
    try:
        return {
            _place(entry["at"]): decode_ref(entry, what=what)
            for entry in json.loads(text).get(PAYLOADS_KEY, [])
        }
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as exc:
        raise StoredDataError(f"{what} names payloads in an unknown way") from exc


def unreferring(text: str) -> str:
    """Return the JSON object *text* without the references that :func:`referring` added."""
    return json.dumps({key: value for key, value in json.loads(text).items() if key != PAYLOADS_KEY})


def encodes_surrogates(text: str) -> bool:
    """Return whether *text* comes from :func:`with_surrogates`; an event's own words may contain the key."""
    return SURROGATES_KEY in text and json.loads(text).get(SURROGATES_KEY) is True


def _place(numbers: list[Any]) -> Place:
    if any(type(number) is not int for number in numbers):
        raise TypeError
    return tuple(numbers)


_NONE: Final[Mapping[Place, PayloadRef]] = MappingProxyType({})
"""The payloads of nearly all events: thousands of empty maps would be freed at once."""


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
        event = parse_event(text)
    except UNREADABLE as exc:
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
        return StoredEvent(event, _NONE, left_out)
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


def _without_forbidden(text: str, error: ValidationError | AttributeError) -> Event | None:
    """Return the event in *text* without the keys that *error* forbids; ``None`` for any other error."""
    if isinstance(error, AttributeError):
        return None
    try:
        data = json.loads(text)
        for problem in error.errors(include_input=False):
            if problem["type"] != "extra_forbidden":
                return None
            *path, key = problem["loc"]
            del reduce(getitem, path, data)[key]
        return Event.model_validate_json(json.dumps(data))
    except (*UNREADABLE, ValueError, KeyError, IndexError, TypeError, RecursionError):
        return None


@dataclass(frozen=True, slots=True)
class Foreign:
    """A field, or a part of one, of a kind that this library never writes."""

    kind: str
    """Firestore's name, such as ``geo_point_value`` or ``reference_value``; or what cannot be decrypted."""
    error: type[StoredDataError] = StoredDataError
    """What a reader that needs the field raises."""


def kind_of(field: object) -> str:
    """Return the kind of *field* for an error, without its content."""
    return field.kind if isinstance(field, Foreign) else type(field).__name__


def kind_of_content(field: object) -> str:
    """Return the kind of *field*, of one that an encrypted store encrypts: only there it is bytes."""
    if isinstance(field, bytes):
        return "encrypted, and this store has no key: pass encryption=, or set ADK_STORE_ENCRYPTION_KEY"
    return kind_of(field)


def error_of(field: object) -> type[StoredDataError]:
    """Return the error of a reader that finds *field* where it needs another kind."""
    return field.error if isinstance(field, Foreign) else StoredDataError


def decode_value(field: FieldValue | Foreign, *, what: str) -> Any:
    """Return the value that :func:`encode_value` encoded as *field*; a spilled value as its reference."""
    if field is None or isinstance(field, (bool, int, float, str)):
        return field
    form = dict(field) if isinstance(field, dict) and len(field) == 1 else {}
    if isinstance(ref := form.get(PAYLOAD), dict):
        return decode_ref(ref, what=what)
    if not isinstance(text := form.get(JSON), str):
        raise error_of(field)(f"{what} is stored in a form unknown to this release: {kind_of_content(field)}")
    try:
        return from_json(text)
    except (ValueError, RecursionError) as exc:
        raise StoredDataError(f"{what} is stored as damaged JSON") from exc


def decode_state(fields: Mapping[str, FieldValue | Foreign]) -> dict[str, Any]:
    """Return the state that :func:`encode_state` wrote; a name must be the encoding of a key."""
    state = {}
    for name, field in fields.items():
        try:
            key = unescape_name(name)
        except ValueError:
            # Two names could stand for the same key, and one of the two values would be lost.
            raise StoredDataError(f"state.{name} is not a valid name of a state key") from None
        state[key] = decode_value(field, what=f"state key {key!r}")
    return state


def unpack_value(ref: PayloadRef, data: bytes) -> Any:
    """Return the state value that :func:`spill_state` packed.

    Raises:
        StoredDataError: *data* is damaged.
    """
    try:
        return from_json(unpack(data, limit=MAX_PAYLOAD_BYTES).decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as exc:
        raise StoredDataError(f"payload {ref} is not a state value") from exc
