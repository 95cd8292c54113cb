"""Check what can be checked of a signed URL without the key that signed it."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from .errors import ApiError, bad_request

if TYPE_CHECKING:
    from .exchange import Request

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
