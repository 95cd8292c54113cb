"""Read the headers that speak of byte ranges."""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from .errors import ApiError, bad_request

_RANGE: Final = re.compile(r"\s*bytes\s*=\s*(\d*)\s*-\s*(\d*)\s*", re.ASCII)
_LENGTH_RANGE: Final = re.compile(r"\s*(\d{1,18})\s*,\s*(\d{1,18})\s*", re.ASCII)
_CONTENT_RANGE: Final = re.compile(
    r"\s*bytes\s+(?:\*|(?P<start>\d+)-(?:\*|(?P<end>\d+)))/(?:\*|(?P<total>\d+))\s*", re.ASCII
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
