"""A deployment that APIs on this machine describe."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from google.auth.credentials import Credentials

from gcp_adk_store import StoreCredentials
from gcp_adk_store.cloud.auth.tokens import Identity
from gcp_adk_store.doctor import admin_api
from gcp_adk_store.doctor.findings import Facts, Finding, MemoryCounts, Place, Probe
from gcp_adk_store.doctor.report import findings_of
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, STORAGE_VARIABLE
from tests.credentials.conftest import new_private_key
from tests.doctor.google_apis import BUCKET, DATABASE, PROJECT, GoogleApis

PLACE = Place(project=PROJECT, database=DATABASE, bucket=BUCKET, prefix="adk")
IDENTITY = Identity(
    kind="metadata server", found_in="the environment", principal="agent@demo.iam.gserviceaccount.com"
)
SUCCEEDED = Probe(samples_ms=[1.0, 2.0, 3.0])


class Fixed(Credentials):
    """Credentials that have but one token."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # google-auth types half
        self.token = "token"  # noqa: S105  # of nobody

    def refresh(self, request: object) -> None:
        """Stay with it."""
        assert request is not None


Look = Callable[..., dict[str, Finding]]


@pytest.fixture(scope="session")
def served() -> Iterator[GoogleApis]:
    """The APIs, once for all tests."""
    apis = GoogleApis()
    yield apis
    apis.close()


@pytest.fixture
def apis(served: GoogleApis) -> GoogleApis:
    """The APIs of a healthy deployment."""
    served.heal()
    return served


@pytest.fixture(scope="session")
def private_key() -> str:
    """A key, once for all tests."""
    return new_private_key()


@pytest.fixture
def look(apis: GoogleApis) -> Look:
    """Ask the APIs, and return what is found by its check."""

    def asked(
        *,
        identity: Identity = IDENTITY,
        documents: Probe = SUCCEEDED,
        objects: Probe = SUCCEEDED,
        place: Place = PLACE,
    ) -> dict[str, Finding]:
        shared = StoreCredentials(Fixed()).find().token
        answers = admin_api.look(shared, place, endpoint=apis.url)
        facts = Facts(
            place=place,
            identity=identity,
            answers=answers,
            documents=documents,
            objects=objects,
            memories=MemoryCounts(),
        )
        return {finding.check: finding for finding in findings_of(facts)}

    return asked


@pytest.fixture
def in_production(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let neither emulators nor anything beyond this machine be there."""
    for name in (FIRESTORE_VARIABLE, STORAGE_VARIABLE, "GOOGLE_CLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")


@pytest.fixture
def key_file(tmp_path: Path, private_key: str) -> Path:
    """A key of another universe, which signs its tokens by itself."""
    file = tmp_path / "key.json"
    file.write_text(
        json.dumps(
            {
                "type": "service_account",
                "project_id": PROJECT,
                "private_key": private_key,
                "client_email": "agent@demo.iam.gserviceaccount.com",
                "token_uri": "http://127.0.0.1:9/",
                "universe_domain": "example.test",
            }
        )
    )
    return file
