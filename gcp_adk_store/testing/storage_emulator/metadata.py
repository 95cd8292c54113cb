"""Decide what a writer may set on an object and how a patch merges into it."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from .errors import bad_request, not_emulated

if TYPE_CHECKING:
    from .exchange import JsonObject

MAX_CUSTOM_METADATA_BYTES: Final = 8 * 1024

WRITABLE_FIELDS: Final = (
    "cacheControl",
    "contentDisposition",
    "contentEncoding",
    "contentLanguage",
    "contentType",
    "customTime",
    "metadata",
    "storageClass",
)

# Each of these makes production refuse something later. Storing them and refusing nothing
# would let a test pass that fails in production.
_ENFORCED_ELSEWHERE: Final = ("acl", "contexts", "eventBasedHold", "retention", "temporaryHold")

_RFC_3339: Final = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE
)


def writable_fields(sent: JsonObject) -> JsonObject:
    """Return what *sent* sets on a new object; output-only and null fields are dropped.

    Raises:
        ApiError: 400 for illegal custom metadata or custom time, 501 for what is not emulated.
    """
    _refuse_unenforced(sent)
    fields = {name: sent[name] for name in WRITABLE_FIELDS if sent.get(name) is not None}
    if "metadata" in fields:
        fields["metadata"] = _merge({}, fields["metadata"])
    if "customTime" in fields:
        fields["customTime"] = _utc(fields["customTime"])
    return fields


def patched_fields(current: JsonObject, changes: JsonObject) -> JsonObject:
    """Return the writable fields of *current* after *changes*; neither is modified.

    A null removes a field, but not the storage class, which every object has. Custom metadata merges key by
    key; a null value removes its key.

    Raises:
        ApiError: 400 for illegal custom metadata or a custom time that moves back, 501 for
            what is not emulated.
    """
    _refuse_unenforced(changes)
    fields = {name: current[name] for name in WRITABLE_FIELDS if name in current}
    for name in WRITABLE_FIELDS:
        if name not in changes or (name == "storageClass" and changes[name] is None):
            continue
        value = changes[name]
        if name == "customTime":
            value = None if value is None else _utc(value)
            _check_custom_time(fields.get(name), value)
        if name == "metadata" and value is not None:
            value = _merge(fields.get(name, {}), value)
        fields[name] = value
    return {name: value for name, value in fields.items() if value is not None}


def replaced_fields(current: JsonObject, sent: JsonObject) -> JsonObject:
    """Return the writable fields after an update, which removes what *sent* leaves out."""
    fields = writable_fields(sent)
    fields.setdefault("storageClass", current["storageClass"])
    _check_custom_time(current.get("customTime"), fields.get("customTime"))
    return fields


def _merge(current: JsonObject, changes: object) -> JsonObject:
    if not isinstance(changes, dict):
        raise bad_request("metadata must be an object of strings")
    merged = {key: value for key, value in {**current, **changes}.items() if value is not None}
    if not all(isinstance(value, str) for value in merged.values()):
        raise bad_request("metadata must be an object of strings")
    try:
        size = sum(len(key.encode()) + len(value.encode()) for key, value in merged.items())
    except UnicodeEncodeError as exc:
        raise bad_request("metadata is not valid Unicode") from exc
    if size > MAX_CUSTOM_METADATA_BYTES:
        raise bad_request(f"Custom metadata of {size} bytes exceeds the limit of {MAX_CUSTOM_METADATA_BYTES}")
    return merged


def _utc(value: object) -> str:
    """Return a custom time in the one form that clients read, regardless of its offset."""
    if isinstance(value, str) and _RFC_3339.fullmatch(value):
        with suppress(ValueError, OverflowError):
            moment = datetime.fromisoformat(value.upper()).astimezone(UTC)
            return moment.isoformat().replace("+00:00", "Z")
    raise bad_request(f"Invalid value for customTime: {value!r}")


def _check_custom_time(current: str | None, wanted: str | None) -> None:
    if current is None:
        return
    # As text, a whole second would sort after its own fractions.
    if wanted is None or datetime.fromisoformat(wanted) < datetime.fromisoformat(current):
        raise bad_request("customTime cannot be removed or moved to an earlier time")


def _refuse_unenforced(sent: JsonObject) -> None:
    for name in _ENFORCED_ELSEWHERE:
        if sent.get(name):
            raise not_emulated(f"object field {name}")
