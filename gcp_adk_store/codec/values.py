"""Encode state values as Firestore fields, decode them with their exact types, and spill large ones.

Encoding raises ``InvalidInputError`` for a value that JSON cannot hold, decoding ``StoredDataError`` for an
unknown form. *what* names the value in these errors. A large value becomes a payload; its reference stays.
"""

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from gcp_adk_store.codec.names import escape_name, unescape_name
from gcp_adk_store.codec.packing import unpack
from gcp_adk_store.codec.texts import from_json, to_json_bytes
from gcp_adk_store.errors import InvalidInputError, StoredDataError
from gcp_adk_store.model.json_values import not_json
from gcp_adk_store.model.keys import is_unicode
from gcp_adk_store.model.payloads import MAX_PAYLOAD_BYTES, Payload, PayloadPlace, PayloadRef
from gcp_adk_store.model.state import ScopedState
from gcp_adk_store.settings import SessionLimits

FieldValue = None | bool | int | float | str | bytes | datetime | list[Any] | dict[str, Any]
"""The value of a document's field; lists and maps hold such values. A state value is never a time, which JSON
lacks."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """A field, or a part of one, of a kind that this library never writes."""

    kind: str
    """Firestore's name, such as ``geo_point_value`` or ``reference_value``; or what cannot be decrypted."""
    error: type[StoredDataError] = StoredDataError
    """What a reader that needs the field raises."""


_JSON: Final = "json"
_PAYLOAD: Final = "payload"
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
            return {_PAYLOAD: encode_ref(value)}
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
    return {_JSON: text.decode()}


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
    if isinstance(ref := form.get(_PAYLOAD), dict):
        return decode_ref(ref, what=what)
    if not isinstance(text := form.get(_JSON), str):
        raise error_of(field)(f"{what} is stored in a form unknown to this release: {kind_of_content(field)}")
    try:
        return from_json(text)
    except (ValueError, RecursionError) as exc:
        raise StoredDataError(f"{what} is stored as damaged JSON") from exc


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


CHUNK_BYTES: Final = 900 * 1024
"""Bytes of one chunk: with its name and fields, the document stays below Firestore's 1 MiB."""

MAX_DOCUMENT_BYTES: Final = 1024 * 1024
"""Firestore's limit on a document (its quota page)."""

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_PLACES: Final = tuple(place.value for place in PayloadPlace)


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


def unpack_value(ref: PayloadRef, data: bytes) -> Any:
    """Return the state value that :func:`spill_state` packed.

    Raises:
        StoredDataError: *data* is damaged.
    """
    try:
        return from_json(unpack(data, limit=MAX_PAYLOAD_BYTES).decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as exc:
        raise StoredDataError(f"payload {ref} is not a state value") from exc
