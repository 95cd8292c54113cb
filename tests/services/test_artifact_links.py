"""Links: URLs that read a version or put a file, signed with a key or by IAM."""

import base64
import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import pytest
import requests
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from google.adk.platform import time as platform_time
from google.auth import credentials as auth_credentials
from google.auth.transport import Request as Transport
from google.auth.transport.requests import Request
from google.genai import types
from google.oauth2 import service_account

from gcp_adk_store import (
    AccessDeniedError,
    ArtifactService,
    GcsArtifactService,
    InvalidInputError,
    UnavailableError,
    UploadMissingError,
)
from gcp_adk_store.testing.conformance.running import file, reference, text, tombstone
from tests.services.conftest import WHO

pytestmark = pytest.mark.emulators

REPORT: dict[str, Any] = {**WHO, "filename": "ünï report #1.txt"}
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EMAIL = "signer@project.iam.gserviceaccount.com"


def signing_credentials() -> service_account.Credentials:
    """Return credentials that have a key."""
    pem = KEY.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    info = {"client_email": EMAIL, "private_key": pem.decode(), "token_uri": "https://token.invalid"}
    return service_account.Credentials.from_service_account_info(info)  # type: ignore[no-untyped-call,no-any-return]  # as below


@pytest.fixture
def with_key(artifacts: ArtifactService) -> ArtifactService:
    """A service whose credentials have a key."""
    return GcsArtifactService(artifacts.bucket_name, credentials=signing_credentials())


def get(url: str) -> str:
    """Return what a browser shows."""
    return requests.get(url, timeout=60).text


def verify(url: str, *, method: str, headers: Mapping[str, str]) -> None:
    """Check the signature of *url* as Cloud Storage does, by the documentation of its V4 process."""
    split = urlsplit(url)
    query = dict(parse_qsl(split.query, keep_blank_values=True))
    signature = bytes.fromhex(query.pop("X-Goog-Signature"))
    canonical_query = "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in sorted(query.items()))
    sent = {"host": split.netloc, **{name.lower(): value for name, value in headers.items()}}
    names = query["X-Goog-SignedHeaders"].split(";")
    canonical_headers = "".join(f"{name}:{sent[name]}\n" for name in names)
    request = "\n".join(
        [method, split.path, canonical_query, canonical_headers, ";".join(names), "UNSIGNED-PAYLOAD"]
    )
    scope = query["X-Goog-Credential"].partition("/")[2]
    digest = hashlib.sha256(request.encode()).hexdigest()
    message = "\n".join(["GOOG4-RSA-SHA256", query["X-Goog-Date"], scope, digest])
    KEY.public_key().verify(signature, message.encode(), padding.PKCS1v15(), hashes.SHA256())


async def test_a_signed_url_reads_a_version(with_key: ArtifactService) -> None:
    """The latest or a given one, for an hour, with a signature that Cloud Storage takes."""
    for words in ("old", "new"):
        await with_key.save_artifact(**REPORT, artifact=text(words))
    latest = await with_key.get_signed_url(**REPORT)
    first = await with_key.get_signed_url(
        **REPORT, version=0, expiration=timedelta(minutes=5), response_disposition="attachment"
    )
    assert latest is not None
    assert first is not None
    query = dict(parse_qsl(urlsplit(first).query))

    assert ["new", "old"] == [get(latest), get(first)]
    verify(latest, method="GET", headers={})
    verify(first, method="GET", headers={})
    with pytest.raises(InvalidSignature):
        verify(first.replace("/0?", "/1?"), method="GET", headers={})
    assert ("300", "attachment") == (query["X-Goog-Expires"], query["response-content-disposition"])
    assert query["X-Goog-Credential"].startswith(f"{EMAIL}/")
    assert "X-Goog-Expires=3600" in latest


