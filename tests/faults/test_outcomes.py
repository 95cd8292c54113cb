"""No error says that nothing was written where something was, whatever others do meanwhile."""

import asyncio
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.genai import types

from gcp_adk_store import (
    FirestoreSessionService,
    GcsArtifactService,
    OutcomeUnknownError,
    SessionLimits,
    SessionService,
    StoreError,
)
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, Emulator
from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy
from gcp_adk_store.testing.faults.plans import Call, Fault, Hold, Lose, Refuse, no_faults, nth, only
from gcp_adk_store.testing.faults.storage_proxy import StorageProxy
from tests.faults.conftest import WHO, GivesUp
from tests.support.clock import PassingTime, in_days

OF: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}


@pytest.fixture
async def other(
    firestore_emulator: Emulator, project: str, monkeypatch: pytest.MonkeyPatch
) -> SessionService:
    """A service that talks to the emulator itself."""
    with monkeypatch.context() as patch:
        patch.setenv(FIRESTORE_VARIABLE, firestore_emulator.address)
        service = FirestoreSessionService(project=project)
        await service.get_user_state(app_name="app", user_id="user")
    return service


async def test_a_lost_append_to_a_session_that_is_deleted_then_is_not_called_missing(
    firestore_proxy: FirestoreProxy, project: str, other: SessionService
) -> None:
    """Its change of shared state stays when the session goes."""
    service = FirestoreSessionService(project=project)
    mine = await service.create_session(**WHO)
    answer = Hold("after")
    firestore_proxy.plan = only("Commit", nth(0, answer))
    change = EventActions(state_delta={"user:n": "mine"})
    append = asyncio.create_task(service.append_event(mine, Event(author="me", actions=change)))
    await asyncio.to_thread(answer.reached.wait)
    await other.delete_session(**WHO)
    answer.release(forward=False)
    with pytest.raises(StoreError) as caught:
        await append
    written = await other.get_user_state(app_name="app", user_id="user")

    assert {"n": "mine"} == written
    assert isinstance(caught.value, OutcomeUnknownError)


async def test_a_create_over_an_expired_session_that_may_still_arrive_is_not_called_refused(
    firestore_proxy: FirestoreProxy, project: str, other: SessionService, passing: PassingTime
) -> None:
    """Its first request is on its way; the next one found an expired session, and after that an outage."""
    await other.create_session(**WHO, ttl_seconds=1)
    giving_up = GivesUp(passing)
    service = FirestoreSessionService(project=project, interceptors=[giving_up])
    late = Hold()

    def plan(call: Call) -> Fault | None:
        if call.number == 0:
            return late
        # The next one meets the expired session, and one removes that; then it is made again.
        return Refuse("RESOURCE_EXHAUSTED") if call.number > 2 else None

    firestore_proxy.plan = only("Commit", plan)
    with in_days(1):
        create = asyncio.create_task(service.create_session(**WHO, state={"mine": True}))
        await asyncio.to_thread(late.reached.wait)
        giving_up.now.set()
        with pytest.raises(StoreError) as caught:
            await create
    firestore_proxy.plan = no_faults
    late.release()
    await giving_up.answers()
    found = await other.get_session(**WHO)

    assert found is not None
    assert {"mine": True} == found.state
    assert isinstance(caught.value, OutcomeUnknownError)


async def test_a_copy_whose_answer_is_lost_and_whose_source_goes_happens_once(
    storage_proxy: StorageProxy, adk_store_bucket: str
) -> None:
    """It is there: neither nothing nor a second copy."""
    service = GcsArtifactService(adk_store_bucket)
    await service.save_artifact(**OF, filename="a", artifact=types.Part(text="x"))
    answer = Hold("after")
    storage_proxy.plan = only("rewrite", nth(0, answer))
    copying = asyncio.create_task(service.copy_artifact(**OF, filename="a", to_filename="b"))
    await asyncio.to_thread(answer.reached.wait)
    await service.delete_artifact(**OF, filename="a")
    answer.release(forward=False)
    version = await copying

    assert [0] == await service.list_versions(**OF, filename="b")
    assert 0 == version


async def test_a_deletion_that_is_forbidden_midway_does_not_say_that_nothing_was_written(
    storage_proxy: StorageProxy, adk_store_bucket: str
) -> None:
    """One version is under a hold: the others are gone."""
    service = GcsArtifactService(adk_store_bucket)
    for number in range(3):
        await service.save_artifact(**OF, filename="a", artifact=types.Part(text=f"{number}"))
    storage_proxy.plan = only("delete", nth(2, Refuse("PERMISSION_DENIED")))
    with pytest.raises(StoreError) as caught:
        await service.delete_artifact(**OF, filename="a")
    storage_proxy.plan = no_faults

    left = await service.list_versions(**OF, filename="a")
    assert len(left) < 3
    assert isinstance(caught.value, OutcomeUnknownError)


async def test_a_deletion_of_a_session_without_leave_for_the_bucket_says_that_the_session_is_gone(
    storage_proxy: StorageProxy, adk_store_bucket: str, project: str
) -> None:
    """AccessDeniedError would say that nothing was written."""
    service = FirestoreSessionService(
        project=project, bucket=adk_store_bucket, limits=SessionLimits(state_value_bytes=10)
    )
    await service.create_session(**WHO, state={"large": "x" * 100})
    storage_proxy.plan = only("list", lambda _: Refuse("PERMISSION_DENIED"))
    with pytest.raises(StoreError) as caught:
        await service.delete_session(**WHO)
    storage_proxy.plan = no_faults

    assert await service.get_session(**WHO) is None
    assert isinstance(caught.value, OutcomeUnknownError)


@pytest.mark.usefixtures("passing")
async def test_a_removal_whose_outcome_cannot_be_read_is_unknown(
    firestore_proxy: FirestoreProxy, project: str
) -> None:
    """The payload is gone: UnavailableError would say that nothing was written."""
    service = FirestoreSessionService(project=project, limits=SessionLimits(state_value_bytes=10))
    session = await service.create_session(**WHO)
    for value in ("old" * 100, 1):
        change = EventActions(state_delta={"large": value})
        await service.append_event(session, Event(author="me", actions=change))
    with in_days(2):
        (garbage,) = [found async for found in service.find_garbage()]
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
