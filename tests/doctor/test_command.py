"""Show what ``gcp-adk-store doctor`` prints and how it ends: on the emulators, and where there are none."""

import json
import os
import re
import shlex
import subprocess
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gcp_adk_store import Store, StoreSettings
from gcp_adk_store.cli.command import command
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, Emulator
from tests.doctor.conftest import PLACE, Look, examined, found
from tests.doctor.google_apis import BUCKET, DATABASE, PROJECT, GoogleApis

DOCS = (Path(__file__).parents[2] / "docs/doctor.md").read_text()
PROBES = ("documents", "objects", "latency of documents", "latency of objects", "vectors of memories")


def doctor(*arguments: str) -> Result:
    """Run the command on a wide terminal."""
    return CliRunner().invoke(command, ["doctor", *arguments], env={"COLUMNS": "200"})


def test_the_emulators_are_looked_at_as_far_as_they_go(
    project: str, adk_store_bucket: str, firestore_emulator: Emulator
) -> None:
    """By the command of the document: a short table of what applies, and one line that names what does not.

    The first line says where it looked; without a project, that is the one of stores that name none. Latency
    is drawn as a histogram for documents and one for objects, whose bars count the reads.
    """
    (line,) = re.findall(r"^gcp-adk-store (doctor --project .*)$", DOCS, re.MULTILINE)
    names = {"my-project": project, "my-bucket": adk_store_bucket}
    result = doctor(*(names.get(word, word) for word in shlex.split(line)[1:]))
    shown = result.output
    first, assumed = (each.splitlines()[0] for each in (shown, doctor().output))
    drawn = shown.split("reading ")[1:]
    counts = [
        sum(int(count) for count in re.findall(r"ms .*?(?:█ *| )(\d+) *$", part, re.MULTILINE))
        for part in drawn
    ]
    lines = {
        match[2]: match[1]
        for match in re.finditer(r"^ ?(ok|skipped|warn|fail) +(.+?)  +(.*?) *$", shown, re.MULTILINE)
    }
    (aside,) = re.findall(r"^does not apply on an emulator: (.*)$", shown, re.MULTILINE)

    assert 0 == result.exit_code, result.output
    assert {*names} <= {*shlex.split(line)}
    assert f"project {project}, database (default), prefix adk, bucket {adk_store_bucket}" in first
    assert firestore_emulator.address in first
    assert assumed.startswith("project demo-adk-store, database (default), prefix adk, no bucket")
    assert ["documents", "objects"] == [part.split()[0] for part in drawn]
    assert [20, 20] == counts
    assert dict.fromkeys(("bucket", *PROBES), "ok") == lines
    assert {*found()} - {*lines} == {*aside.split(", ")}
    assert f"{len(lines)} ok\n" in shown
    assert "skipped" not in shown


def test_a_missing_bucket_ends_it_with_1(project: str, storage_emulator: Emulator) -> None:
    """And is named by its own check, with the command that makes it on the emulator; which then does."""
    missing = f"missing-{uuid.uuid4().hex}"
    result = doctor("--project", project, "--bucket", missing)
    (make,) = re.findall(r"^  (curl .*)$", result.output, re.MULTILINE)
    made = subprocess.run(
        ["bash", "-c", make],  # noqa: S607  # the reader's shell
        env={**os.environ, storage_emulator.variable: storage_emulator.address},
        check=False,
        capture_output=True,
    )

    assert 1 == result.exit_code
    assert re.search(rf"fail +bucket +gs://{missing} does not exist on the emulator", result.output)
    assert re.search(r"skipped +objects +the bucket does not exist", result.output)
    assert "Traceback" not in result.output
    assert 0 == made.returncode, made.stderr
    assert 0 == doctor("--project", project, "--bucket", missing).exit_code


def test_without_a_bucket_objects_are_left_out(project: str) -> None:
    """It is no fault to have none: one line says how to name one, one what does not apply."""
    result = doctor("--project", project)

    assert 0 == result.exit_code, result.output
    assert re.search(r"skipped +bucket +the store has no bucket; name one with --bucket", result.output)
    assert re.search(
        r"^does not apply without a bucket: bucket location, .*, latency of objects$",
        result.output,
        re.MULTILINE,
    )
    assert "reading objects" not in result.output


