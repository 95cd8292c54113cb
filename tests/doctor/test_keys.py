"""The doctor reports whether a store's keys work, and whether something keeps those of erased users."""

from typing import Any

import pytest

from gcp_adk_store import KmsEnvelope, StoreSettings
from gcp_adk_store.doctor.findings import Answer, Facts, Finding, KeysFacts, Status
from gcp_adk_store.doctor.report import findings_of
from tests.doctor.conftest import PLACE

KEPT_OFF: dict[str, Any] = {"deleteProtectionState": "DELETE_PROTECTION_ENABLED"}
SCHEDULE = {"name": "projects/p/databases/adk-keys/backupSchedules/daily"}


def found(
    *, failure: str = "", status: int = 200, schedules: Any = (), **database: Any
) -> dict[str, Finding]:
    """Return what is found of the keys, by check."""
    answers = {
        "database": Answer(status=status, body={**KEPT_OFF, **database}),
        "backups": Answer(status=200, body={}),
        "schedules": Answer(status=200, body={"backupSchedules": list(schedules)}),
    }
    keys = KeysFacts(key="the key", database="adk-keys", answers=answers, failure=failure)
    return {each.check: each for each in findings_of(Facts(place=PLACE, keys=keys))}


def test_good_keys_are_ok() -> None:
    """Two lines at the end of the report, of encrypted stores alone."""
    findings = found()

    assert (Status.OK, Status.OK) == (findings["encryption key"].status, findings["keys database"].status)
    assert ["encryption key", "keys database"] == list(findings)[-2:]
    assert "encryption key" not in {each.check for each in findings_of(Facts(place=PLACE))}


@pytest.mark.parametrize(
    ("wrong", "status", "says", "command"),
    [
        ({"status": 404}, Status.FAIL, "does not exist", "databases create"),
        ({"status": 403}, Status.SKIPPED, "may not look", ""),
        (
            {"pointInTimeRecoveryEnablement": "POINT_IN_TIME_RECOVERY_ENABLED"},
            Status.FAIL,
            "the keys of erased users stay",
            "--no-enable-pitr",
        ),
        ({"schedules": [SCHEDULE]}, Status.FAIL, "backups are made", "--backup-schedule=daily"),
        ({"deleteProtectionState": "OFF"}, Status.WARN, "one command deletes", "--delete-protection"),
    ],
    ids=["missing", "forbidden", "history", "backups", "protection"],
)
def test_each_way_to_lose_or_keep_keys_is_reported(
    wrong: dict[str, Any], status: Status, says: str, command: str
) -> None:
    """With the command that puts it right."""
    finding = found(**wrong)["keys database"]

    assert status is finding.status
    assert says in finding.says
    assert command in " ".join(finding.commands)


def test_a_key_that_does_not_work_fails() -> None:
    """With the error of the wrapper."""
    finding = found(failure="grant it")["encryption key"]

    assert (Status.FAIL, "grant it") == (finding.status, finding.says)


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
