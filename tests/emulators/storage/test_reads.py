"""Show what a reader gets: bytes, ranges, headers and metadata."""

import gzip
import json
from datetime import UTC, datetime, timedelta

import pytest
from google.api_core.exceptions import BadRequest, NotFound
from google.cloud import storage

from tests.emulators.storage.conftest import Call

UNICODE = {"plain": "value", "schlüssel": "wert", "emoji": "☃ 雪", "empty": ""}


def media(bucket: storage.Bucket, name: str = "o") -> str:
    """Return the target of a download."""
    return f"/download/storage/v1/b/{bucket.name}/o/{name}?alt=media"


def test_custom_metadata_is_kept_merged_and_replaced(bucket: storage.Bucket) -> None:
    """Of any script. A patch adds, replaces and removes keys, and keeps the rest; an update replaces all."""
    blob = bucket.blob("o")
    blob.metadata = {**UNICODE, "change": "1", "remove": "1"}
    blob.upload_from_string(b"x", content_type="a/b")
    etag = blob.etag
    patched = bucket.blob("o")
    patched.metadata = {"change": "2", "remove": None, "add": "2"}
    patched.patch()
    found = bucket.get_blob("o")
    blob.metadata = {"new": "1"}
    blob.update()

    assert {**UNICODE, "change": "2", "add": "2"} == found.metadata
    assert ("a/b", 2, blob.generation) == (found.content_type, found.metageneration, found.generation)
    assert etag != found.etag
    assert {"new": "1"} == bucket.get_blob("o").metadata


def test_every_object_and_bucket_has_a_storage_class(bucket: storage.Bucket, call: Call) -> None:
    """STANDARD, that of its bucket, or its own; a null takes none away."""
    bucket.blob("o").upload_from_string(b"x")
    buckets, cold = "/storage/v1/b", f"{bucket.name}-cold"
    one = f"{buckets}/{bucket.name}/o/o"
    null, parts = b'{"storageClass": null}', b'{"sourceObjects": [{"name": "o"}]}'
    for storage_class, requests in (
        (
            "STANDARD",
            [
                ("GET", one, None),
                ("PATCH", one, b'{"storageClass": null, "contentType": "a/b"}'),
                ("PUT", one, null),
                ("POST", buckets, b'{"name": "%s-null", "storageClass": null}' % bucket.name.encode()),
                ("PATCH", f"{buckets}/{bucket.name}", null),
            ],
        ),
        (
            "NEARLINE",
            [
                ("POST", buckets, json.dumps({"name": cold, "storageClass": "NEARLINE"}).encode()),
                ("POST", f"/upload{buckets}/{cold}/o?uploadType=media&name=o", b"x"),
                ("POST", f"{one}/copyTo/b/{cold}/o/mine", b'{"contentType": "a/b"}'),
                ("POST", f"{buckets}/{cold}/o/both/compose", parts),
                ("PATCH", f"{buckets}/{cold}/o/o", null),
            ],
        ),
    ):
        for request in requests:
            assert storage_class == call(*request).json()["storageClass"]


def test_too_much_custom_metadata_is_refused(bucket: storage.Bucket) -> None:
    """8 KiB of keys and values are stored; one byte more answers 400, also by patches."""
    blob = bucket.blob("o")
    blob.metadata = {"k": "v" * 8191}
    blob.upload_from_string(b"x")
    blob.metadata = {"l": ""}
    with pytest.raises(BadRequest):
        blob.patch()
    other = bucket.blob("other")
    other.metadata = {"k": "v" * 8192}
    with pytest.raises(BadRequest):
        other.upload_from_string(b"x")

    assert {"k": "v" * 8191} == bucket.get_blob("o").metadata
    assert not bucket.blob("other").exists()


def test_a_download_describes_the_object(bucket: storage.Bucket, call: Call) -> None:
    """Headers have versions, hashes, sizes and metadata that fit there; HEAD is GET without a body."""
    blob = bucket.blob("o")
    blob.metadata = UNICODE | {"bad key": "x", "line": "a\nb"}
    blob.cache_control = "no-store"
    blob.upload_from_string(b"content")
    answer = call("GET", media(bucket))
    expected = {
        "X-Goog-Generation": str(blob.generation),
        "X-Goog-Metageneration": "1",
        "X-Goog-Hash": f"crc32c={blob.crc32c},md5={blob.md5_hash}",
        "X-Goog-Stored-Content-Length": "7",
        "X-Goog-Stored-Content-Encoding": "identity",
        "X-Goog-Storage-Class": "STANDARD",
        "Cache-Control": "no-store",
        "ETag": blob.etag,
        "X-Goog-Meta-plain": "value",
    }
    read = bucket.blob("o")
    read.download_as_bytes()

    assert expected == {name: answer.headers[name] for name in expected}
    assert ["X-Goog-Meta-plain"] == [
        name for name in answer.headers if name.lower().startswith("x-goog-meta-")
    ]
    assert (blob.generation, 1) == (int(read.generation), int(read.metageneration)), "the client learns it"
    for target in (media(bucket), f"/storage/v1/b/{bucket.name}/o/o"):
        head, get = call("HEAD", target), call("GET", target)
        assert (200, b"", str(len(get.body))) == (head.status, head.body, head.headers["Content-Length"])


