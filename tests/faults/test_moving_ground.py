"""Readers and collectors whose ground moves under them."""

import hashlib
from collections.abc import Callable
from urllib.parse import quote

import pytest
import requests
from google.adk.events import Event, EventActions

from gcp_adk_store import FirestoreSessionService, Garbage, GarbageKind, SessionLimits, SessionService
from gcp_adk_store.testing.emulators import Emulator
from tests.faults.conftest import WHO
from tests.support.clock import in_days


async def found_by(service: SessionService) -> list[Garbage]:
    """Return what the collector finds in two days."""
    with in_days(2):
        return [garbage async for garbage in service.find_garbage()]


@pytest.fixture
def put_owned(storage_emulator: Emulator) -> Callable[[str, str], None]:
    """Put an object among payloads that says it belongs to the document at a path, round the library."""

    def put(bucket: str, path: str) -> None:
        name = f"adk-payloads/{hashlib.sha256(path.encode()).hexdigest()[:32]}/shared/{'a' * 64}"
        asked = {"uploadType": "media", "name": name}
        objects = f"{storage_emulator.address}/upload/storage/v1/b/{bucket}/o"
        requests.post(objects, params=asked, data=b"x", timeout=60).raise_for_status()
        one = f"{storage_emulator.address}/storage/v1/b/{bucket}/o/{quote(name, safe='')}"
        requests.patch(one, json={"metadata": {"adkStoreOwner": path}}, timeout=60).raise_for_status()

    return put


@pytest.mark.usefixtures("firestore_proxy")
@pytest.mark.parametrize("path", ["adk_apps/__x__", "adk_apps/", "adk_apps/a/adk_users/"])
async def test_an_object_of_an_owner_that_cannot_be_is_left_alone(
    project: str, adk_store_bucket: str, put_owned: Callable[[str, str], None], path: str
) -> None:
    """And keeps nobody from finding what comes after it."""
    service = FirestoreSessionService(
        project=project, bucket=adk_store_bucket, limits=SessionLimits(state_value_bytes=10)
    )
    session = await service.create_session(**WHO)
    for value in ("x" * 100, 1):
        change = EventActions(state_delta={"large": value})
        await service.append_event(session, Event(author="me", actions=change))
    put_owned(adk_store_bucket, path)
    found = await found_by(service)

    assert [GarbageKind.PAYLOAD, GarbageKind.UNREADABLE] == sorted(
        (garbage.kind for garbage in found), key=lambda kind: kind.value
    )
