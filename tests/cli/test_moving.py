"""The commands copy, export and import, on stores in folders."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from google.adk.sessions.sqlite_session_service import SqliteSessionService

from gcp_adk_store import Store
from gcp_adk_store.cli.command import command
from tests.moving.hardest import APP, fill, hardest, many


def run(*arguments: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(command, arguments)


def uri(folder: Path) -> str:
    """Return the URI of a store in a folder."""
    return f"firestore+local://{folder}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a store with three sessions."""

    async def make() -> None:
        async with Store.local(tmp_path / "one") as store:
            await fill(store.sessions, [("ada", "s1", hardest()), ("bob", "s1", many(20)), ("bob", "s2", [])])

    asyncio.run(make())
    return tmp_path / "one"


def test_a_copy_goes_from_uri_to_uri_and_back(folder: Path, tmp_path: Path) -> None:
    """Over ADK's SQLite service, verified; a second run finds everything there."""
    sqlite = f"sqlite:///{tmp_path}/adk.db"
    tried = run("copy", uri(folder), sqlite, "--app", APP, "--dry-run")
    there = run("copy", uri(folder), sqlite, "--app", APP, "--verify", "--json")
    back = run("copy", sqlite, uri(tmp_path / "two"), "--app", APP, "--verify", "--json")
    again = run("copy", sqlite, uri(tmp_path / "two"), "--app", APP, "--resume", str(tmp_path / "ledger"))

    assert [0, 0, 0, 0] == [each.exit_code for each in (tried, there, back, again)], (
        tried.output + there.output
    )
    assert tried.stdout.startswith("would do: listed: 3, copied: 3, events: 28")
    assert (3, 3, 28) == tuple(json.loads(there.stdout)[name] for name in ("copied", "verified", "events"))
    assert (3, 3, 28) == tuple(json.loads(back.stdout)[name] for name in ("copied", "verified", "events"))
    assert again.stdout.startswith("listed: 3, unchanged: 3\n")
    assert "lost: a SQL database of ADK: it orders events by time" in again.stdout


def test_a_conflict_ends_with_1(folder: Path, tmp_path: Path) -> None:
    """And the report names the session."""
    asyncio.run(fill(SqliteSessionService(db_path=f"{tmp_path}/adk.db"), [("bob", "s1", many(2, at=1.0))]))
    result = run("copy", uri(folder), f"sqlite:///{tmp_path}/adk.db", "--app", APP, "--since", "2001-01-01")

    assert 1 == result.exit_code
    assert "conflict: user 'bob', session 's1': the target has other events" in result.stdout


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("nothing", "a store is named by a URI"),
        ("adk-firestore://p/d/e", "write adk-firestore://PROJECT/DATABASE"),
        (
            "postgres-of-another-name://user:secret@host/db",
            "ADK cannot open postgres-of-another-name://host/db",
        ),
    ],
)
def test_a_uri_that_is_wrong_ends_with_2(tmp_path: Path, source: str, says: str) -> None:
    """The message has no password."""
    result = run("copy", source, uri(tmp_path), "--app", APP)

    assert (2, True) == (result.exit_code, says in result.stderr), result.stderr
    assert "secret" not in result.output


def test_artifacts_and_memories_are_copied_too(folder: Path, tmp_path: Path) -> None:
    """All versions, with their metadata, once."""
    other = tmp_path / "two"
    which: dict[str, Any] = {"app_name": APP, "user_id": "ada", "session_id": "s1"}

    async def prepare() -> None:
        from google.genai import types  # noqa: PLC0415

        async with Store.local(folder) as store:
            for name in ("f", "f", "user:g"):
                part = types.Part.from_bytes(data=b"bytes", mime_type="text/plain")
                await store.artifacts.save_artifact(
                    **which, filename=name, artifact=part, custom_metadata={"a": "b"}
                )
            session = await store.sessions.get_session(**which)
            assert session is not None
            await store.memory.add_session_to_memory(session)

    async def look() -> tuple[Any, ...]:
        async with Store.local(other) as store:
            versions = await store.artifacts.list_versions(**which, filename="f")
            about = await store.artifacts.get_artifact_version(**which, filename="user:g", version=0)
            found = await store.memory.search_memory(app_name=APP, user_id="ada", query="hello")
            return versions, about and about.custom_metadata, len(found.memories)

    asyncio.run(prepare())
    more = (
        "--artifacts",
        f"gs+local://{folder}",
        f"gs+local://{other}",
        "--memories",
        uri(folder),
        uri(other),
    )
    first = run("copy", uri(folder), uri(other), "--app", APP, "--verify", "--json", *more)
    second = run("copy", uri(folder), uri(other), "--app", APP, "--verify", "--json", *more)

    assert (0, 0) == (first.exit_code, second.exit_code), first.output + second.output
    assert (3, 0) == tuple(json.loads(each.stdout)["artifact_versions"] for each in (first, second))
    assert ([0, 1], {"a": "b"}, 1) == asyncio.run(look())


def test_a_copy_that_follows_ends_after_a_last_pass(folder: Path, tmp_path: Path) -> None:
    """When it is told to by a signal; what was written in between is there."""
    other = tmp_path / "two"
    program = str(Path(sys.executable).parent / "gcp-adk-store")
    follow = ["copy", uri(folder), uri(other), "--app", APP, "--follow", "--interval", "0.1", "--json"]

    async def until_there(name: str) -> None:
        async with Store.local(other) as store:
            while not await store.sessions.get_session(  # noqa: ASYNC110  # another process writes it
                app_name=APP, user_id="bob", session_id=name
            ):
                await asyncio.sleep(0.05)

    async def write() -> None:
        async with Store.local(folder) as store:
            await fill(store.sessions, [("bob", "s3", many(2))])

    with subprocess.Popen([program, *follow], stdout=subprocess.PIPE) as running:
        asyncio.run(asyncio.wait_for(until_there("s2"), 60))
        asyncio.run(write())
        asyncio.run(asyncio.wait_for(until_there("s3"), 60))
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=60)
    report = json.loads(out)

    assert 0 == running.returncode
    assert (4, 4, True) == (report["listed"], report["copied"], report["is_complete"])
    assert report["passes"] >= 2


def test_exports_and_imports_of_commands(folder: Path, tmp_path: Path) -> None:
    """All sessions of an app, lines or Parquet, and back under another user."""
    place = ("--local", str(folder))
    lines = run("export", *place, "--app", APP, str(tmp_path / "app.jsonl"))
    parquet = run("export", *place, "--app", APP, "--format", "parquet", str(tmp_path / "tables"))
    back = run("import", *place, str(tmp_path / "app.jsonl"), "--remap-user", "bob=eve", "--json")
    wrong = run("import", *place, str(tmp_path / "app.jsonl"), "--remap-user", "bob")

    assert [0, 0, 0, 2] == [each.exit_code for each in (lines, parquet, back, wrong)], back.output
    assert "sessions: 3, events: 28, written to" in lines.stderr
    assert ["events.parquet", "sessions.parquet"] == sorted(
        each.name for each in (tmp_path / "tables").iterdir()
    )
    assert (2, 1) == tuple(json.loads(back.stdout)[name] for name in ("copied", "unchanged"))
    assert "pass OLD=NEW" in wrong.stderr
