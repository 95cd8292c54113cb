"""Answer requests of the XML API, which signed and public URLs speak."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from . import media
from .errors import bad_request
from .exchange import Request, Response
from .keys import key_fields
from .metadata import writable_fields
from .preconditions import Preconditions
from .ranges import check_length_range
from .resources import Hashes
from .signed_urls import check_signed_url
from .uploads import create_object

if TYPE_CHECKING:
    from .storage import StrictStorage

_CONDITIONS: Final = {
    "ifGenerationMatch": "x-goog-if-generation-match",
    "ifMetagenerationMatch": "x-goog-if-metageneration-match",
}
_FIELDS: Final = {
    "cacheControl": "Cache-Control",
    "contentDisposition": "Content-Disposition",
    "contentEncoding": "Content-Encoding",
    "contentLanguage": "Content-Language",
    "contentType": "Content-Type",
    "customTime": "x-goog-custom-time",
    "storageClass": "x-goog-storage-class",
}
_CUSTOM: Final = "x-goog-meta-"
_OVERRIDES: Final = {
    "Content-Disposition": "response-content-disposition",
    "Content-Type": "response-content-type",
}
_PRINTABLE: Final = re.compile(r"[ -~]+")


def get_object(storage: StrictStorage, request: Request) -> Response:
    """Answer with an object's bytes, described the way the URL asks for."""
    check_signed_url(request)
    asked = {header: request.arg(name) for header, name in _OVERRIDES.items()}
    overrides = {header: value for header, value in asked.items() if value}
    for header, value in overrides.items():
        if not _PRINTABLE.fullmatch(value):
            raise bad_request(f"Invalid value for {_OVERRIDES[header]}: {value!r}")
    response = media.download(storage, request)
    return replace(response, headers={**response.headers, **overrides})


def put_object(storage: StrictStorage, request: Request) -> Response:
    """Create an object from the body, described by the headers."""
    check_signed_url(request)
    check_length_range(request.header("x-goog-content-length-range"), length=len(request.body))
    described = {name: request.header(header) or None for name, header in _FIELDS.items()}
    custom = {
        key.lower().removeprefix(_CUSTOM): value
        for key, value in request.headers.items()
        if key.lower().startswith(_CUSTOM)
    }
    fields = writable_fields({**described, "metadata": custom or None})
    resource = create_object(
        storage,
        base_url=request.base_url,
        bucket=request.params["bucket"],
        name=request.params["object"],
        content=request.body,
        fields=fields | key_fields(request.header("x-goog-encryption-kms-key-name")),
        hashes=[Hashes.parse({}, header=request.header("X-Goog-Hash"))],
        preconditions=Preconditions.parse(
            {name: request.header(header) for name, header in _CONDITIONS.items()}
        ),
    )
    return Response(headers={"ETag": resource["etag"], "X-Goog-Generation": resource["generation"]})
