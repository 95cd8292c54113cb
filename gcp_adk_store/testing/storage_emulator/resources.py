"""Resources of objects: metadata, hashes, preconditions, ranges."""

import base64
import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote

import google_crc32c

from gcp_adk_store.testing.storage_emulator.exchange import (
    ApiError,
    JsonObject,
    bad_request,
    not_emulated,
    of_kind,
)

_FAILED = "At least one of the pre-conditions you specified did not hold."


class Version(NamedTuple):
    """What conditions compare with; an absent object is None instead."""

    generation: int
    metageneration: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Preconditions:
    """The four numeric conditions; None means not asked for."""

    generation_match: int | None = None
    generation_not_match: int | None = None
    metageneration_match: int | None = None
    metageneration_not_match: int | None = None

    @classmethod
    def parse(cls, values: Mapping[str, Any], *, prefix: str = "if") -> Self:
        """Read the conditions from a query or a JSON object.

        Args:
            values: parameter name to value; others are ignored.
            prefix: ``ifSource`` reads the conditions on the source of a copy.
        """

        def number(name: str) -> int | None:
            value = values.get(prefix + name)
            if value is None:
                return None
            try:
                return int(value)
            except (TypeError, ValueError, OverflowError) as exc:
                raise bad_request(f"Invalid value for {prefix}{name}: {value!r}") from exc

        return cls(
            generation_match=number("GenerationMatch"),
            generation_not_match=number("GenerationNotMatch"),
            metageneration_match=number("MetagenerationMatch"),
            metageneration_not_match=number("MetagenerationNotMatch"),
        )

    def check(self, found: Version | None, *, reading: bool = False) -> None:
        """Return if every condition holds for *found*.

        An absent object has generation 0 and no metageneration: asking for one fails.

        Raises:
            ApiError: 412; or 304 when *reading* and only a "not match" condition failed.
        """
        generation = found.generation if found else 0
        metageneration = found.metageneration if found else None
        if self.generation_match not in {None, generation} or (
            self.metageneration_match not in {None, metageneration}
        ):
            raise ApiError(HTTPStatus.PRECONDITION_FAILED, _FAILED)
        if self.generation_not_match == generation or (
            self.metageneration_not_match is not None and self.metageneration_not_match == metageneration
        ):
            raise ApiError(HTTPStatus.NOT_MODIFIED if reading else HTTPStatus.PRECONDITION_FAILED, _FAILED)


def check_etags(*, found: str, match: str | None, none_match: str | None) -> None:
    """Return if the ``If-Match`` and ``If-None-Match`` headers of a read allow it.

    Raises:
        ApiError: 412 for a missed ``If-Match``, 304 for a met ``If-None-Match``.
    """
    if match is not None and not _lists(match, found):
        raise ApiError(HTTPStatus.PRECONDITION_FAILED, _FAILED)
    if none_match is not None and _lists(none_match, found):
        raise ApiError(HTTPStatus.NOT_MODIFIED, _FAILED)


def _lists(header: str, etag: str) -> bool:
    return any(tag.strip().strip('"') in {"*", etag} for tag in header.split(","))


_RANGE: Final = re.compile(r"\s*bytes\s*=\s*(\d{0,18})\s*-\s*(\d{0,18})\s*", re.ASCII)
_LENGTH_RANGE: Final = re.compile(r"\s*(\d{1,18})\s*,\s*(\d{1,18})\s*", re.ASCII)
_CONTENT_RANGE: Final = re.compile(
    r"\s*bytes\s+(?:\*|(?P<start>\d{1,18})-(?:\*|(?P<end>\d{1,18})))/(?:\*|(?P<total>\d{1,18}))\s*", re.ASCII
)


def parse_range(header: str | None, *, size: int) -> range | None:
    """Return the offsets a ``Range`` header asks for, or None for the whole object.

    Several ranges, or one that is not well formed, are ignored, as HTTP permits.

    Raises:
        ApiError: 416, with the size in ``Content-Range``: no byte lies in the range.
    """
    found = _RANGE.fullmatch(header or "")
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        wanted = range(max(0, size - int(found[2])), size)
    else:
        last = int(found[2]) if found[2] else size - 1
        if found[2] and last < int(found[1]):
            return None
        wanted = range(int(found[1]), min(last + 1, size))
    if not wanted:
        raise ApiError(
            HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
            "The requested range cannot be satisfied.",
            {"Content-Range": f"bytes */{size}"},
        )
    return wanted


def check_length_range(header: str | None, *, length: int) -> None:
    """Return if ``x-goog-content-length-range``, sent with a body of *length* bytes, permits it.

    Raises:
        ApiError: 400 when the body is outside, or when the header is not ``MIN,MAX``.
    """
    if header is None:
        return
    found = _LENGTH_RANGE.fullmatch(header)
    if found is None:
        raise bad_request(f"Invalid value for x-goog-content-length-range: {header!r}")
    if length < int(found[1]):
        raise bad_request(f"A body of {length} bytes is smaller than {found[1]}", code="EntityTooSmall")
    if length > int(found[2]):
        raise bad_request(f"A body of {length} bytes is larger than {found[2]}", code="EntityTooLarge")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentRange:
    """Where the bytes of one request of a resumable upload belong."""

    start: int | None
    """None in a status query, which carries no bytes."""
    total: int | None
    """None while the sender does not know the size."""


