"""A place that cannot be used is a typed error of every call, and one message of a command."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from gcp_adk_store import Store
from gcp_adk_store.cli.command import command
from tests.local.refused_process import OF, as_nobody, on_a_full_disk, outcomes
from tests.support.logs import of_ours
from tests.support.ready_processes import elsewhere

pytestmark = pytest.mark.processes

FULL = "the disk takes no more"


@pytest.fixture
def folder(path: Path) -> Path:
    """The folder of a store that does not exist yet."""
    return path.parent


@pytest.fixture
async def made(folder: Path) -> Path:
    """The folder of a store, which is closed."""
    async with Store.local(folder) as store:
        await store.sessions.list_sessions(app_name="app")
    return folder


async def test_a_file_in_place_of_the_folder_is_refused(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of the store, and of its artifacts; the error says that it is a file."""
    folder.write_text("mine")
    for at in (folder, folder / "below"):
        for kind, text in await outcomes(at):
            assert "InvalidInputError" == kind
            assert f"{at} cannot be a folder, since a file is in its way" in text
            assert "pass the path of a store, or one that does not exist yet" in text
    assert "mine" == folder.read_text()
    assert [] == of_ours(caplog)


async def test_a_path_that_no_file_can_have_is_refused(folder: Path) -> None:
    """A folder is in place of the file, or a name is too long; the error names the path."""
    (folder / "store.sqlite3").mkdir(parents=True)
    for at in (folder, folder.parent / ("x" * 300)):
        for kind, text in await outcomes(at):
            assert "InvalidInputError" == kind
            assert str(at) in text
            assert "pass" in text


async def test_a_file_in_place_of_the_artifacts_is_refused_and_sessions_work(made: Path) -> None:
    """The error names the file."""
    (made / "objects").write_text("mine")
    created, saved, got, loaded = await outcomes(made)

    assert ["done", "done", "done"] == [created[0], got[0], loaded[0]]
    assert "InvalidInputError" == saved[0]
    assert f"{made}/objects cannot be a folder, since a file is in its way" in saved[1]


@pytest.mark.parametrize("content", [b"no database" * 100, b"short"])
async def test_a_file_that_is_no_store_is_refused_by_every_call(
    folder: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """It stays, and nothing appears beside it."""
    folder.mkdir()
    (folder / "store.sqlite3").write_bytes(content)
    for kind, text in await outcomes(folder):
        assert "InvalidInputError" == kind
        assert f"{folder}/store.sqlite3: this is neither a store" in text
        assert "pass the path of a store" in text
    assert [("store.sqlite3", content)] == [(each.name, each.read_bytes()) for each in folder.iterdir()]
    assert [] == of_ours(caplog)


async def test_a_newer_format_is_refused_by_every_call(made: Path) -> None:
    """With both formats, and the release to install."""
    with closing(sqlite3.connect(made / "store.sqlite3")) as sql:
        (own,) = sql.execute("PRAGMA user_version").fetchone()
        sql.execute(f"PRAGMA user_version = {own + 1}")
    for kind, text in await outcomes(made):
        assert "StoredDataError" == kind
        assert f"{made}/store.sqlite3 has format {own + 1}, and this release reads format {own}" in text
        assert "install the release" in text


@pytest.mark.long
@pytest.mark.usefixtures("passing")
async def test_a_file_that_another_process_holds_is_refused_at_the_deadline(made: Path) -> None:
    """Of what writes; reads go on, and nothing was written."""
    with closing(sqlite3.connect(made / "store.sqlite3", isolation_level=None)) as sql:
        sql.execute("BEGIN IMMEDIATE")
        created, saved, got, loaded = await outcomes(made)

    for kind, text in (created, saved):
        assert "UnavailableError" == kind
        assert f"{made}/store.sqlite3: another process held the file for too long" in text
        assert "nothing was written; try again, or end it" in text
    assert ["done", "done"] == [got[0], loaded[0]]
    async with Store.local(made) as store:
        assert [] == (await store.sessions.list_sessions(app_name="app")).sessions
        assert [] == await store.artifacts.list_artifact_keys(**OF)
    assert [["done", ""]] * 4 == await outcomes(made)


def test_another_users_store_is_denied_by_every_call(made: Path, path: Path) -> None:
    """Whether it exists or not; a command says so in one line."""
    above = made.parent
    for each in (*made.iterdir(), made, above):
        each.chmod(0o555 if each.is_dir() else 0o444)
    found = elsewhere(as_nobody, f"{path}")
    above.chmod(0o755)
    made.rename(above / "gone")
    above.chmod(0o555)
    absent = elsewhere(as_nobody, f"{path}")
    for each in (above, above / "gone"):
        each.chmod(0o755)

    for kind, text in found["outcomes"] + absent["outcomes"]:
        assert "AccessDeniedError" == kind, text
        assert str(made) in text
        assert "let this user write the file and its folder, or pass another path" in text
    assert (2, "") == (found["status"], found["stdout"])
    assert str(made) in found["stderr"]
    assert "let this user" in found["stderr"]
    assert 1 == len(found["stderr"].splitlines())


def test_a_full_disk_leaves_nothing_of_a_new_store(path: Path) -> None:
    """When there is room again, the same process makes it."""
    answer = elsewhere(on_a_full_disk, f"{path}")

    for kind, text in answer["outcomes"]:
        assert "UnavailableError" == kind
        assert f"{path}: {FULL}" in text
        assert "free some space there; nothing was written" in text
    assert [[], [], []] == answer["left"]
    assert [["done", ""]] * 4 == answer["after"]


def test_a_full_disk_refuses_writes_and_leaves_nothing_of_them(made: Path, path: Path) -> None:
    """Reads go on; when there is room again, the same calls succeed."""
    answer = elsewhere(on_a_full_disk, f"{path}")
    created, saved, got, loaded = answer["outcomes"]

    assert ["UnavailableError"] * 2 == [created[0], saved[0]]
    assert f"{path}: {FULL}" in created[1]
    assert f"{made}/objects: {FULL}" in saved[1]
    assert ["done", "done"] == [got[0], loaded[0]]
    assert [[], [], []] == answer["left"]
    assert [["done", ""]] * 4 == answer["after"]


def test_a_command_names_the_file_that_another_process_holds(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And leads to the doctor, for the same folder."""
    from gcp_adk_store import SessionLimits  # noqa: PLC0415

    monkeypatch.setattr("gcp_adk_store.cli.place._READS_ONCE", SessionLimits(deadline_s=0.3))
    line = ["sessions", "list", "--local", str(made), "--app", "app"]
    with closing(sqlite3.connect(made / "store.sqlite3", isolation_level=None)) as sql:
        sql.execute("PRAGMA locking_mode = EXCLUSIVE")
        sql.execute("BEGIN EXCLUSIVE")
        result = CliRunner().invoke(command, line)

    assert (2, "") == (result.exit_code, result.stdout), result.output
    assert f"{made}/store.sqlite3: another process held the file" in result.stderr
    assert result.stderr.strip().endswith(f"gcp-adk-store doctor --local {made}")
