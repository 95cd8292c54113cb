"""No error says that nothing was written where something was, whatever others do meanwhile."""

import pytest
from google.genai import types

from gcp_adk_store import (
    ArtifactService,
    FirestoreSessionService,
    OutcomeUnknownError,
    SessionLimits,
    SessionService,
    StoreError,
)
from gcp_adk_store.testing.faults import Lose, Refuse, no_faults, nth, only
from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy
from gcp_adk_store.testing.faults.storage_proxy import StorageProxy
from tests.faults.conftest import WHO, garbage_of


async def test_a_deletion_that_is_forbidden_midway_does_not_say_that_nothing_was_written(
    storage_proxy: StorageProxy, service: ArtifactService
) -> None:
    """One version is under a hold: the others are gone."""
    for number in range(3):
        await service.save_artifact(**WHO, filename="a", artifact=types.Part(text=f"{number}"))
    storage_proxy.plan = only("delete", nth(2, Refuse("PERMISSION_DENIED")))
    with pytest.raises(StoreError) as caught:
        await service.delete_artifact(**WHO, filename="a")
    storage_proxy.plan = no_faults

    left = await service.list_versions(**WHO, filename="a")
    assert len(left) < 3
    assert isinstance(caught.value, OutcomeUnknownError)


async def test_a_deletion_of_a_session_without_leave_for_the_bucket_says_that_the_session_is_gone(
    storage_proxy: StorageProxy, sessions: SessionService
) -> None:
    """AccessDeniedError would say that nothing was written."""
    await sessions.create_session(**WHO, state={"large": "x" * 100})
    storage_proxy.plan = only("list", lambda _: Refuse("PERMISSION_DENIED"))
    with pytest.raises(StoreError) as caught:
        await sessions.delete_session(**WHO)
    storage_proxy.plan = no_faults

    assert await sessions.get_session(**WHO) is None
    assert isinstance(caught.value, OutcomeUnknownError)


@pytest.mark.usefixtures("passing")
async def test_a_removal_whose_outcome_cannot_be_read_is_unknown(
    firestore_proxy: FirestoreProxy, project: str
) -> None:
    """The payload is gone: UnavailableError would say that nothing was written."""
    service = FirestoreSessionService(project=project, limits=SessionLimits(state_value_bytes=10))
    (garbage,) = await garbage_of(service)
    commits = only("Commit", nth(0, Lose()))
    reads = only("BatchGetDocuments", lambda _: Refuse("UNAVAILABLE"))
    firestore_proxy.plan = lambda call: commits(call) or reads(call)
    with pytest.raises(StoreError) as caught:
        await service.remove_garbage(garbage)
    firestore_proxy.plan = no_faults

    assert isinstance(caught.value, OutcomeUnknownError)


@pytest.mark.parametrize("status", ["NOT_FOUND", "FAILED_PRECONDITION"])
async def test_a_create_with_large_state_without_a_database_is_a_typed_error(
    firestore_proxy: FirestoreProxy, project: str, status: str
) -> None:
    """As without large state."""
    service = FirestoreSessionService(project=project, limits=SessionLimits(state_value_bytes=10))
    firestore_proxy.plan = only("Commit", lambda _: Refuse(status))
    with pytest.raises(StoreError):
        await service.create_session(**WHO, state={"large": "x" * 100})
