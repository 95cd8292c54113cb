"""Credentials of every kind get a token from where they say, for what a store needs and nothing else."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.auth import jwt
from google.auth.transport.requests import Request
from google.oauth2 import service_account
from google.oauth2.credentials import Credentials

from gcp_adk_store import (
    AccessDeniedError,
    CredentialsError,
    GcsArtifactService,
    InvalidInputError,
    Store,
    StoreCredentials,
    StoreSettings,
)
from tests.credentials.conftest import EMAIL, POOL, TARGET, Written
from tests.credentials.token_endpoints import TokenEndpoints

STORE_SCOPES = {
    "https://www.googleapis.com/auth/datastore",
    "https://www.googleapis.com/auth/devstorage.read_write",
}
GENERATE = f"/v1/projects/-/serviceAccounts/{TARGET}:generateAccessToken"


def sent_headers(credentials: StoreCredentials) -> dict[str, str]:
    """Return what a client of Google's puts into its requests with them."""
    headers: dict[str, str] = {}
    credentials.find().token.before_request(Request(), "GET", "https://storage.googleapis.com/", headers)
    return headers


def test_a_service_accounts_key_signs_for_its_token(key_file: Written, endpoints: TokenEndpoints) -> None:
    """With the scopes of documents and objects, and no other."""
    credentials = StoreCredentials(file=key_file())
    headers = sent_headers(credentials)
    claims = jwt.decode(endpoints.asked[0].fields["assertion"], verify=False)

    assert "Bearer token-1" == headers["authorization"]
    assert (EMAIL, STORE_SCOPES) == (claims["iss"], set(claims["scope"].split()))
    assert ["/token"] == endpoints.paths
    assert "demo" == credentials.find_project()
    assert f"service account key of {EMAIL} from" in str(credentials.find().identity)


def test_a_login_of_a_user_is_refreshed(login: Credentials, endpoints: TokenEndpoints) -> None:
    """With the refresh token that gcloud left."""
    credentials = StoreCredentials(login)
    headers = sent_headers(credentials)

    assert "Bearer token-1" == headers["authorization"]
    assert "paying" == headers["x-goog-user-project"]
    assert "of-the-user" == endpoints.asked[0].fields["refresh_token"]
    assert "user login" == credentials.find().identity.kind


def test_a_pool_exchanges_the_token_of_another_cloud(pool_file: Written, endpoints: TokenEndpoints) -> None:
    """For the audience of its provider."""
    credentials = StoreCredentials(file=pool_file())
    headers = sent_headers(credentials)
    fields = endpoints.asked[0].fields

    assert "Bearer token-1" == headers["authorization"]
    assert (POOL, "token of another cloud") == (fields["audience"], fields["subject_token"])
    assert STORE_SCOPES == set(fields["scope"].split())
    assert "workload identity federation" == credentials.find().identity.kind


def test_a_pool_acts_as_the_service_account_that_its_file_names(
    pool_file: Written, endpoints: TokenEndpoints
) -> None:
    """Through IAM, with the token of the exchange."""
    credentials = StoreCredentials(
        file=pool_file(service_account_impersonation_url=f"{endpoints.url}{GENERATE}")
    )
    headers = sent_headers(credentials)

    assert "Bearer token-2" == headers["authorization"]
    assert ["/v1/token", GENERATE] == endpoints.paths
    assert "token-1" == endpoints.asked[1].bearer
    assert STORE_SCOPES == set(endpoints.asked[1].fields["scope"])
    assert TARGET == credentials.find().identity.impersonates


def test_another_service_account_is_acted_as(login: Credentials, endpoints: TokenEndpoints) -> None:
    """Its token has the scopes of a store, and its requests count where those of the login did."""
    credentials = StoreCredentials(
        login, impersonate_service_account=TARGET, iam_endpoint=f"{endpoints.url}/"
    )
    headers = sent_headers(credentials)
    identity = credentials.find().identity

    assert ("Bearer token-2", "paying") == (headers["authorization"], headers["x-goog-user-project"])
    assert ["/token", GENERATE] == endpoints.paths
    assert STORE_SCOPES == set(endpoints.asked[1].fields["scope"])
    assert ("user login", TARGET) == (identity.kind, identity.impersonates)


