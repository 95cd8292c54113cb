"""Credentials of every kind, whose tokens come from this machine."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.oauth2.credentials import Credentials

from tests.credentials.token_endpoints import TokenEndpoints

EMAIL = "agent@demo.iam.gserviceaccount.com"
TARGET = "runtime@demo.iam.gserviceaccount.com"
POOL = "//iam.googleapis.com/projects/123/locations/global/workloadIdentityPools/pool/providers/provider"

Written = Callable[..., Path]


@pytest.fixture(autouse=True)
def nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing but this machine be reached, and nothing of its environment count."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    for name in (
        "FIRESTORE_EMULATOR_HOST",
        "STORAGE_EMULATOR_HOST",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_CLOUD_QUOTA_PROJECT",
        "GOOGLE_CLOUD_UNIVERSE_DOMAIN",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def endpoints() -> Iterator[TokenEndpoints]:
    """What hands out tokens."""
    served = TokenEndpoints()
    yield served
    served.close()


def new_private_key() -> str:
    """Make a key that nobody else knows, as PEM."""
    return (
        rsa.generate_private_key(public_exponent=65537, key_size=2048)
        .private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        .decode()
    )


@pytest.fixture(scope="session")
def private_key() -> str:
    """A key, once for all tests."""
    return new_private_key()


@pytest.fixture
def key_file(tmp_path: Path, endpoints: TokenEndpoints, private_key: str) -> Written:
    """Write a service account's key as the console gives it."""

    def write(**changes: Any) -> Path:
        info = {
            "type": "service_account",
            "project_id": "demo",
            "private_key_id": "1",
            "private_key": private_key,
            "client_email": EMAIL,
            "token_uri": f"{endpoints.url}/token",
            **changes,
        }
        return _written(tmp_path / "key.json", info)

    return write


@pytest.fixture
def login(endpoints: TokenEndpoints) -> Credentials:
    """What ``gcloud auth application-default login`` leaves, but for the endpoint, which no file can name."""
    return Credentials(  # type: ignore[no-untyped-call]  # google-auth types half
        None,
        refresh_token="of-the-user",  # noqa: S106  # of nobody
        token_uri=f"{endpoints.url}/token",
        client_id="client",
        client_secret="of-the-client",  # noqa: S106  # of nobody
        quota_project_id="paying",
    )


@pytest.fixture
def pool_file(tmp_path: Path, endpoints: TokenEndpoints) -> Written:
    """Write a configuration of workload identity federation, whose subject's token lies in a file."""

    def write(**changes: Any) -> Path:
        (tmp_path / "subject").write_text("token of another cloud")
        info = {
            "type": "external_account",
            "audience": POOL,
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": f"{endpoints.url}/v1/token",
            "credential_source": {"file": str(tmp_path / "subject")},
            **changes,
        }
        return _written(tmp_path / "pool.json", info)

    return write


def _written(file: Path, info: dict[str, Any]) -> Path:
    file.write_text(json.dumps(info))
    return file
