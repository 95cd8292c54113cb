"""What an erasure, a proof and a prune cost: RPCs and requests are counted, as docs/costs.md says."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from google.genai import types

from gcp_adk_store import Store
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.operation import Counts
from tests.erasure.conftest import APP, LIMITS, erase, said

WHO: dict[str, Any] = {"app_name": APP, "user_id": "u", "session_id": "s"}


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """A store in memory with a session of two segments, and an artifact."""
    async with Store.local(":memory:", session_limits=LIMITS) as store:
        session = await store.sessions.create_session(**WHO)
        for _ in range(2):
            await store.sessions.append_event(session, said("x" * 1200))
        await store.artifacts.save_artifact(**WHO, filename="f", artifact=types.Part(text="t"))
        yield store


@contextmanager
def counting(patch: pytest.MonkeyPatch) -> Iterator[dict[str, Counts]]:
    """Collect the counts of the operations that end in the block."""
    ended: dict[str, Counts] = {}
    finish = telemetry.finish

    def kept(operation: Any, failure: Any) -> None:
        ended[operation.name] = operation.counts
        finish(operation, failure)

    with patch.context() as within:
        within.setattr(telemetry, "finish", kept)
        yield ended


async def test_what_an_erasure_takes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two passes: the first removes, the second finds nothing; the third erasure finds nothing at once."""
    await erase(store, "another")  # the store has its key from then on
    with counting(monkeypatch) as first:
        await erase(store, "u")
    with counting(monkeypatch) as second:
        await erase(store, "u")

    # Key; intent, read and written; a pass of 1 get, 1 query and 1 commit; 1 commit for the artifact and 1
    # for the pass; an empty pass; the end.
    assert 11 == first["erase_user"].rpcs
    assert 6 == second["erase_user"].rpcs
    # A scan of payloads, artifacts and uploads in each pass, and 1 delete.
    assert (7, 3) == (first["erase_user"].storage_requests, second["erase_user"].storage_requests)


async def test_what_a_proof_takes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The document, and eight segments with each further read."""
    with counting(monkeypatch) as ended:
        await store.sessions.verify_session(**WHO)

    assert 2 == ended["verify_session"].rpcs


async def test_what_a_prune_takes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """One query for 1,000 sessions; then each session that goes is deleted as by delete_session."""
    with counting(monkeypatch) as nothing:
        await store.prune(app_name=APP, keep_latest=1)
    with counting(monkeypatch) as one:
        await store.prune(app_name=APP, keep_latest=0)

    assert (1, 5) == (nothing["prune"].rpcs, one["prune"].rpcs)
