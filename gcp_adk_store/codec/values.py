"""Encode state values as Firestore fields, and decode them with their exact types.

Encoding raises ``InvalidInputError`` for a value that JSON cannot hold, decoding ``StoredDataError`` for an
unknown form. *what* names the value in these errors.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from gcp_adk_store.codec.names import escape_name, unescape_name
from gcp_adk_store.codec.spilling import decode_ref, encode_ref
from gcp_adk_store.codec.texts import from_json, to_json_bytes
from gcp_adk_store.errors import InvalidInputError, StoredDataError
from gcp_adk_store.model.json_values import is_unicode, not_json
from gcp_adk_store.model.payloads import PayloadRef

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
    :func:`~gcp_adk_store.codec.spilling.spill_state` makes payloads of such values.
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
