"""Show that what is uploaded is what is stored."""

import base64
import hashlib
import io
import itertools
import json
from typing import Any

import google_crc32c
import pytest
import requests
from google.api_core.exceptions import BadRequest
from google.cloud import storage

from gcp_adk_store.testing.storage_emulator import StorageEmulator
from gcp_adk_store.testing.storage_emulator.exchange import ApiError
from gcp_adk_store.testing.storage_emulator.uploads import split_related
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


@pytest.mark.parametrize(
    ("content", "content_type"),
    [*zip(BINARY, itertools.cycle(["text/plain; charset=utf-8", 'text/x; a="b c"', "audio/pcm;rate=24000"]))],
)
@pytest.mark.parametrize("chunk_size", [None, CHUNK])
def test_an_upload_is_kept_to_the_letter(
    bucket: storage.Bucket, content: bytes, content_type: str, chunk_size: int | None
) -> None:
    """Line ends, boundary-like bytes, emptiness and the content type come back as they were sent."""
    blob = bucket.blob("o", chunk_size=chunk_size)
    blob.upload_from_string(content, content_type=content_type)
    served = bucket.blob("o")

    assert (content, len(content)) == (served.download_as_bytes(), blob.size)
    assert [content_type] * 2 == [bucket.get_blob("o").content_type, served.content_type]


@pytest.mark.parametrize(
    "content", [b"", b"\r\n", b"--bound", b"\r\n--boundary\r\n", b"\r\n--bound-\r\n", b"\r\n\r\n"]
)
def test_multipart_content_ends_at_its_delimiter_only(content: bytes) -> None:
    """Bytes that merely begin like the boundary are content."""
    body = multipart({"name": "o"}, b"Content-Type: a/b;c=d\r\n", content)
    upload = split_related(body, content_type='multipart/related; boundary="bound"')

    assert ({"name": "o"}, "a/b;c=d", content) == (upload.metadata, upload.content_type, upload.content)


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


def test_a_content_type_is_that_of_the_metadata_or_missing(bucket: storage.Bucket, call: Call) -> None:
    """It wins over the header beside the bytes; without one the bytes are served as octets."""
    target = f"/upload/storage/v1/b/{bucket.name}/o?uploadType=multipart"
    bodies = [
        multipart({"name": "o", "contentType": "a/json"}, b"Content-Type: a/part\r\n", b""),
        multipart({"name": "o"}, b"", b"x"),
    ]
    headers = {"Content_Type": "multipart/related; boundary=bound"}
    both, none = (call("POST", target, body, **headers).json() for body in bodies)
    media = call("GET", f"/download/storage/v1/b/{bucket.name}/o/o?alt=media")

    assert ("a/json", None) == (both["contentType"], none.get("contentType"))
    assert "application/octet-stream" == media.headers["Content-Type"]


def test_hashes_are_those_of_the_bytes(bucket: storage.Bucket, call: Call) -> None:
    """MD5 and CRC32C; with another one, also in X-Goog-Hash, an upload answers 400 and stores nothing."""
    blob = bucket.blob("right")
    blob.upload_from_string(b"content")
    md5 = base64.b64encode(hashlib.md5(b"content", usedforsecurity=False).digest()).decode()
    crc32c = base64.b64encode(google_crc32c.value(b"content").to_bytes(4, "big")).decode()
    for field in ("md5_hash", "crc32c"):
        wrong = bucket.blob("o")
        setattr(wrong, field, "AAAAAA==")
        with pytest.raises(BadRequest):
            wrong.upload_from_string(b"x", checksum=None)
    target = f"/upload/storage/v1/b/{bucket.name}/o?uploadType=media&name=o"
    uploads = (("POST", target), ("PUT", start_resumable(call, bucket)))

    assert (md5, crc32c) == (blob.md5_hash, blob.crc32c)
    assert [400] * 2 == [call(*each, b"x", X_Goog_Hash="crc32c=AAAAAA==").status for each in uploads]
    assert not bucket.blob("o").exists()


