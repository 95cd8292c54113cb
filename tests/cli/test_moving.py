"""The commands copy, export and import, on stores in folders."""

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from google.adk.sessions import DatabaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService

from gcp_adk_store import Store
from gcp_adk_store.cli.command import command
from gcp_adk_store.testing.conformance.running import read
from tests.moving.hardest import APP, fill, hardest, many
from tests.support.hanging import HANGS_S
from tests.support.programs import ran
from tests.support.ready_programs import ready_programs
from tests.support.stored import at_once, change, session_path
from tests.support.watching import once


def run(*arguments: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(command, arguments)


def uri(folder: Path) -> str:
    """Return the URI of a store in a folder."""
    return f"firestore+local://{folder}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a store with three sessions."""
    stories = [("ada", "s1", hardest()), ("bob", "s1", many(20)), ("bob", "s2", [])]
    at_once(tmp_path / "one", lambda store: fill(store.sessions, stories))
    return tmp_path / "one"


# The thread of aiosqlite may answer after the loop of the command has closed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    ("scheme", "says"), [("sqlite", "ADK cannot open"), ("sqlite+aiosqlite", "does not answer")]
)
def test_a_source_that_does_not_open_ends_a_copy_with_one_message(
    scheme: str, says: str, tmp_path: Path
) -> None:
    """Whatever its service raises, such as for a folder in place of a file."""
    result = run("copy", f"{scheme}:///{tmp_path}", uri(tmp_path / "two"), "--app", APP)
    for thread in threading.enumerate():
        if "_connection_worker_thread" in thread.name:
            thread.join(HANGS_S)  # otherwise a later test may get what it raises

    assert (2, True) == (result.exit_code, says in result.stderr), result.output


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


def test_a_uri_that_is_wrong_ends_with_2(tmp_path: Path) -> None:
    """The message has no password."""
    sql = "postgres-of-another-name"
    for source, says in (
        ("nothing", "a store is named by a URI"),
        ("adk-firestore://p/d/e", "write adk-firestore://PROJECT/DATABASE"),
        ("adk-firestore://p/d?root=a&root=b", "write adk-firestore://PROJECT/DATABASE"),
        ("oracle://user:secret@host/db", "oracle://host/db: the module 'oracledb' is missing; install it"),
        *(
            (f"{sql}://user:{password}@host/db", f"ADK cannot open {sql}://host/db")
            for password in ("secret", "a/secret", "a?secret", "a#secret", "[secret")
        ),
        (f"{sql}://host/db?x=1&Password=secret", f"{sql}://host/db?x=1&Password=..."),
        (f"{sql}://host/db?pwd=secret", f"{sql}://host/db?pwd=..."),
        (f"{sql}:///?odbc_connect=UID%3Du%3BPWD%3Dsecret", f"{sql}:///?odbc_connect=..."),
        ("firestore+local://data", "firestore+local:// must go on with an absolute path"),
        ("firestore+local:data", "is not a URI of the form firestore://"),
    ):
        result = run("copy", source, uri(tmp_path), "--app", APP)

        assert (2, True) == (result.exit_code, says in result.stderr), result.stderr
        assert "secret" not in result.output