async def test_what_has_no_bytes_here_has_no_url(artifacts: ArtifactService) -> None:
    """What is absent, a file elsewhere, or what a rewind removed; a reference leads on to what it names."""
    await artifacts.save_artifact(**REPORT, artifact=text("words"))
    for name, part in (("ref", reference(REPORT)), ("far", file("gs://elsewhere/a")), ("gone", tombstone())):
        await artifacts.save_artifact(**WHO, filename=name, artifact=part)
    for method in (artifacts.get_signed_url, artifacts.get_authenticated_url):
        referred = await method(**WHO, filename="ref")

        assert referred is not None
        assert urlsplit(referred).path.endswith("/%C3%BCn%C3%AF%20report%20%231.txt/0")
        assert [None] * 4 == [
            *[await method(**WHO, filename=name) for name in ("none", "far", "gone")],
            await method(**REPORT, version=9),
        ]
    gone: dict[str, Any] = {**WHO, "filename": "gone"}
    assert await artifacts.copy_artifact(**gone, to_filename="copy") is None
    assert await artifacts.open_artifact(**gone) is None
    assert (
        f"https://storage.cloud.google.com/{artifacts.bucket_name}"
        "/app/user/session/%C3%BCn%C3%AF%20report%20%231.txt/0"
    ) == await artifacts.get_authenticated_url(**REPORT)


UNSIGNED, OVER = "the URL cannot be signed as asked for", "expiration is over"
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"expiration": timedelta(days=8)}, UNSIGNED),
    ({"signing_version": "v9"}, UNSIGNED),
    ({"no_such_option": 1}, UNSIGNED),
    ({"expiration": 0}, OVER),
    ({"expiration": -1}, OVER),
    ({"expiration": timedelta(0)}, OVER),
    ({"expiration": timedelta(seconds=-1)}, OVER),
    ({"expiration": timedelta(seconds=0.9)}, OVER),
    ({"expiration": 3600, "signing_version": "v2"}, OVER),
    ({"expiration": timedelta.max, "signing_version": "v2"}, UNSIGNED),
    ({"expiration": datetime(2020, 1, 1, tzinfo=UTC)}, OVER),
    ({"expiration": datetime.fromisoformat("2020-01-01")}, OVER),
    ({"expiration": "tomorrow"}, "expiration must be a datetime or a timedelta or a whole number"),
    ({"method": 5}, "method must be a string, not int"),
    ({"method": ""}, "method '' is no HTTP method"),
    ({"method": "GET\n"}, "is no HTTP method"),
    # Who signs is not the caller's to say: an application may hand options on that came with a request.
    ({"credentials": "x"}, "credentials cannot be passed"),
    ({"access_token": "x"}, "access_token cannot be passed"),
    ({"service_account_email": "x"}, "service_account_email cannot be passed"),
    ({"headers": "x"}, "headers cannot be passed"),
]


async def test_what_cannot_be_signed_is_refused(artifacts: ArtifactService) -> None:
    """As input, by the name of the option; what Google's library refuses has its error as the cause."""
    await artifacts.save_artifact(**REPORT, artifact=text("words"))
    for options, message in REFUSED:
        with pytest.raises(InvalidInputError, match=message) as caught:
            await artifacts.get_signed_url(**REPORT, **options)
        assert (caught.value.__cause__ is not None) >= (message == UNSIGNED)
        if message == OVER and isinstance(options["expiration"], timedelta):
            with pytest.raises(InvalidInputError, match=message):
                await artifacts.create_upload(**REPORT, **options)


