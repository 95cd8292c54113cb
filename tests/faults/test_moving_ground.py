"""Readers and collectors whose ground moves under them."""

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import pytest
import requests
from google.adk.events import Event, EventActions
from google.genai import types

from gcp_adk_store import FirestoreSessionService, Garbage, GarbageKind, SessionLimits, SessionService
from gcp_adk_store.testing.emulators import Emulator
from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy
from gcp_adk_store.testing.faults.plans import Hold, no_faults, nth, only
from tests.faults.conftest import WHO
from tests.support.clock import in_days

Reads = Callable[[SessionService], Coroutine[Any, Any, Sequence[Mapping[str, Any]]]]
"""Returns the state of all that it reads."""


async def got(service: SessionService) -> list[dict[str, Any]]:
    """Get the session."""
    found = await service.get_session(**WHO)
    return [] if found is None else [found.state]


async def user_state(service: SessionService) -> list[dict[str, Any]]:
    """Read the user's state."""
    state = await service.get_user_state(app_name="app", user_id="user")
    return [{f"user:{key}": value for key, value in state.items()}]


async def listed(service: SessionService) -> list[dict[str, Any]]:
    """List the user's sessions."""
    found = await service.list_sessions(app_name="app", user_id="user")
    return [session.state for session in found.sessions]


async def listed_all(service: SessionService) -> list[dict[str, Any]]:
    """List the app's sessions."""
    return [session.state for session in (await service.list_sessions(app_name="app")).sessions]


async def paged(service: SessionService) -> list[dict[str, Any]]:
    """List a page of them."""
    found = await service.list_sessions_page(app_name="app", user_id="user")
    return [session.state for session in found.sessions]


async def created(service: SessionService) -> list[dict[str, Any]]:
    """Make another session of the user."""
    return [(await service.create_session(app_name="app", user_id="user", session_id="another")).state]


@pytest.mark.parametrize(
    ("name", "reads"),
    [
        *[(name, got) for name in ("mine", "user:mine", "app:mine")],
        *[("mine", reads) for reads in (listed, listed_all, paged)],
        *[("user:mine", reads) for reads in (user_state, listed, listed_all, paged, created)],
    ],
)
async def test_a_value_that_is_replaced_and_collected_while_it_is_read_is_the_new_one(
    firestore_proxy: FirestoreProxy, project: str, name: str, reads: Reads
) -> None:
    """The collector may remove an old payload as soon as nothing refers to it; a reader looks again."""
    service = FirestoreSessionService(project=project, limits=SessionLimits(state_value_bytes=100))
    session = await service.create_session(**WHO)  # an initial value stays in use
    old = EventActions(state_delta={name: "old" * 100})
    await service.append_event(session, Event(author="user", actions=old))
    hold = Hold()
    firestore_proxy.plan = only("BatchGetDocuments", nth(1, hold))
    reading = asyncio.create_task(reads(service))
    await asyncio.to_thread(hold.reached.wait, 10)
    firestore_proxy.plan = no_faults
    change = EventActions(state_delta={name: "new" * 100})
    await service.append_event(session, Event(author="user", actions=change))
    for garbage in await found_by(service):
        assert await service.remove_garbage(garbage)
    hold.release()

    assert ["new" * 100] == [state[name] for state in await reading]


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


async def found_by(service: SessionService) -> list[Garbage]:
    """Return what the collector finds in two days."""
    with in_days(2):
        return [garbage async for garbage in service.find_garbage()]


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
