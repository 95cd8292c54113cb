"""Find the handler for a request and turn every outcome into a response."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import unquote

from gcp_storage_emulator import exceptions as gse

from . import buckets, copies, media, objects, uploads, xml_api
from .errors import ApiError, bad_request, error_body, not_emulated, xml_error_body
from .exchange import Request, Response, json_response
from .projection import parse_fields, project
from .storage import StrictStorage

if TYPE_CHECKING:
    from collections.abc import Iterator

Handler: TypeAlias = Callable[[StrictStorage, Request], Response]

logger = logging.getLogger(__name__)

_GSE_STATUS: Final = {
    gse.NotFound: HTTPStatus.NOT_FOUND,
    gse.Conflict: HTTPStatus.CONFLICT,
    gse.BadRequest: HTTPStatus.BAD_REQUEST,
}


def _health(_storage: StrictStorage, _request: Request) -> Response:
    return Response(headers={"Content-Type": "text/plain"}, body=b"OK")


def _wipe(storage: StrictStorage, request: Request) -> Response:
    storage.wipe(keep_buckets=bool(request.arg("keep-buckets")))
    return _health(storage, request)


# Node's client leaves /storage/v1 out when an emulator is configured.
_BUCKETS: Final = r"(?:/storage/v1)?/b"
_BUCKET: Final = rf"{_BUCKETS}/(?P<bucket>[^/]+)"
_OBJECT: Final = rf"{_BUCKET}/o/(?P<object>[^/]+)"
_TO: Final = r"b/(?P<to_bucket>[^/]+)/o/(?P<to_object>[^/]+)"
# The XML API's form, which signed and public URLs use.
_XML_OBJECT: Final = r"/(?!b/|(?:storage|upload|download|batch)/)(?P<bucket>[^/]+)/(?P<object>.+)"

# A slash inside a name arrives as %2F, so an object called "x/acl" never meets the routes
# that end in /acl. Matching happens before decoding for that reason.
_TABLE: Final[tuple[tuple[str, dict[str, Handler]], ...]] = (
    (r"/", {"GET": _health}),
    (r"/wipe", {"GET": _wipe, "POST": _wipe}),
    (_BUCKETS, {"GET": buckets.list_buckets, "POST": buckets.insert_bucket}),
    (
        _BUCKET,
        {
            "GET": buckets.get_bucket,
            "PATCH": buckets.patch_bucket,
            "DELETE": buckets.delete_bucket,
        },
    ),
    (
        rf"{_BUCKET}/iam",
        {"GET": buckets.get_iam_policy, "PUT": buckets.set_iam_policy},
    ),
    (rf"{_BUCKET}/iam/testPermissions", {"GET": buckets.test_iam_permissions}),
    (rf"{_BUCKET}/o", {"GET": objects.list_objects, "POST": uploads.insert_object}),
    (
        _OBJECT,
        {
            "GET": objects.get_object,
            "PATCH": objects.patch_object,
            "PUT": objects.update_object,
            "DELETE": objects.delete_object,
        },
    ),
    (rf"{_OBJECT}/copyTo/{_TO}", {"POST": copies.copy_object}),
    (rf"{_OBJECT}/rewriteTo/{_TO}", {"POST": copies.rewrite_object}),
    (rf"{_OBJECT}/moveTo/o/(?P<to_object>[^/]+)", {"POST": copies.move_object}),
    (rf"{_OBJECT}/compose", {"POST": copies.compose_object}),
    (rf"{_OBJECT}/restore", {"POST": copies.restore_object}),
    (
        rf"/upload{_BUCKET}/o",
        {
            "POST": uploads.insert_object,
            "PUT": uploads.continue_upload,
            "DELETE": uploads.cancel_upload,
        },
    ),
    (rf"/download{_OBJECT}", {"GET": media.download}),
    (_XML_OBJECT, {"GET": xml_api.get_object, "PUT": xml_api.put_object}),
)
_ANSWERS_BYTES: Final = {media.download, xml_api.get_object}
_ROUTES: Final = tuple((re.compile(pattern), handlers) for pattern, handlers in _TABLE)


def dispatch(storage: StrictStorage, request: Request) -> Response:
    """Return the response to *request*; never raises.

    The caller holds the storage lock, which makes reading, checking and writing one step.
    """
    return answer(_handle, storage, request)


def answer(handler: Handler, storage: StrictStorage, request: Request) -> Response:
    """Return what *handler* answers, or the response that describes what it raised."""
    try:
        response = handler(storage, request)
    except ApiError as exc:
        response = _error(request, exc)
    except tuple(_GSE_STATUS) as exc:
        status = _GSE_STATUS[type(exc)]
        response = _error(request, ApiError(status, str(exc) or status.phrase))
    except Exception as exc:
        # The client of a dropped connection retries for two minutes and then shows no cause.
        logger.exception("failed to handle %s %s", request.method, request.path)
        error = ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(exc).__name__}: {exc}")
        response = _error(request, error)
    if request.method != "HEAD":
        return response
    headers = {**response.headers, "Content-Length": str(len(response.body))}
    return replace(response, headers=headers, body=b"")


def _handle(storage: StrictStorage, request: Request) -> Response:
    if request.header("X-Goog-Encryption-Key") is not None:
        raise not_emulated("customer-supplied encryption keys")
    handler, params = _route(request)
    request = replace(request, params=params)
    if request.arg("alt") == "media" and handler is objects.get_object:
        handler = media.download
    fields = request.arg("fields")
    mask = parse_fields(fields) if fields else {}
    response = handler(storage, request)
    is_json = response.headers.get("Content-Type", "").startswith("application/json")
    if mask and is_json and handler not in _ANSWERS_BYTES:
        return json_response(project(json.loads(response.body), mask), status=response.status)
    return response


def _route(request: Request) -> tuple[Handler, dict[str, str]]:
    method = "GET" if request.method == "HEAD" else request.method
    if method == "POST":
        method = request.header("X-HTTP-Method-Override") or method
    for match, handlers in _matches(request.path):
        if method not in handlers:
            raise not_emulated(f"{request.method} {request.path}")
        try:
            params = {name: unquote(value, errors="strict") for name, value in match.groupdict().items()}
        except UnicodeDecodeError as exc:
            raise bad_request("The path is not valid UTF-8") from exc
        return handlers[method], params
    raise ApiError(HTTPStatus.NOT_FOUND, f"Not Found: {request.path}")


def _matches(path: str) -> Iterator[tuple[re.Match[str], dict[str, Handler]]]:
    for pattern, handlers in _ROUTES:
        match = pattern.fullmatch(path)
        if match is not None:
            yield match, handlers


def _error(request: Request, error: ApiError) -> Response:
    if error.status == HTTPStatus.NOT_MODIFIED:
        return Response(status=error.status, headers=error.headers)
    if re.fullmatch(_XML_OBJECT, request.path):
        return Response(
            status=error.status,
            headers={"Content-Type": "application/xml; charset=UTF-8", **error.headers},
            body=xml_error_body(error.code, error.message),
        )
    return json_response(error_body(error.status, error.message), status=error.status, headers=error.headers)
