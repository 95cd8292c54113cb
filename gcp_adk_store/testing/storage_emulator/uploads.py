"""Uploads in one request, in parts and resumable."""

import re
import secrets
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesHeaderParser
from http import HTTPStatus
from urllib.parse import urlencode

from gcp_adk_store.testing.storage_emulator.exchange import (
    CLIENT_CLOSED_REQUEST,
    ApiError,
    JsonObject,
    Request,
    Response,
    bad_request,
    check_object_name,
    json_response,
    key_fields,
    not_emulated,
    not_found,
    parse_json,
)
from gcp_adk_store.testing.storage_emulator.resources import (
    Hashes,
    Preconditions,
    hashes_of,
    parse_content_range,
    version_of,
    writable_fields,
)
from gcp_adk_store.testing.storage_emulator.storage import StrictStorage, UploadSession


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedUpload:
    """The two parts of an upload."""

    metadata: JsonObject
    content_type: str | None
    """The media part's own header, parameters included; None if it has none."""
    content: bytes


def split_related(body: bytes, *, content_type: str) -> RelatedUpload:
    """Return both parts of *body*.

    A line is a delimiter only if nothing follows the boundary, so bytes that merely begin
    like one stay content.

    Raises:
        ApiError: 400 unless there are exactly two well-formed parts.
    """
    # The email parser cannot be used: it drops the content type's parameters, and it treats
    # CR and LF inside binary content as line ends.
    header = Message()
    header["Content-Type"] = content_type
    boundary = header.get_boundary()
    if not boundary:
        raise bad_request("Missing boundary in multipart upload")
    delimiter = re.compile(rb"(?:\A|\r\n)--" + re.escape(boundary.encode()) + rb"(--)?[ \t]*(?:\r\n|\Z)")
    opening = delimiter.search(body)
    if opening is None:
        raise _malformed()
    _, metadata, middle = _read_part(body, opening.end(), delimiter)
    headers, content, closing = _read_part(body, middle.end(), delimiter)
    if opening[1] or middle[1] or not closing[1]:
        raise _malformed()
    return RelatedUpload(
        metadata=parse_json(metadata), content_type=headers.get("Content-Type"), content=content
    )


def _read_part(
    body: bytes, start: int, delimiter: re.Pattern[bytes]
) -> tuple[Message, bytes, re.Match[bytes]]:
    """Return a part's headers, its content and the delimiter that ends it."""
    # The blank line is found first: its line end must not count as the delimiter's own, or
    # content that starts like a delimiter would end the part.
    end = start if body.startswith(b"\r\n", start) else body.find(b"\r\n\r\n", start) + 2
    content = end + 2
    found = delimiter.search(body, content)
    if end < start or found is None:
        raise _malformed()
    headers = BytesHeaderParser().parsebytes(body[start:end])
    return headers, body[content : found.start()], found


def _malformed() -> ApiError:
    return bad_request("A multipart upload consists of exactly two parts")


def insert_object(storage: StrictStorage, request: Request) -> Response:
    """Start an upload, or do the whole of it, as ``uploadType`` says."""
    storage.check_bucket(request.params["bucket"])
    if request.arg("predefinedAcl"):
        raise not_emulated("predefinedAcl")
    match request.arg("uploadType"):
        case "media":
            return _insert(storage, request, {}, request.header("Content-Type"), request.body)
        case "multipart":
            upload = split_related(request.body, content_type=request.header("Content-Type") or "")
            return _insert(storage, request, upload.metadata, upload.content_type, upload.content)
        case "resumable":
            # Some clients send the bytes with POST.
            if request.arg("upload_id") is not None:
                return continue_upload(storage, request)
            return _start_upload(storage, request)
        case other:
            raise bad_request(f"Invalid upload type: {other!r}")


