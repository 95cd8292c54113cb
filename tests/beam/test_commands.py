"""The commands of bulk jobs, and what docs/bulk.md and docs/cli.md show of them, run as they are."""

import asyncio
import json
import shlex
import subprocess
import sys
from pathlib import Path

import apache_beam as beam
import pytest
from click.testing import CliRunner, Result

from gcp_adk_store import Store
from gcp_adk_store.cli.command import command
from gcp_adk_store.testing.conformance.running import event
from tests.beam.conftest import lines
from tests.moving.hardest import APP, fill
from tests.support.documents import ROOT, commands, names_of
from tests.support.stored import collection, remove

STORE = "support-store"


def ran(folder: Path, *arguments: str) -> Result:
    """Run a job of the command on the store in *folder*."""
    job, *rest = arguments
    return CliRunner().invoke(command, ["bulk", job, "--local", str(folder), "--app", APP, *rest])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the store of the documents, which is the current one."""

    async def make() -> None:
        async with Store.local(tmp_path / STORE) as store:
            for user in ("ada", "bob"):
                await store.sessions.create_session(app_name="support", user_id=user, session_id="s1")
            await store.sessions.update_session_info(
                app_name="support", user_id="ada", session_id="s1", labels={"team": "x"}
            )

    asyncio.run(make())
    (tmp_path / "users.txt").write_text("bob\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_code_of_bulk_md_exports_what_it_says(here: Path) -> None:
    """The sessions of one label, to Parquet files."""
    names = names_of("docs/bulk.md", 0)

    counts = names["counts"]
    assert (2, 1) == (counts["sessions"], counts["sessions_read"])
    assert [".parquet"] * 2 == sorted(path.suffix for path in (here / "support").iterdir())


def test_the_commands_of_bulk_jobs_in_the_documents_run(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other."""
    monkeypatch.setenv("ADK_STORE_LOCAL", str(here / STORE))
    pages = "\n".join([*commands("docs/bulk.md"), *commands("docs/cli.md")])
    shown = [line for line in pages.splitlines() if line.startswith("gcp-adk-store bulk ")]
    results = [CliRunner().invoke(command, shlex.split(line)[1:]) for line in shown]

    assert [0] * 5 == [each.exit_code for each in results], [each.output for each in results]
    assert {"support", "sessions-00000-of-00001.jsonl", "broken-00000-of-00001.jsonl"} <= {
        path.name for path in here.iterdir()
    }


def test_jobs_print_their_counts(folder: Path, tmp_path: Path) -> None:
    """As text and as JSON; status 0."""
    read = ran(folder, "read", str(tmp_path / "sessions"))
    verify = ran(folder, "verify", "--json", "--partitions", "3", str(tmp_path / "broken"))
    tried = ran(folder, "prune", "--keep-latest", "1", "--dry-run", "--json")

    assert [0] * 3 == [each.exit_code for each in (read, verify, tried)], read.output + verify.output
    assert "sessions: 24" in read.stdout
    assert 24 == len(lines(tmp_path, "sessions"))
    assert (24, 3) == tuple(json.loads(verify.stdout)["counts"][name] for name in ("verified", "ranges"))
    assert 11 == json.loads(tried.stdout)["counts"]["pruned_sessions"]


def test_an_erasure_needs_a_yes(folder: Path, tmp_path: Path) -> None:
    """Without one it says what to run; with one it erases the users of the file, once each.

    The file may be one of Windows: with a mark of its encoding, and other ends of lines.
    """
    (tmp_path / "users").write_bytes("\ufeffu01\r\n\r\nu02\r\nu01\r\n".encode())
    given = (str(tmp_path / "users"), str(tmp_path / "receipts"))
    refused = ran(folder, "erase", *given)
    tried = ran(folder, "erase", "--dry-run", *given)
    erased = ran(folder, "erase", "--yes", "--json", *given)

    assert (2, 0, 0) == (refused.exit_code, tried.exit_code, erased.exit_code), tried.output + erased.output
    assert f"--dry-run {given[0]} {given[1]}" in refused.stderr
    assert 2 == json.loads(erased.stdout)["counts"]["users"]
    assert 2 == len(lines(tmp_path, "receipts"))


@pytest.mark.parametrize(
    ("content", "says"), [(None, "does not exist"), ("u01\n".encode("utf-16"), "is not UTF-8")]
)
def test_an_erasure_names_a_file_that_cannot_be_read(
    folder: Path, tmp_path: Path, content: bytes | None, says: str
) -> None:
    """And runs no job."""
    users = tmp_path / "users"
    if content is not None:
        users.write_bytes(content)
    refused = ran(folder, "erase", "--dry-run", str(users), str(tmp_path / "receipts"))

    assert (2, True) == (refused.exit_code, f"{users} {says}" in refused.stderr), refused.output


def test_a_mark_of_an_encoding_goes_only_where_a_file_begins(folder: Path, tmp_path: Path) -> None:
    """An id may begin with the same character: another user must not be erased in its place."""
    (tmp_path / "users-1").write_bytes("\ufeffu01\n\ufeffu02\n".encode())
    (tmp_path / "users-2").write_bytes("u03\n\ufeffu04\n".encode())
    erased = ran(folder, "erase", "--yes", "--json", str(tmp_path / "users-*"), str(tmp_path / "receipts"))
    read = ran(folder, "read", str(tmp_path / "sessions"))
    left = {json.loads(each)["user_id"] for each in lines(tmp_path, "sessions-")}

    assert (0, 0) == (erased.exit_code, read.exit_code), erased.output + read.output
    assert 4 == json.loads(erased.stdout)["counts"]["users"]
    assert ({"u02", "u04"}, set()) == ({"u02", "u04"} & left, {"u01", "u03"} & left)


def test_a_session_that_cannot_be_read_ends_with_1(folder: Path, tmp_path: Path) -> None:
    """And the others are exported."""

    async def damage() -> None:
        async with Store.local(folder) as store:
            large = [event("x" * 9000) for _ in range(9)]
            await fill(store.sessions, [("zoe", "s", large)])
            segments = await collection(store, "adk_segments")
            (segment,) = [path for path in segments if "/adk_users/zoe/" in path]
            await remove(store, segment)

    asyncio.run(damage())
    result = ran(folder, "export", "--json", str(tmp_path / "out"))

    assert 1 == result.exit_code, result.output
    assert (24, 1) == tuple(
        json.loads(result.stdout)["counts"][name] for name in ("sessions_read", "unreadable")
    )


def test_beams_options_reach_beam(folder: Path, tmp_path: Path) -> None:
    """An unknown runner is refused; so is a runner of other machines without the number of processes."""
    unknown = ran(folder, "read", str(tmp_path / "out"), "--", "--runner", "NoSuchRunner")
    elsewhere = ran(folder, "read", str(tmp_path / "out"), "--", "--runner", "FlinkRunner")

    assert 2 == elsewhere.exit_code
    assert "--max_num_workers" in elsewhere.stderr
    assert 0 != unknown.exit_code
    assert beam.__version__


@pytest.mark.long
def test_the_benchmark_of_bulk_jobs_measures_sessions_and_memory(tmp_path: Path) -> None:
    """In its shortest form."""
    short = ("--sessions", "30", "--jobs", "export", "--workers", "1", "--json", str(tmp_path / "out"))
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tools.benchmarks.bulk", *short],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )

    assert 0 == run.returncode, run.stderr
    (row,) = json.loads((tmp_path / "out").read_text())
    assert ("export", 30, 1) == (row["job"], row["sessions"], row["workers"])
    assert row["sessions_per_s"] > 0
    assert row["peak_mib"][0] > 0
