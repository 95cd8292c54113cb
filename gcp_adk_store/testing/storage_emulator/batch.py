"""Answer a batch: several requests in the parts of one multipart/mixed body."""

from __future__ import annotations

import secrets
from email import message_from_bytes
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, cast

from .errors import CLIENT_CLOSED_REQUEST, bad_request
from .exchange import Request, Response
from .routing import answer, dispatch

if TYPE_CHECKING:
    from email.message import Message

    from .storage import StrictStorage

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
        content_id = part.get("Content-ID", "").strip("<>")
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
    return Request.parse(
        method=words[0],
        target=words[1],
        headers=headers,
        body=content.strip() if isinstance(content, bytes) else b"",
        base_url=base_url,
    )


def _encode(response: Response) -> bytes:
    status = response.status
    phrase = HTTPStatus(status).phrase if status != CLIENT_CLOSED_REQUEST else "Cancelled"
    headers = {**response.headers, "Content-Length": str(len(response.body))}
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{key}: {value}" for key, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + response.body + b"\r\n"