def test_a_stream_of_unknown_size_arrives_whole(bucket: storage.Bucket) -> None:
    """In several chunks of the client, and in chunks of HTTP; an upload must say which way it goes."""
    content = bytes(range(256)) * 1024 * 3 + b"rest"
    bucket.blob("o", chunk_size=CHUNK).upload_from_file(io.BytesIO(content))
    with bucket.blob("written").open("wb", chunk_size=CHUNK) as stream:
        stream.write(content)
    url = f"{bucket.client.api_endpoint}/upload/storage/v1/b/{bucket.name}/o"
    statuses = [
        requests.post(
            url, params={"name": "http", **kind}, data=iter([b"one ", b"two"]), timeout=60
        ).status_code
        for kind in ({"uploadType": "media"}, {}, {"uploadType": "x"})
    ]

    assert [content] * 2 == [bucket.blob(name).download_as_bytes() for name in ("o", "written")]
    assert ([200, 400, 400], b"one two") == (statuses, bucket.blob("http").download_as_bytes())


def state(answer: Answer) -> tuple[int, str | None]:
    """Return what a resumable upload reports about itself."""
    return answer.status, answer.headers.get("Range")


def test_a_resumable_upload_reports_what_it_has(bucket: storage.Bucket, call: Call) -> None:
    """308 has no Range before the first byte, then the last stored one, then the resource.

    A sender that lost an answer may repeat the chunk; the total that was declared holds.
    """
    total = CHUNK + 3
    location = start_resumable(call, bucket, X_Upload_Content_Length=f"{total}")
    first, last = bytes(range(256)) * 1024, b"end"
    stored = f"bytes=0-{CHUNK - 1}"
    for body, content_range, expected in (
        (b"", "bytes */*", (308, None)),
        (first, f"bytes 0-{CHUNK - 1}/*", (308, stored)),
        (first, f"bytes 0-{CHUNK - 1}/*", (308, stored)),
        (b"", f"bytes */{total}", (308, stored)),
        (last, f"bytes {CHUNK}-{total - 1}/{total + 1}", (400, None)),
        (last, f"bytes {CHUNK}-{total - 1}/{total}", (200, None)),
        (b"", f"bytes */{total}", (200, None)),
    ):
        assert expected == state(call("PUT", location, body, Content_Range=content_range))
    assert first + last == bucket.blob("o").download_as_bytes()


@pytest.mark.parametrize(
    "content_range",
    [
        *("bytes 262144-262147/262148", "bytes 0-3/*", "bytes 0-9/10", "bytes 0-3/2", "nonsense"),
        pytest.param(f"bytes */{'9' * 5_000}", id="more digits than Python reads"),
    ],
)
def test_a_chunk_that_does_not_fit_is_refused(bucket: storage.Bucket, call: Call, content_range: str) -> None:
    """A gap, a short inner chunk and a false Content-Range answer 400 and keep nothing."""
    location = start_resumable(call, bucket)

    assert 400 == call("PUT", location, b"xxxx", Content_Range=content_range).status
    assert (308, None) == state(call("PUT", location, b"", Content_Range="bytes */*"))


def test_a_cancelled_upload_is_gone_and_an_empty_one_is_an_object(bucket: storage.Bucket, call: Call) -> None:
    """Cancelling answers 499; no bytes at all still make an object."""
    location = start_resumable(call, bucket)
    steps = (("DELETE", None), ("PUT", b"x"), ("DELETE", None))

    assert [499, 404, 404] == [call(method, location, body).status for method, body in steps]
    assert not bucket.blob("o").exists()
    empty = call("PUT", start_resumable(call, bucket), b"", Content_Range="bytes */0").json()
    assert ("0", b"") == (empty["size"], bucket.blob("o").download_as_bytes())


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
