"""The probes leave nothing behind, whatever happens, and nobody who reads a store meets them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud.firestore import Client
from google.cloud.storage import Client as StorageClient

from gcp_adk_store import ArtifactLimits, SessionLimits, Store
from gcp_adk_store.cloud.firestore.channels import Channels
from gcp_adk_store.cloud.firestore.documents import Documents, open_documents
from gcp_adk_store.cloud.storage.calls import StorageCalls
from gcp_adk_store.cloud.storage.objects import Objects
from gcp_adk_store.doctor.examination import object_calls
from gcp_adk_store.doctor.measures import histogram
from gcp_adk_store.doctor.probes import probe_document, probe_object
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, STORAGE_VARIABLE, Emulator
from gcp_adk_store.testing.faults import Hold, Lose, Plan, Refuse, from_nth, nth, only
from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy
from gcp_adk_store.testing.faults.storage_proxy import StorageProxy
from tests.support.stores import bucket_objects

LIMITS = SessionLimits(deadline_s=10)


@pytest.fixture
async def documents(project: str) -> AsyncIterator[Documents]:
    """The documents of a database of the test's own."""
    opened = open_documents(
        project=project, database="(default)", credentials=None, client=None, interceptors=(), limits=LIMITS
    )
    yield opened
    await opened.close()


@pytest.fixture
async def objects(adk_store_bucket: str) -> AsyncIterator[Objects]:
    """The objects of a new bucket."""
    opened = bucket_objects(adk_store_bucket, limits=ArtifactLimits(deadline_s=10))
    yield opened
    await opened.close()


@pytest.fixture
def documents_left(project: str, firestore_emulator: Emulator) -> Callable[[], list[str]]:
    """List what lies in the database."""

    def left() -> list[str]:
        client = Client(project=project)
        found = [
            reference.path for collection in client.collections() for reference in collection.list_documents()
        ]
        client.close()
        return found

    assert firestore_emulator.address
    return left


@pytest.fixture
def objects_left(adk_store_bucket: str, storage_emulator: Emulator) -> Callable[[], list[str]]:
    """List what lies in the bucket."""

    def left() -> list[str]:
        client: Any = StorageClient(project="demo", credentials=AnonymousCredentials())
        return [blob.name for blob in client.list_blobs(adk_store_bucket)]

    assert storage_emulator.address
    return left


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
    documents: Documents,
    documents_left: Callable[[], list[str]],
    firestore_emulator: Emulator,
    monkeypatch: pytest.MonkeyPatch,
    plan: Plan,
    *,
    stays: bool,
) -> None:
    """The error says what to do; what cannot be removed can be by hand."""
    with FirestoreProxy(firestore_emulator.address, plan) as proxy, monkeypatch.context() as patch:
        patch.setenv(FIRESTORE_VARIABLE, proxy.address)
        found = await probe_document(documents, "adk", samples=3)

    assert "PERMISSION_DENIED; grant roles/datastore.user" in found.failure
    assert stays is bool(found.left)
    assert [found.left] * stays == documents_left()