def continue_upload(storage: StrictStorage, request: Request) -> Response:
    """Take the next bytes of a resumable upload, or report how many there are."""
    session = _session(storage, request)
    if session.finished is None:
        place = parse_content_range(request.header("Content-Range"), length=len(request.body))
        if not session.accept(request.body, place):
            # No Range header at all before the first byte: "bytes=0-0" would mean one byte.
            last = len(session.received) - 1
            headers = {"Range": f"bytes=0-{last}"} if last >= 0 else {}
            return Response(status=HTTPStatus.PERMANENT_REDIRECT, headers=headers)
        claims = Hashes.parse({}, header=request.header("X-Goog-Hash"))
        content = bytes(session.received)
        resource = create_object(
            storage,
            base_url=request.base_url,
            bucket=session.bucket,
            name=session.name,
            content=content,
            fields=session.fields,
            hashes=[session.hashes, claims],
            preconditions=session.preconditions,
        )
        session.finish(resource)
    return json_response(session.finished or {})


def cancel_upload(storage: StrictStorage, request: Request) -> Response:
    """Forget a resumable upload; success is the status 499."""
    _session(storage, request)
    del storage.uploads[request.arg("upload_id") or ""]
    return Response(status=CLIENT_CLOSED_REQUEST)


def create_object(
    storage: StrictStorage,
    *,
    base_url: str,
    bucket: str,
    name: str,
    content: bytes,
    fields: JsonObject,
    hashes: list[Hashes],
    preconditions: Preconditions,
) -> JsonObject:
    """Check the name, the conditions and every claimed hash, then write the object.

    Raises:
        ApiError: 400, 404 for the bucket, or 412. Nothing was written.
    """
    check_object_name(name)
    check_live(storage, bucket, name, preconditions)
    actual = hashes_of(content)
    for claimed in hashes:
        claimed.check(actual)
    return storage.write(bucket, name, content, base_url=base_url, hashes=actual, fields=fields)


def check_live(storage: StrictStorage, bucket: str, name: str, preconditions: Preconditions) -> None:
    """Return if *preconditions* hold for what a write would replace, or answer 412."""
    found = storage.find(bucket, name)
    preconditions.check(version_of(found) if found else None)


def _insert(
    storage: StrictStorage,
    request: Request,
    metadata: JsonObject,
    content_type: str | None,
    content: bytes,
) -> Response:
    resource = create_object(
        storage,
        base_url=request.base_url,
        bucket=request.params["bucket"],
        name=_name(request, metadata),
        content=content,
        fields=_fields(request, metadata, content_type),
        hashes=[Hashes.parse(metadata, header=request.header("X-Goog-Hash"))],
        preconditions=Preconditions.parse(request.args()),
    )
    return json_response(resource)


def _start_upload(storage: StrictStorage, request: Request) -> Response:
    metadata = request.json()
    declared = request.header("X-Upload-Content-Length")
    if declared is not None and not re.fullmatch(r"\d{1,18}", declared):
        raise bad_request(f"Invalid value for X-Upload-Content-Length: {declared!r}")
    session = UploadSession(
        bucket=request.params["bucket"],
        name=_name(request, metadata),
        fields=_fields(request, metadata, request.header("X-Upload-Content-Type")),
        hashes=Hashes.parse(metadata, header=request.header("X-Goog-Hash")),
        preconditions=Preconditions.parse(request.args()),
        declared_size=int(declared) if declared is not None else None,
    )
    check_live(storage, session.bucket, session.name, session.preconditions)
    upload_id = secrets.token_urlsafe(24)
    storage.open_upload(upload_id, session)
    query = urlencode({"uploadType": "resumable", "upload_id": upload_id})
    location = f"{request.base_url}/upload/storage/v1/b/{session.bucket}/o?{query}"
    return Response(headers={"Location": location, "X-GUploader-UploadID": upload_id})


def _session(storage: StrictStorage, request: Request) -> UploadSession:
    session = storage.uploads.get(request.arg("upload_id") or "")
    if session is None or session.bucket != request.params["bucket"]:
        raise not_found("No such upload session")
    return session


def _name(request: Request, metadata: JsonObject) -> str:
    name = request.arg("name")
    return check_object_name(metadata.get("name") if name is None else name)


def _fields(request: Request, metadata: JsonObject, content_type: str | None) -> JsonObject:
    encoding = request.arg("contentEncoding")
    sent = {"contentType": content_type, **metadata}
    fields = writable_fields({**sent, "contentEncoding": encoding} if encoding else sent)
    return fields | key_fields(request.arg("kmsKeyName"))
