"""Tell what a request to Cloud Storage is about: which kind of operation, on which bucket."""

import re
from typing import Final
from urllib.parse import unquote, urlsplit

_IN_BUCKET: Final = re.compile(r"(?:/(?:upload|download))?(?:/storage/v1)?/b/(?P<bucket>[^/]+)(?P<rest>/.*)?")
# The XML API's form, which signed and public URLs have.
_XML: Final = re.compile(r"/(?!(?:b|storage|upload|download|batch)(?:/|$))(?P<bucket>[^/]+)/.+")
_OBJECT: Final = re.compile(r"/o/[^/]+")
_VERBS: Final = {
    "rewriteTo": "rewrite",
    "copyTo": "copy",
    "moveTo": "move",
    "compose": "compose",
    "restore": "restore",
}
_PLAIN: Final = {"GET": "metadata", "HEAD": "metadata", "PATCH": "patch", "PUT": "update"}


def bucket_of(url: str) -> str:
    """Return the bucket that *url* names, empty where it names none."""
    path = urlsplit(url).path
    match = _IN_BUCKET.fullmatch(path) or _XML.fullmatch(path)
    return unquote(match["bucket"]) if match else ""


def is_bucket_look(method: str, url: str) -> bool:
    """Tell whether a request asks for the bucket itself: Google's client does once a process, for traces."""
    match = _IN_BUCKET.fullmatch(urlsplit(url).path)
    return method == "GET" and match is not None and not match["rest"]


def request_kind(method: str, url: str) -> str:
    """Return what a request does.

    ``upload``, ``list``, ``metadata``, ``media``, ``delete``, ``patch``, ``update``, ``rewrite``, ``copy``,
    ``move``, ``compose`` or ``restore``; ``other`` for those of whole buckets and for batches.
    """
    if method == "DELETE":
        return "delete"
    parts = urlsplit(url)
    if _XML.fullmatch(parts.path):
        return {"GET": "media", "HEAD": "metadata", "PUT": "upload"}.get(method, "other")
    match = _IN_BUCKET.fullmatch(parts.path)
    rest = (match["rest"] or "") if match else ""
    if rest == "/o":
        return "list" if method == "GET" else "upload"
    if _OBJECT.fullmatch(rest):
        wants_bytes = parts.path.startswith("/download/") or "alt=media" in parts.query
        return "media" if method == "GET" and wants_bytes else _PLAIN.get(method, "other")
    return _VERBS.get(rest.split("/")[3], "other") if rest.startswith("/o/") else "other"
