"""The probes leave nothing behind, whatever happens, and nobody who reads a store meets them."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud.firestore import Client
from google.cloud.storage import Client as StorageClient

from gcp_adk_store import Store, StoreSettings
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, Emulator
from gcp_adk_store.testing.faults import Hold, Lose, Plan, Refuse, from_nth, nth, only
from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy
from gcp_adk_store.testing.faults.storage_proxy import StorageProxy
from tests.doctor.conftest import Findings, examined


async def found(project: str, bucket: str | None = None) -> Findings:
    """Return what the doctor finds."""
    _, findings = await examined(StoreSettings(project=project, bucket=bucket), samples=3, deadline_s=10)
    return findings


@pytest.fixture
def documents_left(project: str, firestore_emulator: Emulator) -> Callable[[], list[str]]:
    """List what lies in the database, whatever goes wrong on the way to it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FIRESTORE_VARIABLE, firestore_emulator.address)
        client = Client(project=project)

    def left() -> list[str]:
        found = [
            reference.path for collection in client.collections() for reference in collection.list_documents()
        ]
        client.close()
        return found

    return left


@pytest.fixture
def objects_left(adk_store_bucket: str, storage_emulator: Emulator) -> Callable[[], list[str]]:
    """List what lies in the bucket, whatever goes wrong on the way to it."""
    options = {"api_endpoint": storage_emulator.address}
    client: Any = StorageClient(project="demo", credentials=AnonymousCredentials(), client_options=options)
    return lambda: [blob.name for blob in client.list_blobs(adk_store_bucket)]


@pytest.mark.parametrize(
    ("plan", "stays"),
    [
        (only("Commit", nth(1, Refuse("PERMISSION_DENIED"))), False),
        (only("RunQuery", nth(0, Refuse("PERMISSION_DENIED"))), False),
        (only("BatchGetDocuments", nth(1, Refuse("PERMISSION_DENIED"))), False),
        (only("Commit", from_nth(2, Refuse("PERMISSION_DENIED"))), True),
    ],
    ids=["at its change", "at the listing", "at a read", "at its deletion"],
)
async def test_a_document_that_fails_on_the_way_is_removed_or_named(
    project: str,
    documents_left: Callable[[], list[str]],
    firestore_proxy: FirestoreProxy,
    plan: Plan,
    *,
    stays: bool,
) -> None:
    """The error says what to do; what cannot be removed can be by hand."""
    firestore_proxy.plan = plan
    finding = (await found(project))["documents"]
    left = documents_left()

    assert "fail" == finding.status
    assert "PERMISSION_DENIED; grant roles/datastore.user" in finding.says
    assert stays is ("could not be deleted" in finding.says)
    assert [True] * stays == [each in finding.says for each in left]


async def test_a_caller_who_gives_up_leaves_no_document(
    project: str, documents_left: Callable[[], list[str]], firestore_proxy: FirestoreProxy
) -> None:
    """Ctrl-C while it waits for a read."""
    hold = Hold("before")
    firestore_proxy.plan = only("BatchGetDocuments", nth(0, hold))
    task = asyncio.create_task(found(project))
    await asyncio.to_thread(hold.reached.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    hold.release()

    assert [] == documents_left()


@pytest.mark.parametrize("number", [1, 2, 3, 4])
async def test_an_object_that_fails_on_the_way_is_removed(
    project: str,
    adk_store_bucket: str,
    objects_left: Callable[[], list[str]],
    storage_proxy: StorageProxy,
    number: int,
) -> None:
    """At any of its requests, after the one that looks for the bucket: the error names the permission."""
    storage_proxy.plan = nth(number, Refuse(403))
    finding = (await found(project, adk_store_bucket))["objects"]

    assert "lacks storage.objects." in finding.says
    assert "could not be deleted" not in finding.says
    assert [] == objects_left()


async def test_an_object_whose_answer_is_lost_lives_all_the_same(
    project: str, adk_store_bucket: str, objects_left: Callable[[], list[str]], storage_proxy: StorageProxy
) -> None:
    """It is its own that is there already."""
    storage_proxy.plan = nth(1, Lose())
    finding = (await found(project, adk_store_bucket))["objects"]

    assert "ok" == finding.status
    assert [] == objects_left()


async def test_a_caller_who_gives_up_leaves_no_object(
    project: str, adk_store_bucket: str, objects_left: Callable[[], list[str]], storage_proxy: StorageProxy
) -> None:
    """Ctrl-C while it is on its way: its deletion waits for it."""
    writing, deleting = Hold("before"), Hold("before")
    held = {1: writing, 2: deleting}
    storage_proxy.plan = lambda call: held.get(call.number)
    task = asyncio.create_task(found(project, adk_store_bucket))
    await asyncio.to_thread(writing.reached.wait)
    task.cancel()
    came_first = await asyncio.to_thread(deleting.reached.wait, 0.2)
    deleting.release()
    writing.release()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert not came_first
    assert [] == objects_left()


async def test_nobody_meets_them(
    adk_store: Store, project: str, adk_store_bucket: str, request: pytest.FixtureRequest
) -> None:
    """Neither listings nor the collector, even of an app of the folder's name."""
    seen: list[object] = []

    async def look() -> None:
        seen.extend([garbage async for garbage in adk_store.find_garbage(older_than_s=3600)])
        for app in ("app", "adk-store-doctor", "adk_doctor"):
            who: dict[str, Any] = {"app_name": app, "user_id": "user"}
            seen.extend(await adk_store.artifacts.list_artifact_keys(**who, session_id="session"))
            seen.extend((await adk_store.sessions.list_sessions(app_name=app)).sessions)

    await look()  # by its own connections
    in_database, in_bucket = Hold("before"), Hold("before")
    request.getfixturevalue("firestore_proxy").plan = only("BatchGetDocuments", nth(0, in_database))
    request.getfixturevalue("storage_proxy").plan = nth(2, in_bucket)
    task = asyncio.create_task(found(project, adk_store_bucket))
    for hold in (in_database, in_bucket):
        await asyncio.to_thread(hold.reached.wait)
        await look()
        hold.release()
    findings = await task

    assert ["ok", "ok"] == [findings[name].status for name in ("documents", "objects")]
    assert [] == seen