async def test_a_caller_who_gives_up_leaves_no_document(
    documents: Documents,
    documents_left: Callable[[], list[str]],
    firestore_emulator: Emulator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C while it waits for a read."""
    hold = Hold("before")
    holding = only("BatchGetDocuments", nth(0, hold))
    with FirestoreProxy(firestore_emulator.address, holding) as proxy, monkeypatch.context() as patch:
        patch.setenv(FIRESTORE_VARIABLE, proxy.address)
        task = asyncio.create_task(probe_document(documents, "adk", samples=1))
        await asyncio.to_thread(hold.reached.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        hold.release()

    assert [] == documents_left()


@pytest.mark.parametrize("number", [0, 1, 2, 3])
async def test_an_object_that_fails_on_the_way_is_removed(
    objects: Objects,
    objects_left: Callable[[], list[str]],
    storage_emulator: Emulator,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
) -> None:
    """At any of its requests: the error names the permission."""
    with (
        StorageProxy(storage_emulator.address, nth(number, Refuse(403))) as proxy,
        monkeypatch.context() as patch,
    ):
        patch.setenv(STORAGE_VARIABLE, proxy.address)
        found = await probe_object(objects, samples=1)

    assert "lacks storage.objects." in found.failure
    assert not found.left
    assert [] == objects_left()


async def test_an_object_whose_answer_is_lost_lives_all_the_same(
    objects: Objects,
    objects_left: Callable[[], list[str]],
    storage_emulator: Emulator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is its own that is there already."""
    with StorageProxy(storage_emulator.address, nth(0, Lose())) as proxy, monkeypatch.context() as patch:
        patch.setenv(STORAGE_VARIABLE, proxy.address)
        found = await probe_object(objects, samples=1)

    assert found.succeeded
    assert [] == objects_left()


async def test_a_caller_who_gives_up_leaves_no_object(
    adk_store_bucket: str,
    objects_left: Callable[[], list[str]],
    storage_emulator: Emulator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C while it is on its way: its deletion waits for it."""
    writing, deleting = Hold("before"), Hold("before")
    held = {0: writing, 1: deleting}
    with (
        StorageProxy(storage_emulator.address, lambda call: held.get(call.number)) as proxy,
        monkeypatch.context() as patch,
    ):
        patch.setenv(STORAGE_VARIABLE, proxy.address)
        calls = object_calls(adk_store_bucket, project="demo", credentials=None, deadline_s=10)
        task = asyncio.create_task(probe_object(Objects(calls), samples=1))
        await asyncio.to_thread(writing.reached.wait)
        task.cancel()
        came_first = await asyncio.to_thread(deleting.reached.wait, 0.2)
        deleting.release()
        writing.release()
        with pytest.raises(asyncio.CancelledError):
            await task
        await calls.close()

    assert not came_first
    assert [] == objects_left()


async def test_nobody_meets_them(adk_store: Store, project: str, adk_store_bucket: str) -> None:
    """Neither listings nor the collector, even of an app of the folder's name."""
    seen: list[object] = []

    async def look() -> None:
        seen.extend([garbage async for garbage in adk_store.find_garbage(older_than_s=3600)])
        for app in ("app", "adk-store-doctor", "adk_doctor"):
            who: dict[str, Any] = {"app_name": app, "user_id": "user"}
            seen.extend(await adk_store.artifacts.list_artifact_keys(**who, session_id="session"))
            seen.extend((await adk_store.sessions.list_sessions(app_name=app)).sessions)

    class WatchedObjects(Objects):
        async def read(self, *args: Any, **kwargs: Any) -> Any:
            await look()
            return await super().read(*args, **kwargs)

    class WatchedDocuments(Documents):
        async def get(self, *args: Any, **kwargs: Any) -> Any:
            await look()
            return await super().get(*args, **kwargs)

    calls = StorageCalls(
        adk_store_bucket,
        project=project,
        client=None,
        credentials=None,
        limits=ArtifactLimits(deadline_s=10),
    )
    channels = Channels(project=project, database="(default)", credentials=None, interceptors=())
    documents = WatchedDocuments(channels, LIMITS)
    probed = [
        await probe_object(WatchedObjects(calls), samples=1),
        await probe_document(documents, "adk", samples=1),
    ]
    await calls.close()
    await documents.close()

    assert [True, True] == [probe.succeeded for probe in probed]
    assert [] == seen


def test_a_histogram_counts_what_lies_between_steps() -> None:
    """From the first step that has some to the last, with those between that have none."""
    assert [("1 to 2 ms", 2), ("2 to 5 ms", 0), ("5 to 10 ms", 1)] == histogram([1.0, 1.9, 5.0])
    assert [("below 1 ms", 1)] == histogram([0.2])
    assert [("1000 ms and more", 1)] == histogram([5000.0])
    assert [] == histogram([])
