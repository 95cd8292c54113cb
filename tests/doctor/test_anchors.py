"""The doctor reports whether anchors can be removed: by the bucket's settings, or by the store's identity."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gcp_adk_store import StoreSettings
from gcp_adk_store.cli.command import command
from tests.doctor.conftest import PLACE, Findings, Found, Look, examined, found
from tests.doctor.google_apis import BUCKET, DATABASE, FORBIDDEN, MISSING, PROJECT, GoogleApis

ANCHORS = "demo-anchors"
OF_ANCHORS = replace(PLACE, anchors=ANCHORS)
URL = f"/storage/v1/b/{ANCHORS}"
CHECKS = ("anchors", "IAM of anchors")
PERMISSIONS = ("storage.objects.delete", "storage.buckets.update", "storage.buckets.setIamPolicy")
LOCKED = {"retentionPolicy": {"retentionPeriod": "2592000", "isLocked": True}}


@pytest.fixture
def apis(apis: GoogleApis) -> GoogleApis:
    """The APIs of a healthy deployment with a bucket of anchors."""
    apis.answers[URL] = (200, {"name": ANCHORS, **LOCKED})
    apis.answers[f"{URL}/iam/testPermissions"] = (200, {"kind": "storage#testIamPermissionsResponse"})
    return apis


def of_anchors(found: Findings) -> tuple[Found, Found]:
    """Return the findings of the two checks."""
    retention, access = CHECKS
    return found[retention], found[access]


def test_a_locked_policy_and_an_identity_that_cannot_delete_are_ok(look: Look, apis: GoogleApis) -> None:
    """Two lines at the end; without the bucket's name nothing is asked."""
    found = look(place=OF_ANCHORS)
    asked = [each for each in apis.asked if each.path == f"{URL}/iam/testPermissions"]
    apis.asked.clear()
    without = look()

    retention, access = of_anchors(found)
    assert [*CHECKS] == list(found)[-2:]
    assert ("ok", "keeps each anchor for 30 days; the policy is locked") == (
        retention.status,
        retention.says,
    )
    assert "ok" == access.status
    assert [[*PERMISSIONS]] == [each.params["permissions"] for each in asked]
    assert {*CHECKS}.isdisjoint(without)
    assert [] == [each.path for each in apis.asked if ANCHORS in each.path]


@pytest.mark.parametrize(
    ("answer", "status", "says", "remedy"),
    [
        (MISSING, "fail", "does not exist", "buckets create gs://demo-anchors"),
        (FORBIDDEN, "skipped", "lacks storage.buckets.get", ""),
        ((200, {}), "fail", "has no retention policy", "--retention-period=365d"),
        (
            (200, {"retentionPolicy": {"retentionPeriod": "129600"}}),
            "warn",
            "keeps each anchor for 1.5 days, but",
            "--lock-retention-period",
        ),
    ],
    ids=["missing", "forbidden", "no policy", "not locked"],
)
def test_each_way_to_lose_anchors_is_reported(
    look: Look, apis: GoogleApis, answer: tuple[int, Any], status: str, says: str, remedy: str
) -> None:
    """With the command that puts it right."""
    apis.answers[URL] = answer

    retention, _ = of_anchors(look(place=OF_ANCHORS))

    assert status == retention.status
    assert says in retention.says
    assert remedy in " ".join(retention.commands)
    assert bool(remedy) == bool(retention.terraform)


def test_an_identity_that_could_remove_anchors_is_reported(look: Look, apis: GoogleApis) -> None:
    """By its name, with the commands that show its roles and take one away."""
    for permission in PERMISSIONS:
        apis.answers[f"{URL}/iam/testPermissions"] = (200, {"permissions": [permission]})

        _, access = of_anchors(look(place=OF_ANCHORS))

        assert "warn" == access.status, permission
        assert f"has {permission}: the identity" in access.says
        assert "--member=serviceAccount:agent@demo.iam.gserviceaccount.com --role=ROLE" in access.commands[1]


def test_the_stores_own_bucket_is_refused(look: Look) -> None:
    """A retention policy would keep what the store has to delete."""
    retention, _ = of_anchors(look(place=replace(PLACE, anchors=BUCKET)))

    assert ("fail", ()) == (retention.status, retention.commands)
    assert "the store's own bucket" in retention.says


def test_an_emulator_has_neither_policies_nor_permissions() -> None:
    """Both checks are named in the line of what does not apply."""
    checks = of_anchors(found(place=OF_ANCHORS, on_firestore_emulator=True, on_storage_emulator=True))

    assert [("skipped", "on an emulator")] * 2 == [(each.status, each.aside) for each in checks]


@pytest.mark.usefixtures("in_production")
async def test_the_bucket_is_looked_at_with_the_deployment(apis: GoogleApis, key_file: Path) -> None:
    """Also if the store itself has no bucket."""
    chosen = StoreSettings(database=DATABASE, credentials_file=str(key_file))
    _, findings = await examined(chosen, apis, anchors=ANCHORS, deadline_s=0.1)

    assert ["ok"] * 2 == [each.status for each in of_anchors(findings)]


@pytest.mark.usefixtures("in_production")
def test_the_command_prints_the_checks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In the table and in JSON; a malformed name and a folder end it with 2."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "missing.json"))

    def doctor(*arguments: str) -> Any:
        return CliRunner().invoke(command, ["doctor", *arguments], env={"COLUMNS": "200"})

    table = doctor("--project", PROJECT, "--anchors", ANCHORS)
    answer = json.loads(doctor("--project", PROJECT, "--anchors", ANCHORS, "--json").stdout)
    malformed = doctor("--project", PROJECT, "--anchors", "gs://b")
    folder = doctor("--local", str(tmp_path), "--anchors", ANCHORS)

    assert "IAM of anchors" in table.output
    assert (ANCHORS, [*CHECKS]) == (
        answer["anchors"],
        [each["check"] for each in answer["findings"]][-2:],
    )
    assert (2, 2) == (malformed.exit_code, folder.exit_code)
    assert "without gs://" in malformed.output
    assert "a folder has no retention policy" in folder.output
