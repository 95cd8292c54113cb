"""Show what the XML API's form of a URL takes and answers, and what of a signed one is checked."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth.crypt import RSASigner
from google.cloud import storage
from google.oauth2.service_account import Credentials

from tests.emulators.storage.conftest import Answer, Call

Sign = Callable[..., str]


def test_headers_describe_the_object(bucket: storage.Bucket, call: Call) -> None:
    """Standard and custom headers of a PUT become its metadata, and a GET returns it as headers."""
    target = f"/{bucket.name}/dir/o%20x"
    headers = {
        "Cache_Control": "no-store",
        "Content_Disposition": "attachment",
        "Content_Language": "de",
        "Content_Type": "a/b",
        "x_goog_meta_k": "v",
        "x_goog_storage_class": "NEARLINE",
    }
    put = call("PUT", target, b"content", x_goog_custom_time="2026-01-31T12:00:00+02:00", **headers)
    found = bucket.get_blob("dir/o x")
    answer = call("GET", target)

    assert (200, b"content") == (put.status, answer.body)
    assert ("NEARLINE", datetime(2026, 1, 31, 10, tzinfo=UTC)) == (found.storage_class, found.custom_time)
    assert headers == {name: answer.headers[name.replace("_", "-")] for name in headers}


@pytest.mark.parametrize(
    ("permitted", "size", "code"),
    [
        ("2,4", 1, "EntityTooSmall"),
        ("2,4", 2, None),
        ("2, 4", 4, None),
        ("2,4", 5, "EntityTooLarge"),
        ("0,0", 0, None),
        ("0,0", 1, "EntityTooLarge"),
        ("", 1, "InvalidArgument"),
        ("4", 4, "InvalidArgument"),
        ("2-4", 3, "InvalidArgument"),
        ("2,", 3, "InvalidArgument"),
        ("-1,4", 3, "InvalidArgument"),
        ("0," + "9" * 5000, 3, "InvalidArgument"),
    ],
)
def test_a_body_must_have_the_permitted_length(
    bucket: storage.Bucket, call: Call, permitted: str, size: int, code: str | None
) -> None:
    """Both ends are inclusive; a body outside, or a malformed header, answers 400 and replaces nothing."""
    bucket.blob("o").upload_from_string(b"old")
    answer = call("PUT", f"/{bucket.name}/o", b"x" * size, x_goog_content_length_range=permitted)

    assert (400 if code else 200, code) == (answer.status, answer.code())
    assert (b"old" if code else b"x" * size) == bucket.blob("o").download_as_bytes()


def test_the_url_overrides_how_bytes_are_described(bucket: storage.Bucket, call: Call) -> None:
    """The two parameters replace headers of a GET or HEAD, of ranges too; the object stays as it is.

    A generation that another one replaced is not there.
    """
    blob = bucket.blob("o")
    blob.content_disposition = "inline"
    blob.upload_from_string(b"content", content_type="a/b")
    asked = (
        "response-content-disposition=attachment%3B%20filename%3D%22a.txt%22&response-content-type=text/plain"
    )
    answers = [
        call("GET", f"/{bucket.name}/o?{asked}"),
        call("HEAD", f"/{bucket.name}/o?{asked}"),
        call("GET", f"/{bucket.name}/o?{asked}", Range="bytes=0-0"),
        call("GET", f"/{bucket.name}/o?response-content-type="),
    ]
    described = [
        (answer.status, answer.headers["Content-Disposition"], answer.headers["Content-Type"])
        for answer in answers
    ]
    overridden = ('attachment; filename="a.txt"', "text/plain")

    assert [(200, *overridden), (200, *overridden), (206, *overridden), (200, "inline", "a/b")] == described
    assert "a/b" == bucket.get_blob("o").content_type

    pinned = f"/{bucket.name}/o?generation={blob.generation}"
    before = call("GET", pinned)
    blob.upload_from_string(b"new")
    after = call("GET", pinned)

    assert (b"content", 404, "NoSuchKey") == (before.body, after.status, after.code())


def test_errors_are_xml(bucket: storage.Bucket, call: Call) -> None:
    """Refusals carry the XML API's codes, whatever characters their messages repeat; HEAD has no body."""
    bucket.blob("o").upload_from_string(b"x")
    path = f"/{bucket.name}/o"
    past_the_end = call("GET", path, Range="bytes=1-")
    override = f"{path}?response-content-disposition="
    chunked = {"Transfer_Encoding": "chunked", "x_goog_content_length_range": "0,4"}
    for answer, expected in (
        (call("GET", f"/{bucket.name}/%3Cmissing%3E%01%26"), (404, "NoSuchKey")),
        (call("GET", "/missing-bucket/o"), (404, "NoSuchBucket")),
        (call("PUT", path, b"", x_goog_if_generation_match="0"), (412, "PreconditionFailed")),
        (call("PUT", path, b"", x_goog_if_generation_match="none"), (400, "InvalidArgument")),
        (call("PUT", path, b"", x_goog_custom_time="2026-01-31"), (400, "InvalidArgument")),
        (call("PUT", path, b"5\r\n12345\r\n0\r\n\r\n", **chunked), (400, "EntityTooLarge")),
        # No header has line ends, or what is outside printable ASCII.
        (call("GET", f"{override}a%0D%0AX-Injected:%201"), (400, "InvalidArgument")),
        (call("GET", f"{override}%E2%98%83"), (400, "InvalidArgument")),
        (past_the_end, (416, "InvalidRange")),
        (call("DELETE", path), (501, "NotImplemented")),
        (call("HEAD", f"/{bucket.name}/missing"), (404, None)),
    ):
        assert expected == (answer.status, answer.code())
    assert "bytes */1" == past_the_end.headers["Content-Range"]