@pytest.mark.parametrize(
    ("asked", "content_range", "body"),
    [
        ("bytes=2-4", "bytes 2-4/10", b"234"),
        ("bytes=7-", "bytes 7-9/10", b"789"),
        ("bytes=-3", "bytes 7-9/10", b"789"),
        ("bytes=-99", "bytes 0-9/10", b"0123456789"),
        ("bytes=8-99", "bytes 8-9/10", b"89"),
        *((odd, None, b"0123456789") for odd in ("bytes=4-2", "bytes=0-1,4-5", "lines=0-1")),
        pytest.param(f"bytes=0-{'9' * 5_000}", None, b"0123456789", id="more digits than Python reads"),
    ],
)
def test_a_range_is_served_exactly(
    bucket: storage.Bucket, call: Call, asked: str, content_range: str | None, body: bytes
) -> None:
    """First and last bytes are inclusive, suffixes count from the end, nonsense is ignored."""
    bucket.blob("o").upload_from_string(b"0123456789")
    answer = call("GET", media(bucket), Range=asked)

    assert (206 if content_range else 200, body) == (answer.status, answer.body)
    assert content_range == answer.headers.get("Content-Range")


@pytest.mark.parametrize(("content", "asked"), [(b"0123", "bytes=4-"), (b"", "bytes=0-"), (b"0", "bytes=-0")])
def test_an_empty_range_is_refused(bucket: storage.Bucket, call: Call, content: bytes, asked: str) -> None:
    """A range past the end answers 416 and reports the size."""
    bucket.blob("o").upload_from_string(content)
    answer = call("GET", media(bucket), Range=asked)

    assert (416, f"bytes */{len(content)}") == (answer.status, answer.headers["Content-Range"])
    assert 416 == answer.json()["error"]["code"]


def test_gzip_is_decompressed_unless_the_reader_takes_it(bucket: storage.Bucket, call: Call) -> None:
    """A reader that accepts gzip gets the stored bytes, or a range of them; any other the plain ones."""
    packed = gzip.compress(b"plain")
    blob = bucket.blob("o")
    blob.content_encoding = "gzip"
    blob.upload_from_string(packed)
    taken = call("GET", media(bucket), Accept_Encoding="gzip")
    part = call("GET", media(bucket), Accept_Encoding="gzip", Range="bytes=2-5")
    plain = call("GET", media(bucket), Range="bytes=0-1")

    assert (packed, "gzip") == (taken.body, taken.headers["Content-Encoding"])
    assert (206, packed[2:6]) == (part.status, part.body)
    assert (200, b"plain", None) == (
        plain.status,
        plain.body,
        plain.headers.get("Content-Encoding"),
    )
    assert b"plain" == bucket.blob("o").download_as_bytes()
    assert packed == bucket.blob("o").download_as_bytes(raw_download=True)


def test_a_missing_object_answers_json(bucket: storage.Bucket, call: Call) -> None:
    """404 explains itself in GCS's error document."""
    with pytest.raises(NotFound):
        bucket.blob("missing").download_as_bytes()
    message = f"No such object: {bucket.name}/missing"
    answer = call("GET", f"/storage/v1/b/{bucket.name}/o/missing")

    assert {
        "error": {
            "code": 404,
            "message": message,
            "errors": [{"domain": "global", "reason": "notFound", "message": message}],
        }
    } == answer.json()


def test_the_client_moves_a_custom_time_on(bucket: storage.Bucket) -> None:
    """A patch sets it, moves it by a microsecond, and cannot move it back or remove it."""
    start = datetime(2026, 1, 31, tzinfo=UTC)
    blob = bucket.blob("o")
    blob.upload_from_string(b"x")
    for time in (start, start + timedelta(microseconds=1)):
        blob.custom_time = time
        blob.patch()
    for refused in (start, None):
        blob.custom_time = refused
        with pytest.raises(BadRequest):
            blob.patch()
    found = bucket.get_blob("o")

    assert (start + timedelta(microseconds=1), 3) == (found.custom_time, found.metageneration)


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ('"2026-01-31T12:00:00Z"', "2026-01-31T12:00:00Z"),
        ('"2026-01-31T12:00:00.000000Z"', "2026-01-31T12:00:00Z"),
        ('"2026-01-31t12:00:00.5z"', "2026-01-31T12:00:00.500000Z"),
        ('"2026-01-31T12:00:00+02:00"', "2026-01-31T10:00:00Z"),
        *((odd, None) for odd in ('"soon"', "1769860800", '"2026-01-31"', '"2026-01-31T12:00:00"')),
        ('"2026-02-30T00:00:00Z"', None),
    ],
)
def test_custom_times_are_in_utc(bucket: storage.Bucket, call: Call, sent: str, shown: str | None) -> None:
    """The client reads no offsets; the same time again is no move back. Anything but RFC 3339 answers 400."""
    bucket.blob("o").upload_from_string(b"x")
    target = f"/storage/v1/b/{bucket.name}/o/o"
    answers = [call("PATCH", target, f'{{"customTime": {time}}}'.encode()) for time in (sent, f'"{shown}"')]

    assert [200 if shown else 400] * 2 == [answer.status for answer in answers]
    assert [shown] * 3 == [each.json().get("customTime") for each in (*answers, call("GET", target))]


@pytest.mark.parametrize("field", ["acl", "eventBasedHold", "retention", "temporaryHold"])
def test_what_would_not_be_enforced_is_refused(bucket: storage.Bucket, call: Call, field: str) -> None:
    """Holds and ACLs answer 501 instead of being stored without effect."""
    bucket.blob("o").upload_from_string(b"x")
    answer = call("PATCH", f"/storage/v1/b/{bucket.name}/o/o", b'{"%s": [1]}' % field.encode())

    assert 501 == answer.status
