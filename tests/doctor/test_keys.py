"""The doctor reports whether a store's keys work, and whether something keeps those of erased users."""

from typing import Any

import pytest

from gcp_adk_store import KmsEnvelope, StoreSettings
from tests.doctor.conftest import Findings, found
from tests.doctor.google_apis import DATABASE, PROJECT

KEPT_OFF: dict[str, Any] = {"deleteProtectionState": "DELETE_PROTECTION_ENABLED"}
BACKUP = {
    "name": f"projects/{PROJECT}/locations/eur3/backups/b1",
    "database": f"projects/{PROJECT}/databases/adk-keys",
    "state": "READY",
}
OF_ANOTHER = {**BACKUP, "database": f"projects/{PROJECT}/databases/{DATABASE}"}
GONE = {**BACKUP, "state": "NOT_AVAILABLE"}
SCHEDULE = {"name": "projects/p/databases/adk-keys/backupSchedules/daily"}


def with_keys(
    *, failure: str = "", status: int = 200, schedules: Any = (), backups: Any = (), **database: Any
) -> Findings:
    """Return what is found of a deployment and its keys."""
    answers = {
        "database": {"status": status, "body": {**KEPT_OFF, **database}},
        "backups": {"status": 200, "body": {"backups": list(backups)}},
        "schedules": {"status": 200, "body": {"backupSchedules": list(schedules)}},
    }
    return found(keys={"answers": answers, "failure": failure})


def test_good_keys_are_ok() -> None:
    """Two lines at the end of the report, of encrypted stores alone."""
    findings = with_keys()

    assert ("ok", "ok") == (findings["encryption key"].status, findings["keys database"].status)
    assert ["encryption key", "keys database"] == list(findings)[-2:]
    assert "encryption key" not in found()


@pytest.mark.parametrize(
    ("wrong", "status", "says", "command"),
    [
        ({"status": 404}, "fail", "does not exist", "databases create"),
        ({"status": 403}, "skipped", "may not look", ""),
        (
            {"pointInTimeRecoveryEnablement": "POINT_IN_TIME_RECOVERY_ENABLED"},
            "fail",
            "the keys of erased users stay",
            "--no-enable-pitr",
        ),
        ({"schedules": [SCHEDULE]}, "fail", "backups are made", "--backup-schedule=daily"),
        (
            {"backups": [OF_ANOTHER, BACKUP]},
            "fail",
            "backups exist",
            f"backups delete --backup=b1 --location=eur3 --project={PROJECT}",
        ),
        ({"backups": [OF_ANOTHER, GONE]}, "ok", "has no backups", ""),
        ({"deleteProtectionState": "OFF"}, "warn", "one command deletes", "--delete-protection"),
    ],
    ids=["missing", "forbidden", "history", "schedule", "backup", "no backup", "protection"],
)
def test_each_way_to_lose_or_keep_keys_is_reported(
    wrong: dict[str, Any], status: str, says: str, command: str
) -> None:
    """With the command that puts it right."""
    finding = with_keys(**wrong)["keys database"]

    assert status == finding.status
    assert says in finding.says
    assert command in " ".join(finding.commands)


def test_a_key_that_does_not_work_fails() -> None:
    """With the error of the wrapper."""
    finding = with_keys(failure="grant it")["encryption key"]

    assert ("fail", "grant it") == (finding.status, finding.says)


def test_the_variables_name_the_encryption() -> None:
    """Of Cloud KMS, or of a file; without the first one there is none."""
    key = "projects/p/locations/l/keyRings/r/cryptoKeys/k"
    env = {
        "ADK_STORE_ENCRYPTION_KEY": key,
        "ADK_STORE_KEYS_DATABASE": "my-keys",
        "ADK_STORE_ACCEPT_PLAINTEXT": "true",
        "ADK_STORE_ENCRYPT_ARTIFACTS": "1",
    }

    assert (
        KmsEnvelope(key=key, keys_database="my-keys", accept_plaintext=True, artifacts=True)
        == StoreSettings.from_env(env).encryption
    )
    assert StoreSettings.from_env({"ADK_STORE_KEYS_DATABASE": "my-keys"}).encryption is None
