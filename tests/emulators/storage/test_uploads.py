"""Show that what is uploaded is what is stored."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from typing import TYPE_CHECKING, Any

import google_crc32c
import pytest
import requests
from google.api_core.exceptions import BadRequest

from gcp_adk_store.testing.storage_emulator.exchange import ApiError
from gcp_adk_store.testing.storage_emulator.uploads import split_related

if TYPE_CHECKING:
    from google.cloud import storage

    from gcp_adk_store.testing.storage_emulator import StorageEmulator
    from tests.emulators.storage.conftest import Answer, Call

CHUNK = 256 * 1024
BINARY = [
    b"",
    b"\r\n",
    b"a\r\nb\nc\rd\r\n\r\n",
    b"\r\n--==",
    b"--",
    bytes(range(256)) * 9,
    "snow ☃".encode(),
]


def multipart(metadata: dict[str, Any], headers: bytes, content: bytes) -> bytes:
    """Encode a multipart/related body with the boundary "bound"."""
    return b"".join(
        [
            b"--bound\r\nContent-Type: application/json\r\n\r\n",
            json.dumps(metadata).encode(),
            b"\r\n--bound\r\n" + headers + b"\r\n",
            content,
            b"\r\n--bound--\r\n",
        ]
    )


def start_resumable(call: Call, bucket: storage.Bucket, **headers: str) -> str:
    """Start a resumable upload of the object "o" and return where its bytes go."""
    target = f"/upload/storage/v1/b/{bucket.name}/o?uploadType=resumable&name=o"
    location: str = call("POST", target, b"{}", **headers).headers["Location"]
    return location


@pytest.mark.parametrize("content", BINARY)
@pytest.mark.parametrize("chunk_size", [None, CHUNK])
def test_bytes_survive_an_upload(bucket: storage.Bucket, content: bytes, chunk_size: int | None) -> None:
    """Line ends, boundary-like bytes and emptiness come back as they were sent."""
    blob = bucket.blob("o", chunk_size=chunk_size)
    blob.upload_from_string(content)

    assert (content, len(content)) == (blob.download_as_bytes(), blob.size)


@pytest.mark.parametrize(
    "content", [b"", b"\r\n", b"--bound", b"\r\n--boundary\r\n", b"\r\n--bound-\r\n", b"\r\n\r\n"]
)
def test_multipart_content_ends_at_its_delimiter_only(content: bytes) -> None:
    """Bytes that merely begin like the boundary are content."""
    upload = split_related(
        multipart({"name": "o"}, b"Content-Type: a/b;c=d\r\n", content),
        content_type='multipart/related; boundary="bound"',
    )

    assert ({"name": "o"}, "a/b;c=d", content) == (
        upload.metadata,
        upload.content_type,
        upload.content,
    )


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"", "multipart/related; boundary=bound"),
        (multipart({}, b"", b""), "multipart/related"),
        (multipart({}, b"", b"\r\n--bound\r\nthird"), "multipart/related; boundary=bound"),
        (multipart({}, b"", b"cut")[:-12], "multipart/related; boundary=bound"),
    ],
)
def test_a_malformed_multipart_body_is_refused(body: bytes, content_type: str) -> None:
    """No boundary, no end or a third part: 400."""
    with pytest.raises(ApiError) as caught:
        split_related(body, content_type=content_type)

    assert 400 == caught.value.status


@pytest.mark.parametrize(
    "content_type",
    ["text/plain; charset=utf-8", "audio/pcm;rate=24000", 'text/x; a="b c"', "image/png"],
)
@pytest.mark.parametrize("chunk_size", [None, CHUNK])
def test_a_content_type_keeps_its_parameters(
    bucket: storage.Bucket, content_type: str, chunk_size: int | None
) -> None:
    """The content type is stored and served character for character."""
    bucket.blob("o", chunk_size=chunk_size).upload_from_string(b"x", content_type=content_type)
    stored = bucket.get_blob("o").content_type
    served = bucket.blob("o")
    served.download_as_bytes()

    assert (content_type, content_type) == (stored, served.content_type)


def test_a_missing_content_type_stays_missing(bucket: storage.Bucket, call: Call) -> None:
    """The resource has no content type; the bytes are served as octets."""
    target = f"/upload/storage/v1/b/{bucket.name}/o?uploadType=multipart"
    body = multipart({"name": "o"}, b"", b"x")
    resource = call("POST", target, body, Content_Type="multipart/related; boundary=bound").json()
    media = call("GET", f"/download/storage/v1/b/{bucket.name}/o/o?alt=media")

    assert "contentType" not in resource
    assert "application/octet-stream" == media.headers["Content-Type"]


def test_the_metadata_part_decides_over_the_media_part(bucket: storage.Bucket, call: Call) -> None:
    """A content type in the JSON wins over the header beside the bytes."""
    target = f"/upload/storage/v1/b/{bucket.name}/o?uploadType=multipart"
    body = multipart({"name": "o", "contentType": "a/json"}, b"Content-Type: a/part\r\n", b"")
    resource = call("POST", target, body, Content_Type="multipart/related; boundary=bound").json()

    assert "a/json" == resource["contentType"]


def test_the_resource_has_the_right_hashes(bucket: storage.Bucket) -> None:
    """MD5 and CRC32C are those of the bytes."""
    blob = bucket.blob("o")
    blob.upload_from_string(b"content")
    md5 = base64.b64encode(hashlib.md5(b"content", usedforsecurity=False).digest()).decode()
    crc32c = base64.b64encode(google_crc32c.value(b"content").to_bytes(4, "big")).decode()

    assert (md5, crc32c) == (blob.md5_hash, blob.crc32c)


@pytest.mark.parametrize("field", ["md5Hash", "crc32c"])
def test_a_wrong_hash_stores_nothing(bucket: storage.Bucket, field: str) -> None:
    """A hash that is not the content's answers 400."""
    blob = bucket.blob("o")
    setattr(blob, {"md5Hash": "md5_hash", "crc32c": "crc32c"}[field], "AAAAAA==")
    with pytest.raises(BadRequest):
        blob.upload_from_string(b"x", checksum=None)

    assert not bucket.blob("o").exists()