@pytest.mark.usefixtures("in_production")
def test_missing_credentials_are_one_finding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With the command that gets some; the rest is skipped."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "missing.json"))
    result = doctor("--project", PROJECT, "--bucket", BUCKET, "--json")
    findings = {one["check"]: one for one in json.loads(result.stdout)["findings"]}

    assert 1 == result.exit_code
    assert "fail" == findings.pop("credentials")["status"]
    assert {"skipped"} == {one["status"] for one in findings.values()}
    assert {"the credentials are missing"} == {one["says"] for one in findings.values()}


@pytest.mark.usefixtures("in_production")
def test_a_name_that_others_gave_steers_no_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is shown as Python escapes it."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key\x1b[2J.json"))
    result = doctor("--project", PROJECT)

    assert "\x1b[2J" not in result.output
    assert "key\\x1b[2J.json" in result.output


@pytest.mark.usefixtures("in_production")
async def test_a_deployment_is_looked_at_from_its_credentials_to_its_probes(
    apis: GoogleApis, key_file: Path
) -> None:
    """The project is the credentials'; settings are ok, and probes that get nowhere fail, and say so."""
    chosen = StoreSettings(database=DATABASE, bucket=BUCKET, credentials_file=str(key_file))
    there = [
        {"name": f"projects/1/services/{name}.example.test", "state": "ENABLED"}
        for name in ("firestore", "storage")
    ]
    apis.change("services:batchGet", lambda body: body.update(services=there))
    place, findings = await examined(chosen, apis, deadline_s=0.5)
    by_status: dict[str, list[str]] = {}
    for finding in findings.values():
        by_status.setdefault(finding.status, []).append(finding.check)

    assert PROJECT == place.project
    assert ["documents", "objects"] == by_status["fail"]
    unread = ["latency of documents", "latency of objects", "vectors of memories"]
    assert unread == by_status["skipped"]
    assert ["credentials"] == by_status["warn"]
    assert "agent@demo.iam.gserviceaccount.com" in findings["credentials"].says


@pytest.mark.usefixtures("in_production", "passing")
async def test_a_bucket_beside_an_emulated_database_is_looked_at(
    apis: GoogleApis,
    key_file: Path,
    firestore_emulator: Emulator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each is asked where it is."""
    monkeypatch.setenv(FIRESTORE_VARIABLE, firestore_emulator.address)
    chosen = StoreSettings(bucket=BUCKET, credentials_file=str(key_file))
    async with Store.connect(project=PROJECT) as store:  # a new emulator answers its first write late
        await store.sessions.create_session(app_name="app", user_id="ada")
    _, found = await examined(chosen, apis, deadline_s=30)

    assert ("ok", "ok") == (found["documents"].status, found["bucket"].status)
    assert ("skipped", "fail") == (found["indexes"].status, found["objects"].status)
    assert "the location of the database is unknown" in found["bucket location"].says
    assert [] == [request.path for request in apis.asked if "/databases/" in request.path]


def test_an_api_that_cannot_be_reached_is_reported(look: Look) -> None:
    """By each check that asked it."""
    found = look(endpoint="http://127.0.0.1:9")
    failed = [each.says for each in found.values() if each.status == "fail"]

    assert 14 == len(failed)
    assert {"the API could not be reached (ConnectionError); try again, or look at the network"} == {*failed}


def test_every_check_is_explained(apis: GoogleApis) -> None:
    """docs/doctor.md has a row for each, in their order, and the rules that a bucket needs."""
    rows = re.findall(
        r"^\| `([^`]+)` \|", DOCS.partition("## Line by line")[2].partition("\n## ")[0], re.MULTILINE
    )
    (rules,) = re.findall(r"```json\n(.*?)```", DOCS, re.DOTALL)

    assert [*found(place=replace(PLACE, anchors="b"), keys={"failure": "no"})] == rows
    assert apis.answers[f"/storage/v1/b/{BUCKET}"][1]["lifecycle"] == json.loads(rules)
