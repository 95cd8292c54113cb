"""A deployment that APIs on this machine describe."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from google.oauth2.credentials import Credentials

from gcp_adk_store import Recovery, StoreCredentials, StoreSettings
from gcp_adk_store.cloud.auth.tokens import Identity
from gcp_adk_store.doctor import admin_api
from gcp_adk_store.doctor.examination import asked_of, examine
from gcp_adk_store.doctor.findings import Answer, Facts, Finding, KeysFacts, MemoryCounts, Place, Probe
from gcp_adk_store.doctor.report import findings_of
from gcp_adk_store.store.project import recoverable
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, STORAGE_VARIABLE
from tests.credentials.conftest import new_private_key
from tests.doctor.google_apis import BUCKET, DATABASE, PROJECT, GoogleApis

PLACE = Place(project=PROJECT, database=DATABASE, bucket=BUCKET, prefix="adk")
IDENTITY = Identity(
    kind="metadata server", found_in="the environment", principal="agent@demo.iam.gserviceaccount.com"
)
TOKEN = Credentials(token="token")  # type: ignore[no-untyped-call]  # noqa: S106  # of nobody
SUCCEEDED = {"samples_ms": [1.0, 2.0, 3.0]}


class Found(NamedTuple):
    """What the command prints of one check."""

    check: str
    status: str
    says: str
    commands: tuple[str, ...]
    terraform: str
    aside: str


Findings = dict[str, Found]
"""What is found by each check, in their order."""
Look = Callable[..., Findings]


def shown(findings: Sequence[Finding]) -> Findings:
    """Return *findings* as the command prints them."""
    return {each.check: Found(**{**asdict(each), "status": each.status.value}) for each in findings}


def found(*, place: Place = PLACE, keys: Mapping[str, Any] | None = None, **known: Any) -> Findings:
    """Return what is found of a deployment where this much is known: of *keys*, also answers of its APIs."""
    of_keys = None
    if keys is not None:
        answers = {name: Answer(**answer) for name, answer in keys.get("answers", {}).items()}
        of_keys = KeysFacts(**{"key": "the key", "database": "adk-keys", **keys, "answers": answers})
    kinds: dict[str, Callable[..., Any]] = {"documents": Probe, "objects": Probe, "memories": MemoryCounts}
    of_others = {name: kinds[name](**value) if name in kinds else value for name, value in known.items()}
    return shown(findings_of(Facts(place=place, keys=of_keys, **of_others)))


async def examined(
    chosen: StoreSettings, apis: GoogleApis | None = None, *, samples: int = 1, **options: Any
) -> tuple[Place, Findings]:
    """Return which deployment the command looks at by these settings, and what it finds."""
    facts = await examine(chosen, endpoint=None if apis is None else apis.url, samples=samples, **options)
    return facts.place, shown(findings_of(facts))


async def recovery(apis: GoogleApis | None, now: float) -> Recovery:
    """Return until when the APIs report that data can be read back which is removed now.

    Without *apis*, nobody may be asked, as where a caller lends clients.
    """
    chosen = StoreSettings(project=PROJECT, database=DATABASE, bucket=BUCKET)
    if apis is None:
        return await recoverable(chosen, None, now)
    return await recoverable(chosen, StoreCredentials(TOKEN), now, endpoint=apis.url)


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


class Renewed(Credentials):
    """A token that an API may refuse: the next one is refused, too."""

    def refresh(self, request: object) -> None:  # noqa: ARG002  # as google-auth calls it
        """Take the next one."""
        self.token = "next"  # noqa: S105  # of nobody


@pytest.fixture
def look(apis: GoogleApis) -> Look:
    """Ask the APIs, and return what is found by its check."""

    def asked(*, place: Place = PLACE, endpoint: str = apis.url, **known: Any) -> Findings:
        token = Renewed("token")  # type: ignore[no-untyped-call]
        shared = StoreCredentials(token).find().token
        healthy = {"identity": IDENTITY, "documents": SUCCEEDED, "objects": SUCCEEDED, "memories": {}}
        answers = admin_api.look(shared, place, asked_of(Facts(place=place)), endpoint=endpoint)
        return found(place=place, answers=answers, **{**healthy, **known})

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
