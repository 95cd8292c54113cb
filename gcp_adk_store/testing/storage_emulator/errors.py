"""Describe a refused request the way Cloud Storage does."""

from __future__ import annotations

import html
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

CLIENT_CLOSED_REQUEST: Final = 499  # What a cancelled resumable upload answers.

_REASONS: Final[Mapping[int, str]] = {
    HTTPStatus.NOT_MODIFIED: "notModified",
    HTTPStatus.BAD_REQUEST: "invalid",
    HTTPStatus.NOT_FOUND: "notFound",
    HTTPStatus.CONFLICT: "conflict",
    HTTPStatus.PRECONDITION_FAILED: "conditionNotMet",
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: "requestedRangeNotSatisfiable",
    HTTPStatus.INTERNAL_SERVER_ERROR: "internalError",
    HTTPStatus.NOT_IMPLEMENTED: "notImplemented",
}
_XML_CODES: Final[Mapping[int, str]] = {
    HTTPStatus.BAD_REQUEST: "InvalidArgument",
    HTTPStatus.NOT_FOUND: "NoSuchKey",
    HTTPStatus.PRECONDITION_FAILED: "PreconditionFailed",
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: "InvalidRange",
    HTTPStatus.NOT_IMPLEMENTED: "NotImplemented",
}
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class ApiError(Exception):
    """The request is answered with an error; storage was not changed by it.

    Args:
        status: of the response.
        message: for people.
        headers: of the response.
        code: the XML API's name for it, if *status* alone does not decide it.
    """

    def __init__(
        self,
        status: int,
        message: str,
        headers: Mapping[str, str] | None = None,
        *,
        code: str | None = None,
    ) -> None:
        super().__init__(status, message, headers)
        self.status = status
        self.message = message
        self.headers = headers or {}
        self.code = code or _XML_CODES.get(status, "InternalError")

    def __str__(self) -> str:
        return f"{self.status}: {self.message}"


def error_body(status: int, message: str) -> dict[str, Any]:
    """Return the JSON document that accompanies an error status."""
    return {
        "error": {
            "code": status,
            "message": message,
            "errors": [{"domain": "global", "reason": _REASONS.get(status, "error"), "message": message}],
        }
    }


def xml_error_body(code: str, message: str) -> bytes:
    """Return the XML document that accompanies an error of the XML API."""
    text = html.escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", message), quote=False)
    document = f"<Error><Code>{code}</Code><Message>{text}</Message></Error>"
    return f"<?xml version='1.0' encoding='UTF-8'?>{document}".encode()


def bad_request(message: str, *, code: str | None = None) -> ApiError:
    """Return the error for a request that can never succeed as it is."""
    return ApiError(HTTPStatus.BAD_REQUEST, message, code=code)


def not_found(message: str, *, code: str | None = None) -> ApiError:
    """Return the error for a bucket, object, generation or upload that is not there."""
    return ApiError(HTTPStatus.NOT_FOUND, message, code=code)


def not_emulated(what: str) -> ApiError:
    """Return the error for what production does and this emulator would only pretend to."""
    return ApiError(HTTPStatus.NOT_IMPLEMENTED, f"Not supported by this emulator: {what}")