def test_a_json_object_is_answered_as_it_is(bucket: storage.Bucket, call: Call) -> None:
    """The JSON API's ``fields`` does not cut the bytes of an object."""
    bucket.blob("o").upload_from_string(b'{"a": 1, "b": 2}', content_type="application/json")

    assert b'{"a": 1, "b": 2}' == call("GET", f"/{bucket.name}/o?fields=a").body


@pytest.fixture(scope="module")
def credentials() -> Credentials:
    """Make a service account's credentials, with a key that nobody else knows."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    signer = RSASigner.from_string(pem.decode())
    return Credentials(signer, "sa@p.iam.gserviceaccount.com", "")  # type: ignore[no-untyped-call]


@pytest.fixture
def sign(bucket: storage.Bucket, credentials: Credentials) -> Sign:
    """Sign a URL of the object "dir/o x"."""

    def url(method: str = "GET", **options: Any) -> str:
        blob = bucket.blob("dir/o x")
        signed: str = blob.generate_signed_url(
            version="v4",
            expiration=timedelta(minutes=5),
            method=method,
            credentials=credentials,
            **options,
        )
        return signed

    return url


@pytest.fixture
def written(bucket: storage.Bucket) -> storage.Blob:
    """Create the object "dir/o x"."""
    blob = bucket.blob("dir/o x")
    blob.upload_from_string(b"content", content_type="a/b")
    return blob


@pytest.mark.usefixtures("written")
def test_an_expired_url_is_refused(bucket: storage.Bucket, sign: Sign, call: Call) -> None:
    """Past its date and seconds: 400. The signature itself is not checked, as production does."""
    answers = [
        call(method, re.sub(r"X-Goog-Date=\d{8}", "X-Goog-Date=20260101", sign(method)), b"new")
        for method in ("GET", "PUT")
    ]

    assert [(400, "ExpiredToken")] * 2 == [(answer.status, answer.code()) for answer in answers]
    assert b"content" == bucket.blob("dir/o x").download_as_bytes()

    answers = [
        call("GET", re.sub(r"X-Goog-Signature=\w+", "X-Goog-Signature=00", sign())),
        call("GET", sign("PUT")),
        call("HEAD", sign()),
    ]

    assert [200, 200, 200] == [answer.status for answer in answers]


@pytest.mark.parametrize(
    ("name", "value"),
    [("Content-Type", "a/b"), ("x-goog-content-length-range", "0,9"), ("x-goog-meta-k", "v")],
)
def test_a_signed_header_must_be_sent_and_one_of_googles_signed(
    bucket: storage.Bucket, sign: Sign, call: Call, name: str, value: str
) -> None:
    """Else a PUT answers 400 and stores nothing; an ordinary header may be sent."""
    url = sign("PUT", headers={name: value})
    sent = {name.replace("-", "_"): value}
    assert_refused(bucket, call("PUT", url, b"x"))
    assert 200 == call("PUT", url, b"x", **sent).status
    bucket.blob("dir/o x").delete()
    if name.startswith("x-goog-"):
        assert_refused(bucket, call("PUT", sign("PUT"), b"x", **sent))
    assert 200 == call("PUT", sign("PUT"), b"x", Cache_Control="no-store").status


def assert_refused(bucket: storage.Bucket, refused: Answer) -> None:
    """Check that a request was malformed, and stored nothing."""
    assert (400, "MalformedSecurityHeader") == (refused.status, refused.code())
    assert not bucket.blob("dir/o x").exists()


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize(
    ("found", "replacement"),
    [
        *((r"X-Goog-Date=\w+", f"X-Goog-Date={date}") for date in ("today", "99991231T235959Z")),
        *((r"X-Goog-Expires=\d+", f"X-Goog-Expires={seconds}") for seconds in ("-1", "604801", "9" * 5000)),
        (r"X-Goog-SignedHeaders=\w+", "X-Goog-SignedHeaders=content-type"),
        (r"X-Goog-Signature=\w+", "X-Goog-Signature="),
        *(
            (f"X-Goog-{name}=[^&]+&", "")
            for name in ("Algorithm", "Credential", "Date", "Expires", "SignedHeaders")
        ),
    ],
)
def test_a_malformed_signed_url_is_refused(sign: Sign, call: Call, found: str, replacement: str) -> None:
    """No date, more than seven days, no signed host, or a missing parameter: 400."""
    answer = call("GET", re.sub(found, replacement, sign()))

    assert (400, "MalformedSecurityHeader") == (answer.status, answer.code())