class TokenOnly(auth_credentials.Scoped, auth_credentials.Credentials):
    """Credentials without a key, as those of Cloud Run; the metadata server says whose they are."""

    def __init__(self, email: str | None, scopes: Any = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # google-auth types half
        self.token = "token"  # noqa: S105  # of nobody
        if email:
            self.service_account_email = email
        self._scopes = scopes

    @property
    def requires_scopes(self) -> bool:
        return False

    def with_scopes(self, scopes: Any, default_scopes: Any = None) -> "TokenOnly":
        assert default_scopes is None
        return TokenOnly(getattr(self, "service_account_email", None), scopes)

    def refresh(self, request: Any) -> None:
        """Learn whose they are."""
        assert request is not None
        self.service_account_email = EMAIL


class Answer:
    """What IAM answers."""

    def __init__(self, status: int, body: Any) -> None:
        self.status = status
        self.headers: dict[str, str] = {}
        self.data = json.dumps(body).encode()


class Iam(Transport):
    """Signs as IAM does, for who may, and keeps what it was asked."""

    def __init__(self, status: int = 200) -> None:
        self.asked: list[tuple[str, str, bool]] = []
        self._status = status

    def __call__(
        self,
        url: str,
        method: str = "GET",
        body: Any = None,
        headers: Any = None,
        timeout: float | None = None,
        **_: Any,
    ) -> Answer:
        assert timeout is None or timeout > 0
        self.asked.append((method, url, headers["authorization"] == "Bearer token"))
        if self._status != 200:
            return Answer(self._status, {"error": "content of the answer"})
        payload = base64.b64decode(json.loads(body)["payload"])
        signature = KEY.sign(payload, padding.PKCS1v15(), hashes.SHA256())
        return Answer(200, {"signedBlob": base64.b64encode(signature).decode()})


def answers(monkeypatch: pytest.MonkeyPatch, iam: Iam) -> None:
    """Let *iam* answer the requests that Google's library for credentials sends."""
    monkeypatch.setattr(Request, "__call__", lambda _, *given, **options: iam(*given, **options))


def keyless(
    artifacts: ArtifactService,
    monkeypatch: pytest.MonkeyPatch,
    iam: Iam,
    *,
    email: str | None = EMAIL,
    signer: str | None = None,
) -> ArtifactService:
    """Return a service whose credentials let *iam* sign."""
    answers(monkeypatch, iam)
    return GcsArtifactService(
        artifacts.bucket_name, credentials=TokenOnly(email), signing_service_account=signer
    )


@pytest.mark.parametrize(
    ("email", "signer", "signs"),
    [
        (EMAIL, None, EMAIL),
        ("default", None, EMAIL),
        (None, "other@x", "other@x"),
        (EMAIL, "other@x", "other@x"),
    ],
)
async def test_without_a_key_iam_signs(
    artifacts: ArtifactService,
    monkeypatch: pytest.MonkeyPatch,
    email: str | None,
    signer: str | None,
    signs: str,
) -> None:
    """For the credentials' own service account, whatever they know of it, or for one that is named."""
    iam = Iam()
    service = keyless(artifacts, monkeypatch, iam, email=email, signer=signer)
    await service.save_artifact(**REPORT, artifact=text("words"))
    url = await service.get_signed_url(**REPORT)

    assert url is not None
    verify(url, method="GET", headers={})
    assert "words" == get(url)
    assert [("POST", True)] == [(method, token) for method, _, token in iam.asked]
    assert iam.asked[0][1].endswith(f"/serviceAccounts/{signs}:signBlob")


@pytest.mark.usefixtures("passing")
@pytest.mark.parametrize(
    ("status", "email", "error", "says"),
    [
        (403, EMAIL, AccessDeniedError, r"serviceAccounts\.signBlob on it; grant roles/iam\.serviceAccount"),
        (400, EMAIL, UnavailableError, "IAM did not sign"),
        (200, None, AccessDeniedError, r"sign no URL.*signing_service_account=.*impersonate"),
    ],
    ids=["not allowed", "a failure", "credentials of nobody"],
)
async def test_who_cannot_sign_learns_why(
    artifacts: ArtifactService,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    email: str | None,
    error: type[Exception],
    says: str,
) -> None:
    """The permission and its role, or the ways out; what IAM answered stays in the cause."""
    service = keyless(artifacts, monkeypatch, Iam(status), email=email)
    await service.save_artifact(**REPORT, artifact=text("words"))
    with pytest.raises(error, match=says) as caught:
        await service.get_signed_url(**REPORT)

    assert "content" not in str(caught.value)


class GarbledIam(Iam):
    """Answers with something else than a signature, so many times."""

    def __init__(self, data: bytes, times: float) -> None:
        super().__init__()
        self._data = data
        self._left = times

    def __call__(self, url: str, **asked: Any) -> Answer:  # type: ignore[override]  # as it is called
        answer = super().__call__(url, **asked)
        self._left -= 1
        if self._left >= 0:
            answer.data = self._data
        return answer


@pytest.mark.usefixtures("passing")
@pytest.mark.parametrize(
    "data", [b"<html>content", b'{"signedBl', b"[]", b"{}", b'{"signedBlob": 5}', b'{"signedBlob": "A"}', b""]
)
async def test_an_answer_of_iam_that_cannot_be_read_is_asked_for_again(
    artifacts: ArtifactService, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    """Once, it is not noticed; always, it is one to try again: nothing is wrong with what was asked for."""
    await artifacts.save_artifact(**REPORT, artifact=text("words"))
    once = keyless(artifacts, monkeypatch, GarbledIam(data, 1))
    url = await once.get_signed_url(**REPORT)
    answers(monkeypatch, GarbledIam(data, float("inf")))
    always = GcsArtifactService(artifacts.bucket_name, credentials=TokenOnly(EMAIL))
    with pytest.raises(UnavailableError, match="IAM gave no signature") as caught:
        await always.get_signed_url(**REPORT)

    assert url is not None
    verify(url, method="GET", headers={})
    assert "content" not in str(caught.value)


def put(url: str, headers: Mapping[str, str], data: bytes) -> int:
    """Put a file as a browser does; return the status."""
    return requests.put(url, headers=dict(headers), data=data, timeout=60).status_code


async def test_a_browser_puts_a_file_that_becomes_a_version(
    with_key: ArtifactService, request: pytest.FixtureRequest
) -> None:
    """The bytes never pass through the agent, and what waited for it is gone."""
    now = datetime.now(UTC)
    request.addfinalizer(platform_time.reset_time_provider)
    platform_time.set_time_provider(now.timestamp)
    await with_key.save_artifact(**REPORT, artifact=text("before"))
    upload = await with_key.create_upload(**REPORT, mime_type="text/csv", max_bytes=100)
    verify(upload.url, method="PUT", headers=upload.headers)
    assert 200 == put(upload.url, upload.headers, b"a,b")
    keys = await with_key.list_artifact_keys(**WHO)
    version = await with_key.finalize_upload(
        **REPORT, upload_id=upload.upload_id, display_name="Table", custom_metadata={"rows": 1}
    )
    loaded = await with_key.load_artifact(**REPORT)
    described = await with_key.get_artifact_version(**REPORT)

    assert [REPORT["filename"]] == keys
    assert 1 == version
    blob = types.Blob(data=b"a,b", mime_type="text/csv", display_name="Table")
    assert types.Part(inline_data=blob) == loaded
    assert described is not None
    assert {"rows": 1} == described.custom_metadata
    assert [] == await with_key._objects.names("adk-store-uploads/", delimiter=None)
    assert now + timedelta(hours=1) == upload.expires_at


async def test_an_upload_works_once_and_for_its_own_artifact_only(artifacts: ArtifactService) -> None:
    """Whoever else has its id finds nothing."""
    upload = await artifacts.create_upload(**REPORT)
    with pytest.raises(UploadMissingError, match="has no file yet"):
        await artifacts.finalize_upload(**REPORT, upload_id=upload.upload_id)
    statuses = [put(upload.url, upload.headers, data) for data in (b"first", b"second")]
    for other in ({**REPORT, "user_id": "other"}, {**REPORT, "filename": "other"}):
        with pytest.raises(UploadMissingError):
            await artifacts.finalize_upload(**other, upload_id=upload.upload_id)
    await artifacts.finalize_upload(**REPORT, upload_id=upload.upload_id)
    loaded = await artifacts.load_artifact(**REPORT)

    assert [200, 412] == statuses
    assert loaded is not None
    assert loaded.inline_data is not None
    assert b"first" == loaded.inline_data.data


async def test_an_upload_over_its_size_is_refused_by_the_bucket(artifacts: ArtifactService) -> None:
    """As signed: the browser cannot leave the header out."""
    upload = await artifacts.create_upload(**REPORT, max_bytes=3)
    headers = {name: value for name, value in upload.headers.items() if "range" not in name}

    assert 400 == put(upload.url, upload.headers, b"four")
    assert put(upload.url, headers, b"four") in (400, 403)
    assert 200 == put(upload.url, upload.headers, b"tri")


async def test_an_upload_that_makes_no_sense_is_refused(artifacts: ArtifactService) -> None:
    """Before a URL is made."""
    change: dict[str, Any]
    for change in ({"max_bytes": -1}, {"mime_type": "a\r\nb"}, {"expiration": timedelta(days=8)}):
        with pytest.raises(InvalidInputError):
            await artifacts.create_upload(**REPORT, **change)
    with pytest.raises(InvalidInputError, match=r"upload_id '../x' is malformed"):
        await artifacts.finalize_upload(**REPORT, upload_id="../x")
    with pytest.raises(InvalidInputError, match="reserved value 'user'"):
        await artifacts.create_upload(**{**REPORT, "session_id": "user"})
