"""Say what the marker of a redacted event contains: nothing that somebody said.

The check compares parsed JSON and not the bytes of another encoding: releases of ADK dump the same event with
different empty fields.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from google.genai import types

from gcp_adk_store.codec.encode import decode_ref
from gcp_adk_store.errors import InvalidInputError, StoredDataError
from gcp_adk_store.model.appends import REDACTED_KEY, replaced_by
from gcp_adk_store.model.history import require_reason

TEXT: Final = "[this event was redacted]"
"""The text that a reader finds in place of a redacted event's content."""

REMOVED: Final = "adk_store_removed"
"""The key of a marker that names the payloads which the event referred to."""

_ENUM: Final = re.compile(r"[A-Z0-9_]{1,40}")

Fits = Callable[[Any], bool]


def hash_of_marker(text: str) -> str:
    """Return the SHA-256 of the marker *text* itself, in hex digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def require_marker(text: str) -> None:
    """Require that *text* contains what the marker of a redaction may, if it ends as one.

    Raises:
        StoredDataError: it contains anything else, so no redaction wrote it.
    """
    replaced = replaced_by(text)
    if replaced is None:
        return
    try:
        value = json.loads(text, object_pairs_hook=_with_each_key_once)
    except (ValueError, RecursionError):
        value = None
    if not (isinstance(value, dict) and _has(_MARKER, value) and _is_redaction_of(value, replaced.hex())):
        raise StoredDataError(
            f"a marker of {len(text)} characters has content that no redaction writes; see verify"
        )


def _with_each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; a key that comes twice is a ``ValueError``."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _has(shape: Mapping[str, Fits], value: object) -> bool:
    """Return whether *value* is an object whose fields fit *shape*; those that are not in it are empty."""
    return isinstance(value, dict) and all(
        shape[name](each) if name in shape else not each for name, each in value.items()
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_constant(wanted: object) -> Fits:
    return lambda value: type(value) is type(wanted) and value == wanted


def _is_list(of: Fits) -> Fits:
    return lambda value: isinstance(value, list) and all(map(of, value))


def _is_map(of: Fits) -> Fits:
    return lambda value: isinstance(value, dict) and all(map(of, value.values()))


def _is_object(**shape: Fits) -> Fits:
    return lambda value: _has(shape, value)


def _is_usage(value: object) -> bool:
    """Return whether *value* counts tokens: numbers, and names of modalities."""
    if isinstance(value, (dict, list)):
        return all(map(_is_usage, value.values() if isinstance(value, dict) else value))
    return _is_number(value) or (isinstance(value, str) and _ENUM.fullmatch(value) is not None)


def counted(usage: types.GenerateContentResponseUsageMetadata) -> types.GenerateContentResponseUsageMetadata:
    """Return *usage* as a marker keeps it: without parts that have other words, such as a new modality."""
    parts = usage.model_dump(mode="json", warnings=False)
    return usage.model_copy(update={name: None for name, part in parts.items() if not _is_usage(part)})


def _is_ref(value: object) -> bool:
    try:
        return (
            isinstance(value, dict)
            and value.keys() == {"at", "sha256", "size", "in"}
            and _is_list(_is_number)(value["at"])
            and bool(decode_ref(value, what="a marker"))
        )
    except StoredDataError:
        return False


def _is_redaction_of(value: Mapping[str, Any], sha256: str) -> bool:
    """Return whether the metadata of a marker say which event it replaced, why and when, and nothing else."""
    try:
        note = value["custom_metadata"][REDACTED_KEY]
        require_reason(note["reason"])
        has_all = note.keys() == {"sha256", "reason", "time"} and _is_number(note["time"])
    except (KeyError, TypeError, AttributeError, InvalidInputError):
        return False
    return has_all and note["sha256"] == sha256 == value[REDACTED_KEY]["sha256"]


_PART: Final = _is_object(
    text=_is_constant(TEXT),
    function_call=_is_object(id=_is_text, name=_is_text),
    function_response=_is_object(
        id=_is_text,
        name=_is_text,
        response=lambda value: isinstance(value, dict) and value in ({}, {"result": TEXT}),
    ),
)
_MARKER: Final[Mapping[str, Fits]] = {
    **dict.fromkeys(
        ("id", "invocation_id", "author", "branch", "model_version", "isolation_scope"), _is_text
    ),
    "timestamp": _is_number,
    "content": _is_object(role=_is_text, parts=_is_list(_PART)),
    "long_running_tool_ids": _is_list(_is_text),
    "usage_metadata": _is_usage,
    "node_info": _is_object(
        path=_is_text, output_for=_is_list(_is_text), message_as_output=lambda value: isinstance(value, bool)
    ),
    "actions": _is_object(
        state_delta=_is_map(_is_constant(None)),
        artifact_delta=_is_map(_is_number),
        rewind_before_invocation_id=_is_text,
    ),
    "custom_metadata": lambda value: isinstance(value, dict) and value.keys() == {REDACTED_KEY},
    REMOVED: _is_list(_is_ref),
    REDACTED_KEY: lambda value: isinstance(value, dict) and value.keys() == {"sha256"},
    "adk_store_halves": _is_constant(True),  # noqa: FBT003  # the value of the key
}
"""What a marker keeps of the event: ids, names, times and counts."""
