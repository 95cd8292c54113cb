"""Keep the state that a session is created with: beside its present state, or as a payload if it is large."""

import zlib
from collections.abc import Mapping
from typing import Any, Final

from gcp_adk_store.codec.spilling import encode_ref, unpack_value
from gcp_adk_store.codec.texts import to_json_bytes
from gcp_adk_store.codec.values import FieldValue, decode_state, encode_state
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.model.payloads import Payload, PayloadPlace, PayloadRef

INITIAL_BYTES: Final = 64 * 1024
"""The largest initial state, as JSON, beside the present one, with which it shares a document of 1 MiB."""


def pack_initial(state: Mapping[str, Any], *, place: PayloadPlace, light: bool) -> Payload | None:
    """Return the payload of an initial *state*, ``None`` if its JSON is at most 64 KiB.

    References stand for its large values. One call encodes a *light* state.
    """
    text, _ = to_json_bytes(encode_state(state), light=light)
    return Payload.of(zlib.compress(text), place=place) if len(text) > INITIAL_BYTES else None


def unpack_initial(ref: PayloadRef, data: bytes) -> dict[str, Any]:
    """Return the state that :func:`pack_initial` packed.

    Raises:
        StoredDataError: *data* is damaged.
    """
    fields = unpack_value(ref, data)
    if not isinstance(fields, dict):
        raise StoredDataError(f"payload {ref} is not an initial state")
    return decode_state(fields)


def initial_fields(initial: Mapping[str, Any] | PayloadRef | None) -> dict[str, FieldValue]:
    """Return the field of an initial state, or of the payload that holds it; none if it is unknown."""
    if isinstance(initial, PayloadRef):
        return {"initial_payload": encode_ref(initial)}
    return {} if initial is None else {"initial": encode_state(initial)}
