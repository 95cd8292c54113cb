"""The store: how it is connected, and what it closes."""

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud.firestore import AsyncClient
from google.cloud.storage import Client
from google.genai import types

from gcp_adk_store import (
    ArtifactLimits,
    FirestoreSessionService,
    GcsArtifactService,
    InvalidInputError,
    MemoryLimits,
    SessionLimits,
    Store,
)
from gcp_adk_store.testing.conformance.running import event, read
from gcp_adk_store.testing.emulators import Emulator
from tests.services.conftest import WHO

pytestmark = pytest.mark.emulators

REPORT = {**WHO, "filename": "report.txt"}


async def use(store: Store) -> None:
    """Store a session and an artifact, and read both back."""
    made = await store.sessions.create_session(**WHO)
    await store.sessions.append_event(made, event("one"))
    await store.artifacts.save_artifact(**REPORT, artifact=types.Part(text="text"))

    assert made == await store.sessions.get_session(**WHO)
    assert types.Part(text="text") == await store.artifacts.load_artifact(**REPORT)


async def test_the_environment_describes_a_store(
    project: str, adk_store_bucket: str, monkeypatch: pytest.MonkeyPatch, raw_documents: Any
) -> None:
    """Project, database, bucket and prefix are read from it."""
    monkeypatch.setenv("ADK_STORE_PROJECT", project)
    monkeypatch.setenv("ADK_STORE_BUCKET", adk_store_bucket)
    monkeypatch.setenv("ADK_STORE_PREFIX", "env")
    async with Store.from_env() as store:
        await use(store)
        bucket = store.artifacts.bucket_name

    assert adk_store_bucket == bucket
    assert ["env_apps/app/env_users/user/env_sessions/session"] == list(raw_documents())


async def test_databases_are_apart(project: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A named database holds its own sessions."""
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", project)
    async with Store.connect(database="other") as other, Store.connect() as default:
        await other.sessions.create_session(**WHO)

        assert await default.sessions.get_session(**WHO) is None


async def test_borrowed_clients_stay_open(
    project: str, adk_store_bucket: str, storage_emulator: Emulator
) -> None:
    """They belong to the caller."""
    firestore = AsyncClient(project=project)
    storage = Client(project=project, credentials=AnonymousCredentials())
    async with Store.from_clients(firestore=firestore, storage=storage, bucket=adk_store_bucket) as store:
        await use(store)

    assert storage_emulator.address
    assert [True] == [
        document.exists
        async for document in firestore.collection("adk_apps/app/adk_users/user/adk_sessions").stream()
    ]
    assert 1 == len(list(storage.list_blobs(adk_store_bucket)))


def test_a_store_without_a_bucket_says_how_to_get_one() -> None:
    """Sessions work without; asking for artifacts names the setting."""
    with pytest.raises(InvalidInputError, match="set ADK_STORE_BUCKET, or ADK_STORE_LOCAL"):
        _ = Store.connect(project="demo").artifacts
    with pytest.raises(InvalidInputError, match="go together"):
        Store.from_clients(
            firestore=AsyncClient(project="demo", credentials=AnonymousCredentials()), bucket="b"
        )


def test_a_choice_that_does_not_exist_is_refused() -> None:
    """A slip of the pen must not decide what happens to a user's turn."""
    with pytest.raises(InvalidInputError, match="on_conflict is 'typo', it must be 'raise' or 'merge'"):
        Store.connect(project="demo", on_conflict="typo")  # type: ignore[arg-type]  # what is tested
    with pytest.raises(InvalidInputError, match="history is 'since', it must be"):
        _ = Store.connect(project="demo", history="since").sessions  # type: ignore[arg-type]  # what is tested


async def test_a_store_passes_its_conflict_policy_on(project: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that the environment describes."""
    monkeypatch.setenv("ADK_STORE_PROJECT", project)
    async with Store.from_env(on_conflict="merge") as store:
        await store.sessions.create_session(**WHO)
        one, two = await read(store.sessions, WHO), await read(store.sessions, WHO)
        await store.sessions.append_event(one, event("one"))
        await store.sessions.append_event(two, event("two"))

        assert two == await store.sessions.get_session(**WHO)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (lambda: SessionLimits(rpc_timeout_s=-1), "rpc_timeout_s is -1, it must be above 0"),
        (lambda: SessionLimits(deadline_s=0), "deadline_s is 0, it must be above 0"),
        (lambda: SessionLimits(seal_tail_bytes=-1), "seal_tail_bytes is -1, it must not be negative"),
        (lambda: SessionLimits(inline_bytes="64k"), "inline_bytes must be a number, not str"),  # type: ignore[arg-type]  # what is tested
        (lambda: SessionLimits(max_in_flight=1.5), "max_in_flight is 1.5, it must be a whole number"),  # type: ignore[arg-type]  # what is tested
        (lambda: ArtifactLimits(save_attempts=2.0), "save_attempts is 2.0, it must be a whole number"),  # type: ignore[arg-type]  # what is tested
        (lambda: ArtifactLimits(deadline_s=float("nan")), "deadline_s is nan, it must be a number"),
        (lambda: MemoryLimits(max_results=1001), "max_results is 1001, it must be at most 1000"),
        (lambda: ArtifactLimits(max_workers=0), "max_workers is 0, it must be at least 1"),
        (lambda: ArtifactLimits(save_attempts=-1), "save_attempts is -1, it must be at least 1"),
        (lambda: SessionLimits(max_in_flight=0), "max_in_flight is 0, it must be at least 1"),
        (lambda: SessionLimits(deadlines_s={"get_session": 0}), "must be a number of seconds above 0"),
        (lambda: SessionLimits(deadlines_s={"get_session": "1"}), "must be a number of seconds above 0"),  # type: ignore[dict-item]  # what is tested
        (lambda: SessionLimits(deadlines_s=3), "not be of int"),  # type: ignore[arg-type]  # what is tested
        (
            lambda: Store.connect(session_limits=SessionLimits(deadlines_s={"get_sesion": 1})).sessions,
            "deadlines_s names 'get_sesion', which is not an operation of",
        ),
    ],
)
def test_limits_that_make_no_sense_are_refused_at_once(limits: Callable[[], object], message: str) -> None:
    """Instead of failing as something else, later."""
    with pytest.raises(InvalidInputError, match=message):
        limits()


async def test_a_service_alone_is_closed_by_its_context(project: str, adk_store_bucket: str) -> None:
    """As a store is: what it opened is closed, and a later call opens it anew."""
    before = set(threading.enumerate())
    async with (
        FirestoreSessionService(project=project) as sessions,
        GcsArtifactService(adk_store_bucket) as artifacts,
    ):
        await use(Store(sessions=sessions, artifacts=artifacts))

    left = set(threading.enumerate()) - before
    assert not [thread for thread in left if thread.name.startswith("adk-store-gcs")]
    assert await sessions.get_session(**WHO) is not None
    assert await artifacts.load_artifact(**REPORT) is not None
    await sessions.close()
    await artifacts.close()


@pytest.mark.parametrize("way", [pickle.dumps, copy.copy, copy.deepcopy])
def test_services_and_stores_say_why_they_are_not_pickled(way: Callable[[object], object]) -> None:
    """And what to do instead; they contact nobody for that."""
    store = Store.connect(project="demo", bucket="bucket")
    for one in (store, store.sessions, store.artifacts):
        with pytest.raises(TypeError, match=f"make a {type(one).__name__} of them in each process"):
            way(one)
