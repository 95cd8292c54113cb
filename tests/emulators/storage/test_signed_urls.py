"""Show what of a signed URL is checked, with URLs that the real client signs."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth.crypt import RSASigner
from google.oauth2.service_account import Credentials

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.cloud import storage

    from tests.emulators.storage.conftest import Answer, Call

    Sign = Callable[..., str]


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


def test_a_signed_url_uploads_and_downloads(bucket: storage.Bucket, sign: Sign, call: Call) -> None:
    """A browser's PUT creates the object once, with what was signed; its GET reads it back."""
    signed = {
        "x-goog-if-generation-match": "0",
        "x-goog-content-length-range": "1,9",
        "x-goog-meta-k": "v",
    }
    url = sign("PUT", headers=dict(signed), content_type="a/b")
    sent = {name.replace("-", "_"): value for name, value in signed.items()}
    statuses = [call("PUT", url, b"content", Content_Type="a/b", **sent).status for _ in range(2)]
    answer = call("GET", sign())

    assert [200, 412] == statuses
    assert (200, b"content", "a/b", "v") == (
        answer.status,
        answer.body,
        answer.headers["Content-Type"],
        answer.headers["x-goog-meta-k"],
    )
    assert ["dir/o x"] == [blob.name for blob in bucket.list_blobs()]


def test_a_signed_url_pins_a_generation_and_describes_it(
    written: storage.Blob, sign: Sign, call: Call
) -> None:
    """The client's options for the response and the generation hold."""
    url = sign(
        generation=written.generation,
        response_disposition='attachment; filename="a b.txt"',
        response_type="text/plain",
    )
    answer = call("GET", url)
    written.upload_from_string(b"new")

    assert (b"content", 'attachment; filename="a b.txt"', "text/plain") == (
        answer.body,
        answer.headers["Content-Disposition"],
        answer.headers["Content-Type"],
    )
    assert (404, "NoSuchKey") == (call("GET", url).status, call("GET", url).code())


@pytest.mark.usefixtures("written")
def test_an_expired_url_is_refused(bucket: storage.Bucket, sign: Sign, call: Call) -> None:
    """Past its date and seconds a URL neither reads nor writes: 400."""
    answers = [
        call(method, re.sub(r"X-Goog-Date=\d{8}", "X-Goog-Date=20260101", sign(method)), b"new")
        for method in ("GET", "PUT")
    ]

    assert [(400, "ExpiredToken")] * 2 == [(answer.status, answer.code()) for answer in answers]
    assert b"content" == bucket.blob("dir/o x").download_as_bytes()


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


@pytest.mark.usefixtures("written")
def test_the_signature_itself_is_not_checked(sign: Sign, call: Call) -> None:
    """Any signature, and the URL of another method, are taken: production answers them with 403."""
    answers = [
        call("GET", re.sub(r"X-Goog-Signature=\w+", "X-Goog-Signature=00", sign())),
        call("GET", sign("PUT")),
        call("HEAD", sign()),
    ]

    assert [200, 200, 200] == [answer.status for answer in answers]