def test_credentials_of_the_environment_are_found(
    key_file: Written, endpoints: TokenEndpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing else is said."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key_file()))
    credentials = StoreCredentials()

    assert "Bearer token-1" == sent_headers(credentials)["authorization"]
    assert ["/token"] == endpoints.paths
    assert ("service account key", "demo") == (
        credentials.find().identity.kind,
        credentials.find_project(),
    )


def test_settings_say_whose_credentials_they_are(key_file: Written) -> None:
    """File, quota project, universe, and an account to act as."""
    env = {
        "ADK_STORE_CREDENTIALS_FILE": str(key_file(universe_domain="example.test")),
        "ADK_STORE_QUOTA_PROJECT": "paying",
        "GOOGLE_CLOUD_UNIVERSE_DOMAIN": "example.test",
    }
    identity = StoreCredentials.from_settings(StoreSettings.from_env(env)).find().identity
    env = {"ADK_STORE_CREDENTIALS_FILE": str(key_file()), "ADK_STORE_IMPERSONATE": TARGET}
    acting = StoreCredentials.from_settings(StoreSettings.from_env(env)).find().identity

    assert (EMAIL, "paying", "example.test") == (
        identity.principal,
        identity.quota_project,
        identity.universe_domain,
    )
    assert TARGET == acting.impersonates


@pytest.mark.parametrize("by", ["argument", "environment"])
def test_a_universe_that_is_not_the_credentials_is_refused(
    key_file: Written, endpoints: TokenEndpoints, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """Before a token of one goes to the other."""
    if by == "environment":
        monkeypatch.setenv("GOOGLE_CLOUD_UNIVERSE_DOMAIN", "example.test")
    credentials = StoreCredentials(
        file=key_file(), universe_domain="example.test" if by == "argument" else None
    )
    with pytest.raises(
        CredentialsError, match=r"universe googleapis\.com, and the settings name example\.test"
    ):
        credentials.find()
    assert [] == endpoints.asked


@pytest.mark.parametrize(
    "content",
    [
        None,
        "{",
        "[]",
        "{}",
        '{"type": "service_account"}',
        '{"type": "impersonated_service_account"}',
        '{"type": "external_account"}',
        "\udce4",
    ],
)
@pytest.mark.parametrize("by", ["argument", "environment"])
def test_a_file_without_credentials_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, by: str
) -> None:
    """With what to do; never with what is in it."""
    file = tmp_path / "credentials.json"
    if content is not None:
        file.write_bytes(content.encode(errors="surrogateescape"))
    if by == "environment":
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    with pytest.raises(CredentialsError) as caught:
        StoreCredentials(file=file if by == "argument" else None).find()

    for says in (str(file), "gcloud auth application-default login", "_CREDENTIALS_FILE", "ADK_STORE_LOCAL"):
        assert says in str(caught.value)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: StoreCredentials(impersonate_service_account="me"), "must be the email of a service"),
        (lambda: StoreCredentials(quota_project="a b"), "must be a Google Cloud project's id"),
        (lambda: StoreCredentials(universe_domain="https://x"), "must be a domain alone"),
        (lambda: StoreSettings(credentials_file=""), "credentials_file '' must be a path"),
        (
            lambda: StoreCredentials(_key(), file="key.json"),
            "credentials and file exclude each other",
        ),
        (
            lambda: Store.connect(credentials=StoreCredentials(), impersonate_service_account=TARGET),
            "to StoreCredentials alone",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(build: Callable[[], object], says: str) -> None:
    """Before anything is read or contacted."""
    with pytest.raises(InvalidInputError, match=says):
        build()


def _key() -> Any:
    return service_account.Credentials(None, EMAIL, "")  # type: ignore[no-untyped-call]  # google-auth types half


@pytest.fixture
def iam(endpoints: TokenEndpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the IAM Credentials API be the one on this machine."""
    call: Any = Request.__call__

    def to_this_machine(request: Request, url: str, *args: Any, **kwargs: Any) -> Any:
        here = url.replace("https://iamcredentials.googleapis.com", endpoints.url)
        return call(request, here, *args, **kwargs)

    monkeypatch.setattr(Request, "__call__", to_this_machine)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1")  # nothing is asked of it


@pytest.mark.usefixtures("iam")
async def test_iam_signs_for_the_account_of_a_pool(pool_file: Written, endpoints: TokenEndpoints) -> None:
    """Over HTTP, in the shape of the IAM Credentials API, with a token of its own scope."""
    file = pool_file(service_account_impersonation_url=f"{endpoints.url}{GENERATE}")
    service = GcsArtifactService("bucket", credentials=StoreCredentials(file=file))
    url = await service._signer.sign("name", method="GET", expiration=60)
    await service.close()

    assert ["/v1/token", GENERATE, GENERATE.replace("generateAccessToken", "signBlob")] == endpoints.paths
    assert ["https://www.googleapis.com/auth/cloud-platform"] == endpoints.asked[1].fields["scope"]
    assert b"signed:".hex() in url
    assert TARGET.replace("@", "%40") in url


@pytest.mark.usefixtures("iam")
@pytest.mark.parametrize("with_key", [False, True])
async def test_iam_signs_for_the_account_that_is_acted_as(
    login: Credentials,
    key_file: Written,
    endpoints: TokenEndpoints,
    with_key: bool,  # noqa: FBT001  # a case
) -> None:
    """With the token of who acts, even one who has a key; nothing but the signature is asked for."""
    acting = StoreCredentials(
        None if with_key else login,
        file=key_file() if with_key else None,
        impersonate_service_account=TARGET,
    )
    service = GcsArtifactService("bucket", credentials=acting)
    url = await service._signer.sign("name", method="GET", expiration=60)
    await service.close()

    assert ["/token", GENERATE.replace("generateAccessToken", "signBlob")] == endpoints.paths
    assert "token-1" == endpoints.asked[1].bearer
    assert b"signed:".hex() in url
    assert TARGET.replace("@", "%40") in url


@pytest.mark.usefixtures("iam")
async def test_who_may_not_let_another_account_sign_is_refused_at_once(
    login: Credentials, endpoints: TokenEndpoints
) -> None:
    """It is a permission that is missing, not a server that is away."""
    service = GcsArtifactService(
        "bucket", credentials=StoreCredentials(login, impersonate_service_account=TARGET)
    )
    endpoints.refuse_after(1, 403, {"error": {"code": 403}})
    with pytest.raises(AccessDeniedError, match=f"sign for {TARGET} .403.*serviceAccountTokenCreator"):
        await service._signer.sign("name", method="GET", expiration=60)
    await service.close()


def test_nothing_is_read_before_the_first_use(tmp_path: Path) -> None:
    """A store is made without its credentials, as on emulators."""
    store = Store.connect(
        bucket="bucket", credentials=StoreCredentials(file=tmp_path / "none"), project="demo"
    )

    assert store.has_artifacts
    asyncio.run(store.close())
    assert not json.dumps(sorted(path.name for path in tmp_path.iterdir())).count("none")
