"""Values that are replaced and collected under readers other than get_session."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.adk.platform import time as platform_time
from google.genai import types

from gcp_adk_store import FirestoreSessionService, SessionLimits
from gcp_adk_store.testing.faults import Hold, no_faults, nth, only
from gcp_adk_store.testing.firestore_proxy import FirestoreProxy
from tests.faults.conftest import WHO


async def user_state(service: FirestoreSessionService) -> object:
    return await service.get_user_state(app_name="app", user_id="user")


async def listed(service: FirestoreSessionService) -> object:
    return (await service.list_sessions(app_name="app", user_id="user")).sessions


async def listed_all(service: FirestoreSessionService) -> object:
    return (await service.list_sessions(app_name="app")).sessions


async def paged(service: FirestoreSessionService) -> object:
    return (await service.list_sessions_page(app_name="app", user_id="user")).sessions


async def created(service: FirestoreSessionService) -> object:
    return await service.create_session(app_name="app", user_id="user", session_id="another")


@pytest.mark.parametrize("reads", [listed, listed_all, paged])
async def test_a_sessions_value_that_is_replaced_and_collected_while_it_is_listed_is_the_new_one(
    firestore_proxy: FirestoreProxy,
    project: str,
    reads: Callable[[FirestoreSessionService], Coroutine[Any, Any, Any]],
) -> None:
    """As for get_session."""
    service = FirestoreSessionService(project=project, limits=SessionLimits(state_value_bytes=100))
    session = await service.create_session(**WHO, state={"mine": "old" * 100})
    hold = Hold()
    firestore_proxy.plan = only("BatchGetDocuments", nth(1, hold))
    reading = asyncio.create_task(reads(service))
    await asyncio.wait_for(asyncio.to_thread(hold.reached.wait, 10), 12)
    firestore_proxy.plan = no_faults
    change = EventActions(state_delta={"mine": "new" * 100})
    await service.append_event(session, Event(author="user", actions=change))
    platform_time.set_time_provider(lambda: time.time() + 2 * 24 * 3600)
    async for garbage in service.find_garbage():
        assert await service.remove_garbage(garbage)
    platform_time.reset_time_provider()
    hold.release()

    assert ["new" * 100] == [found.state["mine"] for found in await reading]


@pytest.mark.parametrize(
    ("reads", "held"), [(user_state, 1), (listed, 1), (listed_all, 1), (paged, 1), (created, 1)]
)
async def test_a_value_that_is_replaced_and_collected_while_it_is_read_is_the_new_one(
    firestore_proxy: FirestoreProxy,
    project: str,
    reads: Callable[[FirestoreSessionService], Coroutine[Any, Any, object]],
    held: int,
) -> None:
    """As for get_session."""
    service = FirestoreSessionService(project=project, limits=SessionLimits(state_value_bytes=100))
    session = await service.create_session(**WHO, state={"user:mine": "old" * 100})
    hold = Hold()
    firestore_proxy.plan = only("BatchGetDocuments", nth(held, hold))
    reading = asyncio.create_task(reads(service))
    await asyncio.wait_for(asyncio.to_thread(hold.reached.wait, 10), 12)
    firestore_proxy.plan = no_faults
    change = EventActions(state_delta={"user:mine": "new" * 100})
    await service.append_event(session, Event(author="user", actions=change))
    platform_time.set_time_provider(lambda: time.time() + 2 * 24 * 3600)
    async for garbage in service.find_garbage():
        assert await service.remove_garbage(garbage)
    platform_time.reset_time_provider()
    hold.release()

    assert await reading


async def test_a_session_that_is_deleted_while_it_is_read_with_placeholders_is_gone(
    firestore_proxy: FirestoreProxy, project: str
) -> None:
    """As without them."""
    service = FirestoreSessionService(
        project=project, limits=SessionLimits(inline_bytes=1000), on_missing_payload="placeholder"
    )
    session = await service.create_session(**WHO)
    blob = types.Blob(data=b"x" * 5000, mime_type="image/png")
    content = types.Content(role="user", parts=[types.Part(inline_data=blob)])
    await service.append_event(session, Event(author="user", content=content))
    hold = Hold()
    firestore_proxy.plan = only("BatchGetDocuments", nth(1, hold))
    reading = asyncio.create_task(service.get_session(**WHO))
    await asyncio.to_thread(hold.reached.wait)
    firestore_proxy.plan = no_faults
    await service.delete_session(**WHO)
    hold.release()

    assert await reading is None
