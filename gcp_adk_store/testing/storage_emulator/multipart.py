"""Split the body of a multipart/related upload, exact to the byte."""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesHeaderParser

from .errors import ApiError, bad_request
from .exchange import JsonObject, parse_json


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedUpload:
    """The two parts of an upload."""

    metadata: JsonObject
    content_type: str | None
    """The media part's own header, parameters included; None if it has none."""
    content: bytes


def split_related(body: bytes, *, content_type: str) -> RelatedUpload:
    """Return both parts of *body*.

    A line is a delimiter only if nothing follows the boundary, so bytes that merely begin
    like one stay content.

    Raises:
        ApiError: 400 unless there are exactly two well-formed parts.
    """
    # The email parser cannot be used: it drops the content type's parameters, and it treats
    # CR and LF inside binary content as line ends.
    header = Message()
    header["Content-Type"] = content_type
    boundary = header.get_boundary()
    if not boundary:
        raise bad_request("Missing boundary in multipart upload")
    delimiter = re.compile(rb"(?:\A|\r\n)--" + re.escape(boundary.encode()) + rb"(--)?[ \t]*(?:\r\n|\Z)")
    opening = delimiter.search(body)
    if opening is None:
        raise _malformed()
    _, metadata, middle = _read_part(body, opening.end(), delimiter)
    headers, content, closing = _read_part(body, middle.end(), delimiter)
    if opening[1] or middle[1] or not closing[1]:
        raise _malformed()
    return RelatedUpload(
        metadata=parse_json(metadata), content_type=headers.get("Content-Type"), content=content
    )


def _read_part(
    body: bytes, start: int, delimiter: re.Pattern[bytes]
) -> tuple[Message, bytes, re.Match[bytes]]:
    """Return a part's headers, its content and the delimiter that ends it."""
    # The blank line is found first: its line end must not count as the delimiter's own, or
    # content that starts like a delimiter would end the part.
    end = start if body.startswith(b"\r\n", start) else body.find(b"\r\n\r\n", start) + 2
    content = end + 2
    found = delimiter.search(body, content)
    if end < start or found is None:
        raise _malformed()
    headers = BytesHeaderParser().parsebytes(body[start:end])
    return headers, body[content : found.start()], found


def _malformed() -> ApiError:
    return bad_request("A multipart upload consists of exactly two parts")
