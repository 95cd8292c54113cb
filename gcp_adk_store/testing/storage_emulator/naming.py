"""Decide which bucket and object names are legal, and encode them in links."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

from .errors import bad_request

MAX_OBJECT_NAME_BYTES: Final = 1024
_RESERVED_PREFIX: Final = ".well-known/acme-challenge/"
_BUCKET_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")


def check_object_name(name: object) -> str:
    """Return *name* if Cloud Storage accepts it for a new object, or refuse it with 400."""
    if not isinstance(name, str) or not name:
        raise bad_request("Required parameter: name")
    if name in {".", ".."} or "\r" in name or "\n" in name or name.startswith(_RESERVED_PREFIX):
        raise bad_request(f"Invalid object name: {name!r}")
    try:
        size = len(name.encode())
    except UnicodeEncodeError as exc:
        # JSON can encode half of a surrogate pair; UTF-8 cannot.
        raise bad_request(f"Invalid object name: {name!r}") from exc
    if size > MAX_OBJECT_NAME_BYTES:
        raise bad_request(f"An object name of {size} bytes exceeds the limit of {MAX_OBJECT_NAME_BYTES}")
    return name


def check_bucket_name(name: object) -> str:
    """Return *name* if it is a legal bucket name, or refuse it with 400."""
    if not isinstance(name, str) or not _BUCKET_NAME.fullmatch(name) or ".." in name:
        raise bad_request(f"Invalid bucket name: {name!r}")
    return name


def object_path(bucket: str, name: str) -> str:
    """Return the path segment pair that names an object in the JSON API."""
    return f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}"


def self_link(base_url: str, bucket: str, name: str) -> str:
    """Return the link to an object's resource."""
    return base_url + object_path(bucket, name)


def media_link(base_url: str, bucket: str, name: str, generation: int) -> str:
    """Return the link to the bytes of one generation of an object."""
    path = object_path(bucket, name)
    return f"{base_url}/download{path}?generation={generation}&alt=media"
