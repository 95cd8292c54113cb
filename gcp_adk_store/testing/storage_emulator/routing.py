"""Find what answers a request, also for those in one batch."""

import json
import logging
import re
import secrets
from collections.abc import Callable
from dataclasses import replace
from email import message_from_bytes
from email.message import Message
from http import HTTPStatus
from typing import Final, TypeAlias, cast
from urllib.parse import unquote

from gcp_storage_emulator import exceptions as gse

from gcp_adk_store.testing.storage_emulator import buckets, copies, objects, uploads, xml_api
from gcp_adk_store.testing.storage_emulator.exchange import (
    CLIENT_CLOSED_REQUEST,
    ApiError,
    Request,
    Response,
    bad_request,
    error_body,
    json_response,
    not_emulated,
    parse_fields,
    project,
    xml_error_body,
)
from gcp_adk_store.testing.storage_emulator.storage import StrictStorage

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
    (rf"/download{_OBJECT}", {"GET": objects.download}),
    (_XML_OBJECT, {"GET": xml_api.get_object, "PUT": xml_api.put_object}),
)
_ANSWERS_BYTES: Final = {objects.download, xml_api.get_object}
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
        handler = objects.download
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
    for pattern, handlers in _ROUTES:
        match = pattern.fullmatch(request.path)
        if match is None:
            continue
        if method not in handlers:
            raise not_emulated(f"{request.method} {request.path}")
        try:
            params = {name: unquote(value, errors="strict") for name, value in match.groupdict().items()}
        except UnicodeDecodeError as exc:
            raise bad_request("The path is not valid UTF-8") from exc
        return handlers[method], params
    raise ApiError(HTTPStatus.NOT_FOUND, f"Not Found: {request.path}")


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


PATH: Final = "/batch/storage/v1"
MAX_CALLS: Final = 100


def answer_request(storage: StrictStorage, request: Request) -> Response:
    """Return the response to *request*, be it one call or a batch of them; never raises.

    The caller holds the storage lock.
    """
    if request.path == PATH and request.method == "POST":
        return answer(answer_batch, storage, request)
    return dispatch(storage, request)


def answer_batch(storage: StrictStorage, request: Request) -> Response:
    """Answer every part in order; each succeeds or fails by itself.

    Raises:
        ApiError: 400 when the body is not a batch, or one of more than 100 calls.
    """
    header = f"Content-Type: {request.header('Content-Type')}\r\n\r\n"
    outer = message_from_bytes(header.encode() + request.body)
    parts = outer.get_payload()
    if not isinstance(parts, list) or len(parts) > MAX_CALLS:
        raise bad_request(f"A batch is a multipart/mixed body of at most {MAX_CALLS} calls")
    boundary = f"batch_{secrets.token_hex(16)}"
    body = b""
    for part in cast("list[Message]", parts):
        call = _parse_call(part, request.base_url)
        content_id = str(part.get("Content-ID", "")).strip("<>")
        body += (
            f"--{boundary}\r\nContent-Type: application/http\r\nContent-ID: <response-{content_id}>\r\n\r\n"
        ).encode() + _encode(dispatch(storage, call))
    body += f"--{boundary}--\r\n".encode()
    return Response(headers={"Content-Type": f"multipart/mixed; boundary={boundary}"}, body=body)


def _parse_call(part: Message, base_url: str) -> Request:
    payload = part.get_payload(decode=True)
    text = payload if isinstance(payload, bytes) else b""
    line, _, rest = text.lstrip().partition(b"\n")
    words = line.decode("ascii", errors="replace").split()
    if len(words) < 2:  # noqa: PLR2004  # a method and a target
        raise bad_request("A part of the batch has no request line")
    headers = message_from_bytes(rest)
    content = headers.get_payload(decode=True)
    try:
        return Request.parse(
            method=words[0],
            target=words[1],
            headers=headers,
            body=content.strip() if isinstance(content, bytes) else b"",
            base_url=base_url,
        )
    except ValueError as exc:
        raise bad_request("A part of the batch has an invalid request target") from exc


def _encode(response: Response) -> bytes:
    status = response.status
    phrase = HTTPStatus(status).phrase if status != CLIENT_CLOSED_REQUEST else "Cancelled"
    headers = {**response.headers, "Content-Length": str(len(response.body))}
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{key}: {value}" for key, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + response.body + b"\r\n"
