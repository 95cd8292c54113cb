"""The collector beside deletions, and among objects of anybody."""

import asyncio
import hashlib
import time

import pytest
import requests
from google.adk.events import Event, EventActions
from google.adk.platform import time as platform_time
from google.genai import types

from gcp_adk_store import FirestoreSessionService, Garbage, GarbageKind, SessionLimits
from gcp_adk_store.testing.emulators import Emulator
from gcp_adk_store.testing.faults import Hold, no_faults, nth, only
from gcp_adk_store.testing.firestore_proxy import FirestoreProxy
from tests.faults.conftest import WHO


async def found_by(service: FirestoreSessionService) -> list[Garbage]:
    """Return what the collector finds in two days."""
    platform_time.set_time_provider(lambda: time.time() + 2 * 24 * 3600)
    try:
        return [garbage async for garbage in service.find_garbage()]
    finally:
        platform_time.reset_time_provider()


async def test_a_session_that_is_deleted_while_a_collector_reads_it_is_not_called_unreadable(
    firestore_proxy: FirestoreProxy, project: str
) -> None:
    """It is gone, and so are its payloads."""
    service = FirestoreSessionService(project=project, limits=SessionLimits(event_text_bytes=500))
    session = await service.create_session(**WHO)
    content = types.Content(role="user", parts=[types.Part(text="x" * 5000)])
    await service.append_event(session, Event(author="user", content=content))
    hold = Hold()
    firestore_proxy.plan = only("BatchGetDocuments", nth(1, hold))
    finding = asyncio.create_task(found_by(service))
    await asyncio.to_thread(hold.reached.wait, 10)
    firestore_proxy.plan = no_faults
    await service.delete_session(**WHO)
    hold.release()

    assert GarbageKind.UNREADABLE not in [garbage.kind for garbage in await finding]


@pytest.mark.parametrize("path", ["adk_apps/__x__", "adk_apps/", "adk_apps/a/adk_users/"])
async def test_an_object_of_an_owner_that_cannot_be_is_left_alone(
    project: str, adk_store_bucket: str, storage_emulator: Emulator, path: str
) -> None:
    """And keeps nobody from finding what comes after it."""
    service = FirestoreSessionService(
        project=project, bucket=adk_store_bucket, limits=SessionLimits(state_value_bytes=10)
    )
    session = await service.create_session(**WHO, state={"large": "x" * 100})
    await service.append_event(session, Event(author="me", actions=EventActions(state_delta={"large": 1})))
    digest = hashlib.sha256(path.encode()).hexdigest()[:32]
    name = f"adk-payloads/{digest}/shared/{'a' * 64}"
    base = f"{storage_emulator.address}/upload/storage/v1/b/{adk_store_bucket}/o"
    requests.post(
        base, params={"uploadType": "media", "name": name}, data=b"x", timeout=10
    ).raise_for_status()
    objects = f"{storage_emulator.address}/storage/v1/b/{adk_store_bucket}/o/{name.replace('/', '%2F')}"
    requests.patch(objects, json={"metadata": {"adkStoreOwner": path}}, timeout=10).raise_for_status()
    found = await found_by(service)

    assert [GarbageKind.PAYLOAD, GarbageKind.UNREADABLE] == sorted(
        (garbage.kind for garbage in found), key=lambda kind: kind.value
    )
