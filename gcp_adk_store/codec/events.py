"""Spell events as JSON texts and pack runs of them into segments."""

import json
import logging
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from google.adk.events import Event
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from gcp_adk_store.errors import InvalidInputError, StoredDataError

logger = logging.getLogger(__name__)


def encode_event(event: Event, *, state_delta: Mapping[str, Any], max_bytes: int) -> str:
    """Return *event* as JSON text with *state_delta* as its change of state; *event* stays as it is.

    The whole event is kept, so a field that a newer ADK adds is kept too. The text is read back before
    it is returned: what could be written but never read (nesting of 200 levels, a timestamp that is no
    number) would lock the session for good.

    Raises:
        InvalidInputError: the event is no JSON that ADK can read, or over *max_bytes* of UTF-8.
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
    try:
        Event.model_validate_json(text)
    except ValidationError as exc:
        raise InvalidInputError(
            f"event {event.id!r} cannot be read back from JSON at: {_places(exc)}; "
            "is it nested 200 levels deep, or a number not finite?"
        ) from exc
    return text


def decode_event(text: str) -> Event:
    """Return the event that *text* holds.

    Keys that the installed ADK forbids are left out, with a warning that names them: a newer one wrote
    them, as happens while a deployment rolls out, and the rest of the event stays readable.

    Raises:
        StoredDataError: *text* is no event to the installed ADK.
    """
    try:
        return Event.model_validate_json(text)
    except ValidationError as exc:
        pruned = _without_forbidden(text, exc)
        if pruned is None:
            raise StoredDataError(
                f"a stored event does not fit the installed google-adk at: {_places(exc)}"
            ) from exc
        logger.warning("a newer google-adk wrote an event; left out: %s", _places(exc))
    return Event.model_validate(pruned)


def event_timestamp(text: str) -> float:
    """Return the timestamp of the event that *text* holds, without reading the rest of it.

    Raises:
        StoredDataError: *text* has none.
    """
    try:
        return float(json.loads(text)["timestamp"])
    except (TypeError, ValueError, KeyError) as exc:
        raise StoredDataError(f"a stored event of {len(text)} characters has no timestamp") from exc


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
    except (ValueError, KeyError, IndexError, TypeError):
        return None
    return data


def _places(error: ValidationError) -> str:
    places = {".".join(map(str, problem["loc"])) for problem in error.errors(include_input=False)}
    return ", ".join(sorted(places))[:200]


def pack_segment(texts: Sequence[str]) -> bytes:
    """Return JSON texts of events as the compressed body of a segment."""
    return zlib.compress(json.dumps(list(texts), ensure_ascii=False, separators=(",", ":")).encode())


def unpack_segment(body: bytes) -> list[str]:
    """Return the texts that :func:`pack_segment` packed.

    Raises:
        StoredDataError: *body* is damaged.
    """
    try:
        texts = json.loads(zlib.decompress(body))
    except (zlib.error, ValueError) as exc:
        raise StoredDataError(f"the body of a segment ({len(body)} bytes) is damaged") from exc
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise StoredDataError(f"the body of a segment ({len(body)} bytes) is no list of texts")
    return texts