def test_a_wrong_hash_header_stores_nothing(bucket: storage.Bucket, call: Call) -> None:
    """X-Goog-Hash is a claim too, for media and for the last resumable request."""
    target = f"/upload/storage/v1/b/{bucket.name}/o?uploadType=media&name=o"
    statuses = [
        call("POST", target, b"x", X_Goog_Hash="crc32c=AAAAAA==").status,
        call("PUT", start_resumable(call, bucket), b"x", X_Goog_Hash="crc32c=AAAAAA==").status,
    ]

    assert [400, 400] == statuses
    assert not bucket.blob("o").exists()


def test_a_large_stream_is_uploaded_in_chunks(bucket: storage.Bucket) -> None:
    """A stream of unknown size arrives whole through several chunks."""
    content = bytes(range(256)) * 1024 * 3 + b"rest"
    blob = bucket.blob("o", chunk_size=CHUNK)
    blob.upload_from_file(io.BytesIO(content))
    with bucket.blob("written").open("wb", chunk_size=CHUNK) as stream:
        stream.write(content)

    assert content == blob.download_as_bytes()
    assert content == bucket.blob("written").download_as_bytes()


def state(answer: Answer) -> tuple[int, str | None]:
    """Return what a resumable upload reports about itself."""
    return answer.status, answer.headers.get("Range")


def test_a_resumable_upload_reports_what_it_has(bucket: storage.Bucket, call: Call) -> None:
    """308 has no Range before the first byte, then the last stored one, then the resource."""
    location = start_resumable(call, bucket)
    total = CHUNK + 3
    first, last = b"a" * CHUNK, b"end"
    states = [
        state(call("PUT", location, b"", Content_Range="bytes */*")),
        state(call("PUT", location, first, Content_Range=f"bytes 0-{CHUNK - 1}/*")),
        state(call("PUT", location, b"", Content_Range=f"bytes */{total}")),
        state(call("PUT", location, last, Content_Range=f"bytes {CHUNK}-{total - 1}/{total}")),
        state(call("PUT", location, b"", Content_Range=f"bytes */{total}")),
    ]
    stored = f"bytes=0-{CHUNK - 1}"

    assert [(308, None), (308, stored), (308, stored), (200, None), (200, None)] == states
    assert first + last == bucket.blob("o").download_as_bytes()


