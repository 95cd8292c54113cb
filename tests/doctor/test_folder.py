"""The doctor examines the folder of a local store, and its remedies put right what they name."""

import asyncio
import json
import os
import re
import shlex
import sqlite3
import subprocess
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gcp_adk_store.cli.command import command
from gcp_adk_store.doctor.findings import Finding, MemoryCounts, Probe, Status
from gcp_adk_store.doctor.folder import FOLDER_CHECKS, FolderFacts, Mount, findings_of_folder, mount_of
from gcp_adk_store.doctor.folder_examination import examine_folder
from gcp_adk_store.doctor.measures import histogram
from tests.support.stored import at_once

DOCS = (Path(__file__).parents[2] / "docs/doctor.md").read_text()
WHO: dict[str, Any] = {"app_name": "app", "user_id": "ada", "session_id": "s1"}
PROBE = Probe(samples_ms=[1.0, 2.0, 3.0])
HEALTHY = FolderFacts(
    folder="/srv/my store",
    database="/srv/my store/store.sqlite3",
    mode=0o700,
    journal_mode="wal",
    damage=(),
    free_bytes=2**40,
    total_bytes=2**41,
    mount=Mount("/", "ext4"),
    documents=PROBE,
    objects=PROBE,
    memories=MemoryCounts(),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with one session, which is closed."""
    folder = tmp_path / "my store"
    state = {"letters": "x" * 50_000}
    at_once(folder, lambda store: store.sessions.create_session(**WHO, state=state))
    return folder


def doctor(folder: Path, *arguments: str) -> Result:
    """Run the command on a wide terminal."""
    options = ["doctor", "--local", str(folder), *arguments]
    return CliRunner().invoke(command, options, env={"COLUMNS": "300"})


def finding(name: str, **changes: Any) -> Finding:
    """Return the finding of one check about a healthy store with *changes*."""
    (found,) = [each for each in findings_of_folder(replace(HEALTHY, **changes)) if each.check == name]
    return found


def tables_of(folder: Path) -> list[str]:
    """Return the content of the store in SQL, without the times that a sweep leaves."""
    with closing(sqlite3.connect(folder / "store.sqlite3")) as sql:
        return [line for line in sql.iterdump() if '"documents"' in line or '"objects"' in line]


def test_a_healthy_store_passes_every_check_and_stays_as_it_is(folder: Path) -> None:
    """No document and no object of the probes remains."""
    before = tables_of(folder)
    result = doctor(folder)
    lines = re.findall(r"^ ?(ok|skipped|warn|fail) +(.+?)  +", result.output, re.MULTILINE)

    assert 0 == result.exit_code, result.output
    assert f"folder {folder}, prefix adk" == result.output.splitlines()[0]
    assert [("ok", name) for name in FOLDER_CHECKS if name != "file system"] == [
        line for line in lines if line[1] != "file system"
    ]
    assert ["documents", "objects"] == re.findall(r"^ ?reading (\w+)", result.output, re.MULTILINE)
    assert before == tables_of(folder)
    assert [] == [each for each in (folder / "objects").rglob("*") if each.is_file()]


def test_json_has_the_same_and_no_cloud_is_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For programs: the folder, every check, its commands, and all samples.

    Not even where credentials are wrong and an emulator is named.
    """
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere.json")
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", "127.0.0.1:9")
    result = doctor(folder, "--prefix", "team", "--json")
    answer = json.loads(result.stdout)

    assert 0 == result.exit_code, result.output
    assert "emulator" not in result.output
    assert (str(folder), "team", None) == (answer["local"], answer["prefix"], answer["project"])
    assert list(FOLDER_CHECKS) == [each["check"] for each in answer["findings"]]
    assert {"check", "status", "says", "commands", "terraform"} == {*answer["findings"][0]}
    assert [20, 20] == [len(samples) for samples in answer["latency_ms"].values()]


def test_the_document_has_every_check_in_order() -> None:
    """And no other, below its heading."""
    _, _, below = DOCS.partition("## In a folder")
    section = below.partition("\n## ")[0]

    assert list(FOLDER_CHECKS) == re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def test_the_folder_of_the_document_is_examined(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the document's own line, where its folder is the current one's."""
    (line,) = re.findall(r"^gcp-adk-store (doctor --local .*)$", DOCS, re.MULTILINE)
    folder.rename(folder.parent / "support-store")
    monkeypatch.chdir(folder.parent)
    result = CliRunner().invoke(command, shlex.split(line))

    assert 0 == result.exit_code, result.output


def test_a_folder_that_others_may_enter_is_closed_by_the_command(folder: Path) -> None:
    """The command of the report is all that it takes."""
    folder.chmod(0o755)
    answer = json.loads(doctor(folder, "--json").stdout)["findings"][0]
    subprocess.run(["bash", "-c", *answer["commands"]], check=True)  # noqa: S607  # the reader's shell

    assert "warn" == answer["status"]
    assert "mode 755" in answer["says"]
    assert "ok" == json.loads(doctor(folder, "--json").stdout)["findings"][0]["status"]


def test_the_journal_mode_is_put_back_by_the_command(folder: Path) -> None:
    """Another program may have changed it."""
    with closing(sqlite3.connect(folder / "store.sqlite3")) as sql:
        sql.execute("PRAGMA journal_mode = DELETE")
    answer = json.loads(doctor(folder, "--json").stdout)["findings"]
    (warned,) = [each for each in answer if each["status"] == "warn" and each["check"] == "journal mode"]
    program, file, statement = shlex.split(*warned["commands"])
    with closing(sqlite3.connect(file)) as sql:
        sql.execute(statement)

    assert "sqlite3" == program
    assert "delete, not WAL" in warned["says"]
    assert "warn" not in [each["status"] for each in json.loads(doctor(folder, "--json").stdout)["findings"]]


def test_damage_is_found_and_named(folder: Path) -> None:
    """Though the probes may succeed beside it."""
    file = folder / "store.sqlite3"
    content = bytearray(file.read_bytes())
    with closing(sqlite3.connect(file)) as sql:
        (page,) = sql.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'objects_content'").fetchone()
        (size,) = sql.execute("PRAGMA page_size").fetchone()
    content[(page - 1) * size : page * size] = os.urandom(size)
    file.write_bytes(content)
    result = doctor(folder)
    (line,) = re.findall(r"^ ?fail +integrity +(.*)$", result.output, re.MULTILINE)

    assert 1 == result.exit_code, result.output
    assert "SQLite finds damage" in line
    assert "restore the folder from a backup" in line


async def test_a_check_that_does_not_end_in_time_is_left_out(folder: Path) -> None:
    """And the report has the command for the whole of it."""
    with closing(sqlite3.connect(folder / "store.sqlite3")) as sql, sql:
        sql.executemany(
            "INSERT INTO documents (key, parent, collection, update_time, fields) VALUES (?, '', '', 0, '')",
            [(f"{number}",) for number in range(5000)],
        )
    facts = await examine_folder(str(folder), prefix="adk", samples=1, deadline_s=1e-9)
    (found,) = [each for each in findings_of_folder(facts) if each.check == "integrity"]

    assert Status.SKIPPED is found.status, found
    assert (f"sqlite3 '{folder}/store.sqlite3' 'PRAGMA integrity_check'",) == found.commands


def test_a_newer_format_fails_with_the_way_out_and_nothing_else_is_tried(folder: Path) -> None:
    """What needs the file is left out."""
    with closing(sqlite3.connect(folder / "store.sqlite3")) as sql:
        sql.execute("PRAGMA user_version = 99")
    result = doctor(folder)

    assert 1 == result.exit_code
    assert re.search(r"^ ?fail +store .*format 99.*install the release", result.output, re.MULTILINE)
    assert 5 == result.output.count("the store could not be opened")
    assert 2 == result.output.count("nothing could be read")


@pytest.mark.parametrize(
    ("name", "changes", "status", "says"),
    [
        (
            "folder",
            {"unwritable": ["/srv/my store/objects"]},
            Status.FAIL,
            "may not write /srv/my store/objects",
        ),
        ("free space", {"free_bytes": 2**29}, Status.WARN, "512 of"),
        ("free space", {"free_bytes": 2**20}, Status.FAIL, "a full disk refuses every write"),
        ("file system", {"mount": Mount("/srv", "nfs4")}, Status.WARN, "nfs4 at /srv is shared"),
        ("file system", {"mount": Mount("/srv", "fuse.gcsfuse")}, Status.WARN, "move the folder to a disk"),
        ("file system", {"mount": Mount("/srv", "fuse.mergerfs")}, Status.OK, "fuse.mergerfs at /srv"),
        ("file system", {"mount": None}, Status.SKIPPED, "no mount table"),
        ("documents", {"documents": Probe(failure="refused")}, Status.FAIL, "refused"),
        ("objects", {"objects": Probe(failure="refused", left="x")}, Status.FAIL, "x could not be deleted"),
        (
            "latency of documents",
            {"documents": Probe(samples_ms=[30.0] * 3)},
            Status.WARN,
            "the disk is slow",
        ),
        ("latency of objects", {"objects": Probe(samples_ms=[30.0] * 3)}, Status.WARN, "less than 30.0 ms"),
    ],
)
def test_each_problem_has_its_status_and_its_remedy(
    name: str, changes: dict[str, Any], status: Status, says: str
) -> None:
    """A command names the folder as a shell takes it."""
    found = finding(name, **changes)

    assert (status, True) == (found.status, says in found.says), found
    assert all("'/srv/my store" in each for each in found.commands)
    assert Status.OK is finding(name).status


def test_a_mount_point_that_is_no_text_does_not_end_the_doctor(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The kernel writes the bytes of its name as they are."""
    table = tmp_path / "mounts"
    table.write_bytes(b"1 0 8:1 / / rw - ext4 a rw\n2 1 8:2 / /mnt/\xff rw - vfat b rw\n")
    monkeypatch.setattr("gcp_adk_store.doctor.folder_examination.MOUNTS", table)

    assert Mount("/", "ext4") == asyncio.run(examine_folder(str(folder), prefix="adk", samples=1)).mount


def test_the_mount_is_the_innermost_one_of_the_path() -> None:
    """Of two at one place the later one; a name with a blank is encoded as the kernel does."""
    table = r"""20 1 8:1 / / rw - ext4 /dev/a rw
21 20 0:5 / /mnt/my\040disk rw shared:1 master:2 - ext4 /dev/b rw
22 20 0:6 / /mnt/my\040disk rw - nfs4 server:/x rw
23 20 0:7 / /mnt/my rw - tmpfs none rw
not a line of a table
"""

    assert Mount("/mnt/my disk", "nfs4") == mount_of("/mnt/my disk/store", table)
    assert Mount("/", "ext4") == mount_of("/mnt/mydisk", table)
    assert mount_of("/mnt", "") is None


def test_a_histogram_counts_what_lies_between_steps() -> None:
    """From the first step that has some to the last, with those between that have none."""
    assert [("1 to 2 ms", 2), ("2 to 5 ms", 0), ("5 to 10 ms", 1)] == histogram([1.0, 1.9, 5.0])
    assert [("below 1 ms", 1)] == histogram([0.2])
    assert [("1000 ms and more", 1)] == histogram([5000.0])
    assert [] == histogram([])