@pytest.mark.parametrize("scheme", ["firestore", "adk-firestore", "adk-java-firestore"])
def test_the_file_with_credentials_is_that_of_each_layout(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it, the command ends with 2 and names it."""
    monkeypatch.delenv("FIRESTORE_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("ADK_STORE_CREDENTIALS_FILE", str(tmp_path / "gone.json"))
    result = run("copy", f"{scheme}://project", uri(tmp_path), "--app", APP)

    assert 2 == result.exit_code, result.output
    assert f"no usable Google Cloud credentials in {tmp_path}/gone.json" in result.stderr


def test_a_folder_without_a_store_is_no_source(folder: Path, tmp_path: Path) -> None:
    """A wrong path would be a copy of nothing, which ends with 0; no store is made there."""
    gone, two = tmp_path / "gone", tmp_path / "two"
    for source, options in (
        (gone, ()),
        (folder, ("--artifacts", f"gs+local://{gone}", f"gs+local://{two}")),
        (folder, ("--memories", uri(gone), uri(two))),
        (folder, ("--artifacts", f"file://{gone}", f"gs+local://{two}")),
    ):
        result = run("copy", uri(source), uri(two), "--app", APP, *options)

        assert 2 == result.exit_code, result.output
        assert f"the folder '{gone}' " in result.stderr
        assert not gone.exists()


def test_a_copy_onto_itself_is_refused_by_any_path(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a slash at the end, over a link, or relative; another prefix of a folder is another store."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(folder)
    (tmp_path / "adk.db").touch()
    for source, target in (
        (uri(folder), f"{uri(folder)}/"),
        (uri(folder), f"{uri(tmp_path / 'link')}?prefix=adk"),
        (f"sqlite:///{tmp_path}/adk.db", "sqlite+aiosqlite:///adk.db"),
    ):
        result = run("copy", source, target, "--app", APP)

        assert (2, True) == (result.exit_code, "source and target are the same" in result.stderr), target
    assert 0 == run("copy", uri(folder), f"{uri(folder)}?prefix=other", "--app", APP).exit_code


@pytest.mark.parametrize("scheme", ["sqlite", "sqlite+aiosqlite"])
def test_a_database_without_a_file_is_no_source(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a folder without a store: ADK would make the file."""
    monkeypatch.chdir(tmp_path)
    for path in ("sesions.db", f"{tmp_path}/sesions.db"):
        result = run("copy", f"{scheme}:///{path}", uri(tmp_path / "two"), "--app", APP)

        assert 2 == result.exit_code, result.output
        assert f"the file '{path}' does not exist" in result.stderr
        assert [] == [*tmp_path.iterdir()]


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_a_file_in_which_adk_can_keep_no_tables_is_refused(
    folder: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """That of a store of this library, where ADK would add tables, and one in no folder."""
    store, nowhere = f"sqlite:///{folder}/store.sqlite3", f"sqlite:///{tmp_path}/gone/adk.db"
    for source, target, says in (
        (store, "memory://", "is the file of a local store; name its folder: firestore+local:///PATH"),
        (uri(folder), store, "is the file of a local store"),
        (uri(folder), nowhere, f"the folder of the file '{tmp_path}/gone/adk.db' does not exist"),
    ):
        result = run("copy", source, target, "--app", APP, *options)

        assert (2, True) == (result.exit_code, says in result.stderr), result.output


@pytest.mark.parametrize("schema", ["of ADK 1", "of now"])
def test_a_file_of_another_service_of_adk_is_refused_with_the_uri_that_reads_it(
    tmp_path: Path, schema: str
) -> None:
    """DatabaseSessionService made it, to which the scheme sqlite led once."""
    file = tmp_path / "adk.db"

    async def make() -> None:
        async with DatabaseSessionService(f"sqlite+aiosqlite:///{file}") as service:
            await fill(service, [("ada", "s1", many(1))])

    if schema == "of now":
        asyncio.run(make())
    else:
        with closing(sqlite3.connect(file)) as sql, sql:
            sql.execute("CREATE TABLE events (id TEXT, actions BLOB)")
    result = run("copy", f"sqlite:///{file}", "memory://", "--app", APP)

    assert 2 == result.exit_code, result.output
    assert "write sqlite+aiosqlite:///PATH for a file that ADK's DatabaseSessionService made" in result.stderr


def test_an_app_without_sessions_is_named(folder: Path, tmp_path: Path) -> None:
    """Its name may be wrong; an app may also have none yet, so that the status is 0."""
    copied = run("copy", uri(folder), uri(tmp_path / "two"), "--app", "travle")
    of_one = run("copy", uri(folder), uri(tmp_path / "two"), "--app", APP, "--user", "eve")
    exported = run("export", "--local", str(folder), "--app", "travle", str(tmp_path / "file"))

    assert [0, 0, 0] == [each.exit_code for each in (copied, of_one, exported)]
    assert copied.stdout.startswith("no session of the app 'travle'\n")
    assert of_one.stdout.startswith(f"no session of the user 'eve' of the app '{APP}'\n")
    assert exported.stderr.startswith("no session of the app 'travle'\n")


def test_a_dry_run_makes_no_file(folder: Path, tmp_path: Path) -> None:
    """Neither a store in the folder of the target, nor a file of SQLite, nor a ledger."""
    new, ledger = tmp_path / "new", str(tmp_path / "ledger")
    places = ("--artifacts", f"gs+local://{folder}", f"gs+local://{new}", "--memories", uri(folder), uri(new))
    to_files = ("--artifacts", f"gs+local://{folder}", f"file://{new}")
    for target, also in ((uri(new), places), (f"sqlite:///{new}", to_files)):
        options = ("--app", APP, "--dry-run", "--json", "--resume", ledger, *also)
        result = run("copy", uri(folder), target, *options)

        assert (0, 3) == (result.exit_code, json.loads(result.stdout)["copied"]), result.output
        assert [folder] == [*tmp_path.iterdir()], target


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
            session = await read(store.sessions, which)
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
    """When a signal asks for it; what was written in between is there."""
    other = tmp_path / "two"
    program = str(ready_programs() / "gcp-adk-store")
    follow = ["copy", uri(folder), uri(other), "--app", APP, "--follow", "--interval", "0.1", "--json"]

    async def until_there(name: str) -> None:
        who: dict[str, Any] = {"app_name": APP, "user_id": "bob", "session_id": name}
        async with Store.local(other) as store:
            await once(store.sessions, lambda: store.sessions.get_session(**who), bool, **who)

    with subprocess.Popen([program, *follow], stdout=subprocess.PIPE) as running:
        asyncio.run(until_there("s2"))
        at_once(folder, lambda store: fill(store.sessions, [("bob", "s3", many(2))]))
        asyncio.run(until_there("s3"))
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
    other = run("import", *place, str(tmp_path / "app.jsonl"), "--remap-user", "bbo=eve")

    assert [0, 0, 0, 2] == [each.exit_code for each in (lines, parquet, back, wrong)], back.output
    assert "ids: user 'bbo': the file has no session of this user" in other.stdout
    assert "sessions: 3, events: 28, written to" in lines.stderr
    assert ["events.parquet", "sessions.parquet"] == sorted(
        each.name for each in (tmp_path / "tables").iterdir()
    )
    assert (2, 1) == tuple(json.loads(back.stdout)[name] for name in ("copied", "unchanged"))
    assert "pass OLD=NEW" in wrong.stderr


def test_an_import_makes_the_folder_of_its_store(folder: Path, tmp_path: Path) -> None:
    """As a copy does, and says so, for a mistyped name. A file, or a store in memory, is no folder."""
    file, new = tmp_path / "app.jsonl", tmp_path / "new"
    run("export", "--local", str(folder), "--app", APP, str(file))
    made = run("import", "--local", str(new), str(file), "--json")
    again = run("import", "--local", str(new), str(file), "--json")
    (tmp_path / "none.jsonl").touch()
    says = [
        run("import", "--local", str(tmp_path / "n\new"), str(tmp_path / each))
        for each in ("none.jsonl", file.name, file.name)
    ]
    refused = [run("import", "--local", where, str(file)) for where in (str(file), ":memory:")]

    assert (0, 3, True) == (made.exit_code, *(json.loads(made.stdout)[each] for each in ("copied", "is_new")))
    assert (0, 3, False) == (
        again.exit_code,
        *(json.loads(again.stdout)[each] for each in ("unchanged", "is_new")),
    )
    assert [False, True, False] == [
        "n\\new contained no store, and has one now" in each.stdout for each in says
    ]
    assert [2, 2] == [each.exit_code for each in refused]
    assert "is a file; name the folder of a store" in refused[0].stderr


def test_a_refused_import_says_that_it_made_a_store(folder: Path, tmp_path: Path) -> None:
    """An empty store stays: others may have opened it meanwhile, so nothing may remove it."""
    file, new = tmp_path / "app.jsonl", tmp_path / "new"
    run("export", "--local", str(folder), "--app", APP, str(file))
    file.write_text(file.read_text().partition("\n")[0] + "\n")
    refused = [run("import", "--local", str(new), str(file)) for _ in range(2)]

    assert [2, 2] == [each.exit_code for each in refused]
    assert [True, False] == [f"{new} contained no store, and has one now" in each.stderr for each in refused]


def test_parquet_files_do_not_go_to_standard_output(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command says what it needs, and makes no folder of this name."""
    monkeypatch.chdir(tmp_path)
    result = run("export", "--local", str(folder), "--app", APP, "--format", "parquet", "-")

    assert (2, True) == (result.exit_code, "--format parquet FOLDER" in result.stderr), result.output
    assert [folder] == [*tmp_path.iterdir()]


def test_what_cannot_be_read_is_named_and_the_rest_is_moved(folder: Path, tmp_path: Path) -> None:
    """By copies and exports, which end with 1, and by listings; each with the command that looks at it."""
    path = session_path({"app_name": APP, "user_id": "bob", "session_id": "s1"})
    at_once(folder, lambda store: change(store, path, {"rev": "secret"}))
    place = ("--local", str(folder))
    says = "has a field of a wrong kind: rev is str"
    looking = f"gcp-adk-store fsck --local {folder} --app app --user bob --session s1"
    lines = run("export", *place, "--app", APP, str(tmp_path / "app.jsonl"))
    back = run("import", *place, str(tmp_path / "app.jsonl"))
    copied = run("copy", uri(folder), uri(tmp_path / "two"), "--app", APP, "--json")
    listed = run("sessions", "list", *place, "--app", APP)
    as_json = run("sessions", "list", *place, "--app", APP, "--json")
    looked = run(*looking.split()[1:])

    assert [1, 0, 1, 0, 0, 1] == [
        each.exit_code for each in (lines, back, copied, listed, as_json, looked)
    ], lines.output
    assert f"{says}; see: {looking}" in lines.stderr
    assert "sessions: 2, events: 8, written to" in lines.stderr
    report = json.loads(copied.stdout)
    assert (2, 1) == (report["copied"], report["wrong"])
    assert f"{says}; look at it: gcp-adk-store fsck --app app" in report["notes"][0]["says"]
    assert f"{says}; see: {looking}" in listed.stdout
    assert (2, [looking]) == (
        len(json.loads(as_json.stdout)["sessions"]),
        [each["command"] for each in json.loads(as_json.stdout)["unreadable"]],
    )
    assert "secret" not in "".join(each.output for each in (lines, back, copied, listed, as_json, looked))


def test_an_import_from_closed_standard_input_ends_with_one_message(folder: Path) -> None:
    """As ``<&-`` of a shell, or a service without one."""
    importing = f"{sys.executable} -m gcp_adk_store.cli import --local {folder} - <&-"
    ended = ran(["sh", "-c", importing])

    assert (2, True) == (ended.returncode, "standard input is closed; name a file" in ended.stderr)
    assert "Traceback" not in ended.stderr


def test_anchoring_ends_with_1_if_a_session_cannot_be_read(folder: Path, tmp_path: Path) -> None:
    """A schedule notices by the status; the heads of all others are kept."""
    anchor = (
        "anchor",
        "--local",
        str(folder),
        "--app",
        APP,
        "--anchors",
        str(tmp_path / "anchors"),
        "--json",
    )
    sound = run(*anchor)

    async def damage() -> None:
        async with Store.local(folder) as store:
            (one, *_) = (await store.sessions.list_sessions(app_name=APP)).sessions
            who = {"app_name": APP, "user_id": one.user_id, "session_id": one.id}
            await change(store, session_path(who), {"rev": "1"})

    asyncio.run(damage())
    damaged = run(*anchor)

    assert (0, 1) == (sound.exit_code, damaged.exit_code)
    assert 1 == json.loads(damaged.stdout)["unreadable"]
