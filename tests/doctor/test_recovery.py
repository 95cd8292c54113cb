"""Until when deleted data can be read back, as the APIs report it; what they do not report is unknown."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gcp_adk_store import Recovery
from tests.doctor.conftest import recovery
from tests.doctor.google_apis import BUCKET, DATABASE, FORBIDDEN, PROJECT, GoogleApis

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
