"""Both clients of a store carry one token, count for one project and ask one universe, over TLS."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.credentials.cloud import Cloud
from tests.credentials.conftest import Written
from tests.credentials.token_endpoints import TokenEndpoints
from tests.support.ready_programs import ready_programs

ROOT = Path(__file__).parents[2]


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    """Google Cloud, and a universe of another name."""
    served = Cloud(tmp_path, ["*.googleapis.com", "*.example.test"])
    yield served
    served.close()


@pytest.fixture
def take_a_turn(cloud: Cloud) -> Callable[..., None]:
    """Let a process of its own use a store."""

    def run(*arguments: str, **variables: str) -> None:
        inherited = {name: value for name, value in os.environ.items() if "EMULATOR_HOST" not in name}
        ran = subprocess.run(
            [ready_programs() / "python", str(ROOT / "tests/credentials/one_turn.py"), *arguments],
            cwd=ROOT,
            env={
                **inherited,
                "PYTHONPATH": str(ROOT),
                "HTTPS_PROXY": cloud.proxy_url,
                "https_proxy": cloud.proxy_url,
                "NO_PROXY": "127.0.0.1",
                "no_proxy": "127.0.0.1",
                "REQUESTS_CA_BUNDLE": str(cloud.trusted),
                "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(cloud.trusted),
                "ADK_STORE_PROJECT": "demo",
                "ADK_STORE_BUCKET": "bucket",
                **variables,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert 0 == ran.returncode, ran.stderr

    return run


@pytest.mark.sample(1)
@pytest.mark.parametrize("arguments", [[], ["uris"]], ids=["a store", "services of URIs"])
def test_one_token_serves_documents_payloads_and_artifacts(
    take_a_turn: Callable[..., None],
    cloud: Cloud,
    pool_file: Written,
    endpoints: TokenEndpoints,
    arguments: list[str],
) -> None:
    """It is fetched once, and every request counts for the quota project."""
    take_a_turn(*arguments, ADK_STORE_CREDENTIALS_FILE=str(pool_file()), ADK_STORE_QUOTA_PROJECT="paying")
    sent = [*cloud.firestore, *cloud.storage]

    assert ["/v1/token"] == endpoints.paths
    assert len(cloud.firestore) >= 2
    assert len(cloud.storage) >= 5
    assert [{"authorization": "Bearer token-1", "x-goog-user-project": "paying"}] * len(sent) == sent
    assert {"firestore.googleapis.com:443", "storage.googleapis.com:443"} <= set(cloud.hosts)


@pytest.mark.long
def test_the_service_account_that_is_attached_serves_without_a_file(
    take_a_turn: Callable[..., None], cloud: Cloud, endpoints: TokenEndpoints, tmp_path: Path
) -> None:
    """As on Cloud Run: the metadata server is asked for one token, of the scopes of a store."""
    server = endpoints.url.removeprefix("http://")
    take_a_turn(
        ADK_STORE_PROJECT="",
        CLOUDSDK_CONFIG=str(tmp_path),
        GCE_METADATA_HOST=server,
        GCE_METADATA_IP=server,
    )
    tokens = {sent["authorization"] for sent in (*cloud.firestore, *cloud.storage)}

    assert {"Bearer token-1"} == tokens
    scopes = {f"https://www.googleapis.com/auth/{name}" for name in ("datastore", "devstorage.read_write")}
    assert [scopes] == [set(asked.fields["scopes"].split(",")) for asked in endpoints.asked]
    assert cloud.firestore
    assert cloud.storage


def test_all_clients_ask_the_universe_of_the_credentials(
    take_a_turn: Callable[..., None], cloud: Cloud, key_file: Written, endpoints: TokenEndpoints
) -> None:
    """And nothing of googleapis.com."""
    take_a_turn(
        GOOGLE_APPLICATION_CREDENTIALS=str(key_file(universe_domain="example.test")),
        GOOGLE_CLOUD_UNIVERSE_DOMAIN="example.test",
    )
    tokens = {sent["authorization"] for sent in (*cloud.firestore, *cloud.storage)}

    assert {"firestore.example.test:443", "storage.example.test:443"} == set(cloud.hosts)
    assert 1 == len(tokens)
    assert [] == endpoints.asked
