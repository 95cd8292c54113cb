"""Requests that meet others exactly where it hurts: no error says that nothing was written where it was."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Literal

import pytest
from google.adk.events import Event
from google.genai import types

from gcp_adk_store import (
    ArtifactService,
    FirestoreSessionService,
    OutcomeUnknownError,
    SessionLimits,
    SessionMissingError,
    SessionService,
    StoreError,
)
from gcp_adk_store.testing.faults import Hold, Lose, Refuse, no_faults, nth, only
from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy
from gcp_adk_store.testing.faults.storage_proxy import StorageProxy
from tests.faults.conftest import WHO, garbage_of


async def read(service: SessionService) -> object:
    """Return a session."""
    return await service.get_session(**WHO)


async def listed(service: SessionService) -> object:
    """Return the sessions of the user."""
    return (await service.list_sessions(app_name="app", user_id="user")).sessions


async def paged(service: SessionService) -> object:
    """Return the sessions of the app."""
    return (await service.list_sessions_page(app_name="app")).sessions


async def of_the_user(service: SessionService) -> object:
    """Return the events of the user."""
    return [one async for one in service.iter_user_events(app_name="app", user_id="user")]


async def iterated(service: SessionService) -> object:
    """Return why the events of a session could not be read."""
    with pytest.raises(SessionMissingError) as caught:
        _ = [event async for event in service.iter_events(**WHO)]
    return str(caught.value)


@pytest.mark.parametrize("place", ["bucket", "chunks"])
@pytest.mark.parametrize(
    ("reads", "on_missing_payload", "result"),
    [
        (read, "raise", None),
        (read, "placeholder", None),
        (listed, "raise", []),
        (paged, "raise", []),
        (of_the_user, "raise", []),
        (
            iterated,
            "raise",
            (
                "iter_events app_name='app' user_id='user' session_id='session': "
                "another call deleted the session during the read, or it has expired"
            ),
        ),
    ],
)
async def test_a_session_that_is_deleted_while_its_payloads_are_read_is_gone(
    firestore_proxy: FirestoreProxy,
    storage_proxy: StorageProxy,
    adk_store_bucket: str,
    project: str,
    place: str,
    reads: Callable[[SessionService], Coroutine[Any, Any, object]],
    on_missing_payload: Literal["raise", "placeholder"],
    result: object,
) -> None:
    """It is not damaged, and spoils no listing: there is none, as the next read finds."""
    service = FirestoreSessionService(
        project=project,
        bucket=adk_store_bucket if place == "bucket" else None,
        limits=SessionLimits(inline_bytes=1000, state_value_bytes=1000),
        on_missing_payload=on_missing_payload,
    )
    session = await service.create_session(**WHO, state={"large": "x" * 2000})
    blob = types.Blob(data=b"x" * 5000, mime_type="image/png")
    content = types.Content(role="user", parts=[types.Part(inline_data=blob)])
    await service.append_event(session, Event(author="user", content=content))
    hold = Hold()
    if place == "bucket":
        storage_proxy.plan = only("media", nth(0, hold))
    else:
        before_payloads = 0 if reads is of_the_user else 1  # which reads sessions by a query
        firestore_proxy.plan = only("BatchGetDocuments", nth(before_payloads, hold))
    reading = asyncio.create_task(reads(service))
    await asyncio.to_thread(hold.reached.wait)
    firestore_proxy.plan = storage_proxy.plan = no_faults
    await service.delete_session(**WHO)
    hold.release()

    assert result == await reading


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
