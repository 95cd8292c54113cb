"""Spell events as JSON texts and pack runs of them into segments."""

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from google.adk.events import Event
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from gcp_adk_store.errors import InvalidInputError, StoredDataError


def encode_event(event: Event, *, state_delta: Mapping[str, Any], max_bytes: int) -> str:
    """Return *event* as JSON text with *state_delta* as its change of state; *event* stays as it is.

    The whole event is kept, so a field that a newer ADK adds is kept too.

    Raises:
        InvalidInputError: the event is no JSON, or over *max_bytes* of UTF-8.
    """
    actions = event.actions.model_copy(update={"state_delta": dict(state_delta)})
    try:
        text = event.model_copy(update={"actions": actions}).model_dump_json(exclude_none=True)
    except PydanticSerializationError as exc:
        raise InvalidInputError(f"event {event.id!r} cannot be written as JSON; see the cause") from exc
    size = len(text.encode())
    if size > max_bytes:
        raise InvalidInputError(
            f"event {event.id!r} takes {size} bytes as JSON, the limit is {max_bytes}; "
            "keep large payloads as artifacts (SaveFilesAsArtifactsPlugin does it for uploads)"
        )
    return text


def decode_event(text: str) -> Event:
    """Return the event that *text* holds.

    Raises:
        StoredDataError: *text* is no event to the installed ADK.
    """
    try:
        return Event.model_validate_json(text)
    except ValidationError as exc:
        places = sorted({".".join(map(str, error["loc"])) for error in exc.errors(include_input=False)})
        raise StoredDataError(
            f"a stored event does not fit the installed google-adk at: {', '.join(places)[:200]}; "
            "a newer google-adk may have written it"
        ) from exc


def pack_segment(texts: Sequence[str]) -> bytes:
    """Return JSON texts of events as the compressed body of a segment."""
    return zlib.compress(json.dumps(list(texts), ensure_ascii=False, separators=(",", ":")).encode())


def unpack_segment(body: bytes) -> list[str]:
    """Return the texts that :func:`pack_segment` packed.

    Raises:
        StoredDataError: *body* is damaged.
    """
    try:
        texts: list[str] = json.loads(zlib.decompress(body))
    except (zlib.error, ValueError) as exc:
        raise StoredDataError(f"the body of a segment ({len(body)} bytes) is damaged") from exc
    return texts
