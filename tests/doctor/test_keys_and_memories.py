"""The doctor reports whether a store's keys work, and whether something keeps those of erased users.

The doctor counts memories that have no vector, and names the command that makes them.
"""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from gcp_adk_store import FunctionEmbedder, KmsEnvelope, Store, StoreSettings
from gcp_adk_store.cli.command import command
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


def test_a_key_file_that_is_missing_is_not_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """At a wrong path, a new key would read nothing, and look as if all were well."""
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", "127.0.0.1:1")
    monkeypatch.setenv("ADK_STORE_ENCRYPTION_KEY", f"{tmp_path}/key")
    run = CliRunner().invoke(command, ["doctor", "--project=demo-keys", "--json"])
    (finding,) = [each for each in json.loads(run.output)["findings"] if each["check"] == "encryption key"]

    assert ("warn", True) == (finding["status"], f"{tmp_path}/key does not exist" in finding["says"])
    assert not [*tmp_path.iterdir()]


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


class Weak:
    """An embedder that is slow at times."""

    is_slow = False

    async def embed(self, texts: Sequence[str], _: str) -> list[list[float]]:
        """Return vectors, or fail."""
        if self.is_slow:
            raise TimeoutError
        return [[1.0, float(len(text))] for text in texts]


def of(user: str) -> dict[str, Any]:
    """Return the names of a user."""
    return {"app_name": "my app", "user_id": user}


def entries(count: int) -> list[MemoryEntry]:
    """Return so many memories."""
    return [MemoryEntry(content=types.Content(parts=[types.Part(text=f"m {n}")])) for n in range(count)]


async def fill(path: Path) -> None:
    """Remember something of three users; one of them has no vector, and one lacks some."""
    weak = Weak()
    embedder = FunctionEmbedder(weak.embed, name="weak", dimensions=2)
    async with Store.local(path, embedder=embedder) as store:
        await store.memory.add_memory(**of("ann"), memories=entries(3))
        await store.memory.add_memory(**of("bob"), memories=entries(1))
        weak.is_slow = True
        await store.memory.add_memory(**of("bob"), memories=entries(2))
        await store.memory.add_memory(**of("cy's"), memories=entries(2))


def of_vectors(path: Path, prefix: str = "adk") -> dict[str, Any]:
    """Return what the command finds of the vectors of memories."""
    result = CliRunner().invoke(command, ["doctor", "--local", str(path), "--prefix", prefix, "--json"])
    assert 0 == result.exit_code
    (one,) = [each for each in json.loads(result.stdout)["findings"] if "vectors" in each["check"]]
    return dict(one)


def test_memories_without_vectors_are_counted(tmp_path: Path) -> None:
    """Of a store in which others have some; with its options, and ids as a shell takes them."""
    asyncio.run(fill(tmp_path))
    one, other = of_vectors(tmp_path), of_vectors(tmp_path, "other")
    reindex = f"gcp-adk-store memory reindex --local={tmp_path} --prefix=adk --app='my app'"

    assert "warn" == one["status"]
    assert one["says"].startswith("4 of 8 memories of 3 users have no vector")
    assert [f"{reindex} --user=bob", f"""{reindex} --user='cy'"'"'s'"""] == one["commands"]
    assert ("ok", True) == (other["status"], other["says"].startswith("0 memories of 0 users"))


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        ({"users": 2, "memories": 5}, "have no vectors: the store has no embedder"),
        ({"users": 2, "memories": 5, "vectors": 5}, "5 memories of 2 users have vectors"),
        ({"users": 100, "memories": 5, "vectors": 5}, "of the first 100 users"),
        ({"failure": "no answer"}, "memories could not be read: no answer"),
    ],
)
def test_what_lacks_nothing_is_no_warning(counts: dict[str, Any], says: str) -> None:
    """Also not a store without an embedder."""
    finding = found(memories=counts)["vectors of memories"]

    assert says in finding.says
    assert () == finding.commands
