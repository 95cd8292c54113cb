"""The XML API: downloads and uploads with signed URLs."""

import re
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from gcp_adk_store.testing.storage_emulator import objects
from gcp_adk_store.testing.storage_emulator.exchange import (
    ApiError,
    Request,
    Response,
    bad_request,
    key_fields,
)
from gcp_adk_store.testing.storage_emulator.resources import (
    Hashes,
    Preconditions,
    check_length_range,
    writable_fields,
)
from gcp_adk_store.testing.storage_emulator.storage import StrictStorage
from gcp_adk_store.testing.storage_emulator.uploads import create_object

MAX_SECONDS: Final = 7 * 24 * 60 * 60

_PARAMETERS: Final = (
    "X-Goog-Algorithm",
    "X-Goog-Credential",
    "X-Goog-Date",
    "X-Goog-Expires",
    "X-Goog-SignedHeaders",
    "X-Goog-Signature",
)


def check_signed_url(request: Request) -> None:
    """Return if a V4 signed URL has not expired and the request has the headers that were signed.

    A URL that is not signed passes, as that of a public object does.

    Raises:
        ApiError: 400.
    """
    sent = {name: request.arg(name) or "" for name in _PARAMETERS}
    if not any(sent.values()):
        return
    missing = [name for name, value in sent.items() if not value]
    if missing:
        raise _malformed(f"{missing[0]} is missing")
    _check_headers(request, signed=sent["X-Goog-SignedHeaders"].lower().split(";"))
    end = _end(date=sent["X-Goog-Date"], seconds=sent["X-Goog-Expires"])
    if datetime.now(tz=UTC) > end:
        raise bad_request(
            f"The provided token has expired. Request signature expired at: {end.isoformat()}",
            code="ExpiredToken",
        )


def _check_headers(request: Request, *, signed: list[str]) -> None:
    if "host" not in signed:
        raise _malformed("Host header not signed.")
    for name in signed:
        if request.header(name) is None:
            raise _malformed(f"Header was included in signedheaders, but not in the request: {name}")
    for name in request.headers:
        if name.lower().startswith("x-goog-") and name.lower() not in signed:
            raise _malformed(f"Header must be signed: {name}")


def _end(*, date: str, seconds: str) -> datetime:
    if not seconds.isdecimal() or len(seconds) > len(str(MAX_SECONDS)) or int(seconds) > MAX_SECONDS:
        raise _malformed(f"X-Goog-Expires is {seconds!r}, not up to {MAX_SECONDS}")
    with suppress(ValueError, OverflowError):
        start = datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        return start + timedelta(seconds=int(seconds))
    raise _malformed(f"X-Goog-Date is {date!r}, not like 20260131T235959Z")


def _malformed(message: str) -> ApiError:
    return bad_request(f"Your request has a malformed header. {message}", code="MalformedSecurityHeader")


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
    response = objects.download(storage, request)
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
