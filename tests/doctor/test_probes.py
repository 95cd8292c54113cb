"""The probes leave nothing behind, whatever happens, and nobody who reads a store meets them.

Until when deleted data can be read back, as the APIs report it; what they do not report is unknown.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud.firestore import Client
from google.cloud.storage import Client as StorageClient

from gcp_adk_store import Recovery, Store, StoreSettings
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, Emulator
from gcp_adk_store.testing.faults import Hold, Lose, Plan, Refuse, from_nth, nth, only
from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy
from gcp_adk_store.testing.faults.storage_proxy import StorageProxy
from tests.doctor.conftest import Findings, examined, recovery
from tests.doctor.google_apis import BUCKET, DATABASE, FORBIDDEN, PROJECT, GoogleApis


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


NOW = datetime(2026, 11, 22, tzinfo=UTC).timestamp()
DAY_S = 86_400.0
PATH = f"projects/{PROJECT}/databases/{DATABASE}"


@pytest.fixture
def kept(apis: GoogleApis, in_production: None) -> GoogleApis:
    """A deployment with one backup, and a schedule that keeps them for two weeks."""
    assert in_production is None
    apis.answers |= {
        f"/v1/projects/{PROJECT}/locations/-/backups": (
            200,
            {
                "backups": [
                    backup(PATH, "2026-12-01T00:00:00Z"),
                    backup(PATH, "2026-11-25T00:00:00.5Z"),
                    backup(f"projects/{PROJECT}/databases/other", "2027-03-01T00:00:00Z"),
                ]
            },
        ),
        f"/v1/{PATH}/backupSchedules": (200, {"backupSchedules": [{"retention": f"{14 * 86_400}s"}]}),
    }
    return apis


def backup(database: str, expires: str) -> dict[str, Any]:
    """Return a backup as the API describes it."""
    return {"name": "n", "database": database, "expireTime": expires, "state": "READY"}


async def test_each_way_back_has_its_end(kept: GoogleApis) -> None:
    """A backup that the schedule makes just before may outlive those that exist."""
    assert Recovery(
        firestore_history_until=NOW + 7 * DAY_S,
        backups_until=NOW + 14 * DAY_S,
        soft_delete_until=NOW + 7 * DAY_S,
    ) == await recovery(kept, NOW)


async def test_a_backup_that_exists_may_end_last(kept: GoogleApis) -> None:
    """Those of other databases do not count."""
    kept.answers[f"/v1/{PATH}/backupSchedules"] = (200, {})

    assert datetime(2026, 12, 1, tzinfo=UTC).timestamp() == (await recovery(kept, NOW)).backups_until


async def test_without_any_the_last_hour_of_the_database_is_left(kept: GoogleApis) -> None:
    """Firestore keeps it always."""
    kept.answers[f"/v1/{PATH}/backupSchedules"] = (200, {})
    kept.answers[f"/v1/projects/{PROJECT}/locations/-/backups"] = (200, {})
    kept.change(PATH, lambda body: body.pop("versionRetentionPeriod"))
    kept.change(PATH, lambda body: body.pop("pointInTimeRecoveryEnablement"))
    kept.change(f"/b/{BUCKET}", lambda body: body.pop("softDeletePolicy"))

    assert Recovery(firestore_history_until=NOW + 3600) == await recovery(kept, NOW)


async def test_what_may_not_be_seen_is_unknown(kept: GoogleApis) -> None:
    """With the permission that it needs; the rest is reported."""
    for path in (f"/v1/projects/{PROJECT}/locations/-/backups", f"/storage/v1/b/{BUCKET}"):
        kept.answers[path] = FORBIDDEN

    found = await recovery(kept, NOW)

    assert (NOW + 7 * DAY_S, None) == (found.firestore_history_until, found.soft_delete_until)
    assert (
        "backups: this identity lacks datastore.backups.list",
        "bucket: this identity lacks storage.buckets.get",
    ) == found.unknown


async def test_noncurrent_versions_have_no_known_end(kept: GoogleApis) -> None:
    """A bucket with object versioning keeps what was deleted."""
    kept.change(f"/b/{BUCKET}", lambda body: body.update(versioning={"enabled": True}))

    assert ["bucket: it keeps noncurrent versions, until a lifecycle rule removes them"] == [
        *(await recovery(kept, NOW)).unknown
    ]


async def test_clients_of_the_caller_report_nothing(in_production: None) -> None:
    """Their credentials are not this library's to use."""
    assert in_production is None
    found = await recovery(None, NOW)

    assert found.unknown[0].startswith("everything: ")
