"""What an erasure, a proof and a prune cost: RPCs and requests are counted, as docs/costs.md says."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Client
from google.genai import types

from gcp_adk_store import FirestoreSessionService, GcsArtifactService, Store
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, Emulator
from gcp_adk_store.testing.meters import FirestoreMeter, MeteredSession
from tests.erasure.conftest import APP, LIMITS, erase, said

WHO: dict[str, Any] = {"app_name": APP, "user_id": "u", "session_id": "s"}

pytestmark = pytest.mark.emulators

Take = Callable[[], tuple[int, int]]
"""Returns the RPCs and the requests to the bucket since the last call."""


@pytest.fixture
async def metered(
    firestore_emulator: Emulator, project: str, adk_store_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Store, Take]]:
    """A store with a session of two segments, and an artifact."""
    http = MeteredSession()
    client = Client(project=project, credentials=AnonymousCredentials(), _http=http)
    with FirestoreMeter(firestore_emulator.address) as meter:
        monkeypatch.setenv(FIRESTORE_VARIABLE, meter.address)
        sessions = FirestoreSessionService(
            project=project, bucket=adk_store_bucket, storage=client, limits=LIMITS
        )
        artifacts = GcsArtifactService(adk_store_bucket, client=client)
        async with Store(sessions=sessions, artifacts=artifacts) as store:
            session = await store.sessions.create_session(**WHO)
            for _ in range(2):
                await store.sessions.append_event(session, said("x" * 1200))
            await store.artifacts.save_artifact(**WHO, filename="f", artifact=types.Part(text="t"))

            def take() -> tuple[int, int]:
                return meter.take().rpc_count, http.take().request_count

            take()
            yield store, take


async def test_what_an_erasure_takes(metered: tuple[Store, Take]) -> None:
    """Two passes: the first removes, the second finds nothing; the third erasure finds nothing at once."""
    store, take = metered
    await erase(store, "another")  # the store has its key from then on
    take()
    await erase(store, "u")
    first = take()
    await erase(store, "u")
    second = take()

    # Key; intent, read and written; a pass of 1 get, 1 query and 1 commit; 1 commit for the artifact and 1
    # for the pass; an empty pass; the end.
    # A scan of payloads, artifacts and uploads in each pass, and 1 delete.
    assert (11, 7) == first
    assert (6, 3) == second


async def test_what_a_proof_takes(metered: tuple[Store, Take]) -> None:
    """The document, and eight segments with each further read."""
    store, take = metered
    await store.sessions.verify_session(**WHO)

    assert (2, 0) == take()


async def test_what_a_prune_takes(metered: tuple[Store, Take]) -> None:
    """One query for 1,000 sessions; then each session that goes is deleted as by delete_session."""
    store, take = metered
    await store.prune(app_name=APP, keep_latest=1)
    nothing = take()
    await store.prune(app_name=APP, keep_latest=0)
    one = take()

    assert (1, 5) == (nothing[0], one[0])
