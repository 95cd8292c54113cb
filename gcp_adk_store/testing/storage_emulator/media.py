"""Answer requests for the bytes of an object."""

from __future__ import annotations

import gzip
import re
import zlib
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from .exchange import JsonObject, Request, Response
from .objects import find_for_reading
from .ranges import parse_range

if TYPE_CHECKING:
    from .storage import StrictStorage

_DEFAULT_CONTENT_TYPE: Final = "application/octet-stream"
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PRINTABLE: Final = re.compile(r"[ -~]*")

_FIELD_HEADERS: Final = {
    "Cache-Control": "cacheControl",
    "Content-Disposition": "contentDisposition",
    "Content-Language": "contentLanguage",
    "Content-Type": "contentType",
    "ETag": "etag",
    "X-Goog-Generation": "generation",
    "X-Goog-Metageneration": "metageneration",
    "X-Goog-Storage-Class": "storageClass",
    "X-Goog-Stored-Content-Length": "size",
}


def download(storage: StrictStorage, request: Request) -> Response:
    """Answer with an object's bytes, or with the range of them that was asked for."""
    resource = find_for_reading(storage, request)
    content = storage.read(resource)
    headers = media_headers(resource)
    status = HTTPStatus.OK
    if resource.get("contentEncoding") == "gzip":
        if "gzip" in (request.header("Accept-Encoding") or ""):
            headers["Content-Encoding"] = "gzip"
        elif (plain := _gunzip(content)) is not None:
            # Production ignores the range of a request that it decompresses for.
            return Response(headers=headers, body=plain)
    wanted = parse_range(request.header("Range"), size=len(content))
    if wanted is not None:
        status = HTTPStatus.PARTIAL_CONTENT
        headers["Content-Range"] = f"bytes {wanted.start}-{wanted.stop - 1}/{len(content)}"
        content = content[wanted.start : wanted.stop]
    return Response(status=status, headers=headers, body=content)


def media_headers(resource: JsonObject) -> dict[str, str]:
    """Return the headers that describe an object beside its bytes.

    What a header cannot carry (names that are not tokens, values outside printable ASCII) is
    left out: sending it would break the response.
    """
    hashes = {"crc32c": resource.get("crc32c"), "md5": resource.get("md5Hash")}
    headers = {
        "Content-Type": _DEFAULT_CONTENT_TYPE,
        "Accept-Ranges": "bytes",
        "X-Goog-Hash": ",".join(f"{kind}={value}" for kind, value in hashes.items() if value),
        "X-Goog-Stored-Content-Encoding": resource.get("contentEncoding", "identity"),
    }
    stored = {header: resource.get(name) for header, name in _FIELD_HEADERS.items()}
    custom = {f"X-Goog-Meta-{key}": text for key, text in resource.get("metadata", {}).items()}
    described = {
        header: value
        for header, value in {**stored, **custom}.items()
        if value and _TOKEN.fullmatch(header) and _PRINTABLE.fullmatch(value)
    }
    return headers | described


def _gunzip(content: bytes) -> bytes | None:
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        # Labelled gzip, but the bytes are not gzip: they stay as they are.
        return None
