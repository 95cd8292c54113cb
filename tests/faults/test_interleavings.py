"""Requests that meet others exactly where it hurts, held by a proxy until they do."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Literal

import pytest
from google.adk.events import Event
from google.genai import types

from gcp_adk_store import FirestoreSessionService, SessionLimits, SessionMissingError, SessionService
from gcp_adk_store.testing.faults import Hold, no_faults, nth, only
from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy
from gcp_adk_store.testing.faults.storage_proxy import StorageProxy
from tests.faults.conftest import WHO


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