def test_a_chunk_sent_twice_is_stored_once(bucket: storage.Bucket, call: Call) -> None:
    """A sender that lost an answer may repeat the chunk."""
    location = start_resumable(call, bucket)
    chunk = bytes(range(256)) * 1024
    for _ in range(2):
        call("PUT", location, chunk, Content_Range=f"bytes 0-{CHUNK - 1}/*")
    call("PUT", location, b"!", Content_Range=f"bytes {CHUNK}-{CHUNK}/{CHUNK + 1}")

    assert chunk + b"!" == bucket.blob("o").download_as_bytes()


@pytest.mark.parametrize(
    ("content_range", "size"),
    [
        ("bytes 262144-262147/262148", 4),
        ("bytes 0-3/*", 4),
        ("bytes 0-9/10", 4),
        ("bytes 0-3/2", 4),
        ("nonsense", 4),
    ],
)
def test_a_chunk_that_does_not_fit_is_refused(
    bucket: storage.Bucket, call: Call, content_range: str, size: int
) -> None:
    """A gap, a short inner chunk and a false Content-Range answer 400 and keep nothing."""
    location = start_resumable(call, bucket)
    refused = call("PUT", location, b"x" * size, Content_Range=content_range)

    assert 400 == refused.status
    assert (308, None) == state(call("PUT", location, b"", Content_Range="bytes */*"))


def test_an_upload_keeps_the_size_it_declared(bucket: storage.Bucket, call: Call) -> None:
    """A total other than X-Upload-Content-Length is refused."""
    location = start_resumable(call, bucket, X_Upload_Content_Length="4")

    assert 400 == call("PUT", location, b"xx", Content_Range="bytes 0-1/2").status
    assert 200 == call("PUT", location, b"xxxx", Content_Range="bytes 0-3/4").status


def test_a_cancelled_upload_is_gone(bucket: storage.Bucket, call: Call) -> None:
    """Cancelling answers 499; the upload and its object do not exist after it."""
    location = start_resumable(call, bucket)
    statuses = [
        call("DELETE", location).status,
        call("PUT", location, b"x").status,
        call("DELETE", location).status,
    ]

    assert [499, 404, 404] == statuses
    assert not bucket.blob("o").exists()


def test_an_empty_resumable_upload_has_size_zero(bucket: storage.Bucket, call: Call) -> None:
    """No bytes at all still make an object."""
    location = start_resumable(call, bucket)
    resource = call("PUT", location, b"", Content_Range="bytes */0").json()

    assert "0" == resource["size"]
    assert b"" == bucket.blob("o").download_as_bytes()


def test_a_chunked_request_body_is_read_whole(bucket: storage.Bucket) -> None:
    """A body without a length is decoded from HTTP chunks."""
    url = f"{bucket.client.api_endpoint}/upload/storage/v1/b/{bucket.name}/o"
    answer = requests.post(
        url,
        params={"uploadType": "media", "name": "o"},
        data=iter([b"one ", b"two"]),
        timeout=60,
    )

    assert 200 == answer.status_code
    assert b"one two" == bucket.blob("o").download_as_bytes()


def test_the_cost_of_an_upload_does_not_depend_on_the_objects_there(
    bucket: storage.Bucket, emulator: StorageEmulator
) -> None:
    """No write touches an index: one upload adds one stored file, the object itself."""
    names = [f"o{number}" for number in range(30)]
    for name in names:
        bucket.blob(name).upload_from_string(b"x")
    files = [path for path in emulator.storage._store._files if path.startswith(f"{bucket.name}/")]

    assert {f"{bucket.name}/{name}" for name in names} == set(files)
    assert ".meta" not in emulator.storage._store._files