def parse_content_range(header: str | None, *, length: int) -> ContentRange:
    """Read the ``Content-Range`` of a request with *length* bytes of body.

    Without the header the body is the whole object. ``START-*`` (Node's client streams with
    it) means that the body is all that remains.

    Raises:
        ApiError: 400 when the header is malformed or disagrees with the body.
    """
    if header is None:
        return ContentRange(start=0, total=length)
    found = _CONTENT_RANGE.fullmatch(header)
    if found is None:
        raise bad_request(f"Failed to parse Content-Range header: {header!r}")
    total = int(found["total"]) if found["total"] else None
    if found["start"] is None:
        return ContentRange(start=None, total=total)
    start = int(found["start"])
    stop = start + length
    if found["end"] is None:
        total = stop if total is None else total
    elif int(found["end"]) + 1 != stop:
        raise bad_request(f"Content-Range {header!r} does not fit a body of {length} bytes")
    if total is not None and stop > total:
        raise bad_request(f"Content-Range {header!r} goes beyond its own total")
    return ContentRange(start=start, total=total)


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
    _check_sent(sent)
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
    _check_sent(changes)
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


def _check_sent(sent: JsonObject) -> None:
    of_kind(dict, "an object's resource", sent)
    for name in _ENFORCED_ELSEWHERE:
        if sent.get(name):
            raise not_emulated(f"object field {name}")
    for name in WRITABLE_FIELDS:
        if name != "metadata":
            of_kind(str, name, sent.get(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Hashes:
    """Hashes a sender claims for its bytes, in base64; None where it claims nothing."""

    md5: str | None = None
    crc32c: str | None = None

    @classmethod
    def parse(cls, metadata: JsonObject, *, header: str | None) -> Self:
        """Read the claims from an object's metadata and from ``X-Goog-Hash``; the header wins."""
        claims = dict(claim.strip().split("=", 1) for claim in (header or "").split(",") if "=" in claim)
        return cls(
            md5=claims.get("md5", metadata.get("md5Hash")),
            crc32c=claims.get("crc32c", metadata.get("crc32c")),
        )

    def check(self, actual: "Hashes") -> None:
        """Return if no claim differs from *actual*, or refuse the upload with 400."""
        for kind, claimed, found in (
            ("MD5 hash", self.md5, actual.md5),
            ("CRC32C", self.crc32c, actual.crc32c),
        ):
            if claimed is not None and claimed != found:
                raise bad_request(f'Provided {kind} "{claimed}" doesn\'t match calculated {kind} "{found}".')


def hashes_of(content: bytes) -> Hashes:
    """Return both hashes of *content*."""
    return Hashes(
        md5=_base64(hashlib.md5(content, usedforsecurity=False).digest()),
        crc32c=_base64(google_crc32c.value(content).to_bytes(4, "big")),
    )


def new_resource(
    *,
    base_url: str,
    bucket: str,
    name: str,
    generation: int,
    hashes: Hashes,
    size: int,
    storage_class: str,
    fields: JsonObject,
) -> JsonObject:
    """Return the resource of a new generation, of *storage_class* unless *fields* have one.

    Without a content type the resource has none; its bytes are then served as
    ``application/octet-stream``.
    """
    # A generation counts microseconds, so it is also the time of the write.
    written = timestamp(datetime.fromtimestamp(generation / 1e6, tz=UTC))
    path = f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}"
    resource = {
        "kind": "storage#object",
        "id": f"{bucket}/{name}/{generation}",
        "selfLink": f"{base_url}{path}",
        "mediaLink": f"{base_url}/download{path}?generation={generation}&alt=media",
        "name": name,
        "bucket": bucket,
        "generation": str(generation),
        "metageneration": "1",
        "storageClass": storage_class,
        "size": str(size),
        "md5Hash": hashes.md5,
        "crc32c": hashes.crc32c,
        "etag": _etag(generation, 1),
        "timeCreated": written,
        "updated": written,
        "timeStorageClassUpdated": written,
        "timeFinalized": written,
        **fields,
    }
    return {key: value for key, value in resource.items() if value is not None}


def next_metageneration(resource: JsonObject, fields: JsonObject) -> JsonObject:
    """Return *resource* with its writable fields replaced, one metageneration later."""
    generation, metageneration = version_of(resource)
    kept = {key: value for key, value in resource.items() if key not in WRITABLE_FIELDS}
    return (
        kept
        | fields
        | {
            "metageneration": str(metageneration + 1),
            "etag": _etag(generation, metageneration + 1),
            "updated": timestamp(datetime.now(tz=UTC)),
        }
    )


def version_of(resource: JsonObject) -> Version:
    """Return what preconditions compare with."""
    return Version(int(resource["generation"]), int(resource["metageneration"]))


def timestamp(moment: datetime) -> str:
    """Return *moment*, in UTC, as Cloud Storage writes times."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _etag(generation: int, metageneration: int) -> str:
    return _base64(f"{generation}/{metageneration}".encode())


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")
