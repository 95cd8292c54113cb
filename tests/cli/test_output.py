"""Commands say where they looked, and what nothing names is an error that ends with what helps.

Tables keep their width where nobody looks, and fit a terminal where somebody does; no text steers it.
"""

import asyncio
import json
import os
import pty
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from google.adk.events import Event
from google.genai import types

from gcp_adk_store import SessionLimits, Store
from gcp_adk_store.cli.command import command
from gcp_adk_store.testing.emulators import Emulator
from tests.cli.conftest import Deployment
from tests.support.ready_programs import ready_programs

WITHOUT_PLACE = dict.fromkeys(
    ("ADK_STORE_PROJECT", "GOOGLE_CLOUD_PROJECT", "ADK_STORE_BUCKET", "ADK_STORE_PREFIX"), ""
)
EACH = [
    ["gc", "--dry-run"],
    ["memory", "list", "--app", "a", "--user", "u"],
    ["sessions", "list", "--app", "a"],
    ["sessions", "show", "--app", "a", "--user", "u", "--session", "s"],
    ["sessions", "export", "--app", "a", "--user", "u", "--session", "s", "-"],
    ["sessions", "delete", "--app", "a", "--user", "u", "--session", "s", "--yes"],
]


def run(*arguments: str, **environ: str) -> Result:
    """Run the command where the environment names no store."""
    return CliRunner().invoke(command, arguments, env={**WITHOUT_PLACE, **environ})


def test_gc_says_where_it_looked(project: str, firestore_emulator: Emulator, adk_store_bucket: str) -> None:
    """Project, database, prefix, bucket and emulator; where there is nothing to remove, too."""
    result = run("gc", "--project", project, "--bucket", adk_store_bucket, "--prefix", "team")

    assert 0 == result.exit_code, result.output
    first, second = result.stdout.splitlines()
    assert f"project {project}, database (default), prefix team, bucket {adk_store_bucket}" in first
    assert firestore_emulator.address in first
    assert second.startswith("nothing: ")


@pytest.mark.parametrize("option", ["project", "database", "bucket", "prefix", "local"])
def test_an_empty_option_does_not_stand_for_the_store_of_the_environment(option: str) -> None:
    """A shell whose variable is not set passes one: ``--local "$STORE"``."""
    for arguments in EACH:
        result = run(*arguments, f"--{option}", "", ADK_STORE_PROJECT="demo-x")

        assert (2, "") == (result.exit_code, result.stdout), arguments
        assert f"Error: {option} '' must be " in result.stderr


def test_no_project_is_an_error_that_ends_with_the_command(firestore_emulator: Emulator) -> None:
    """On an emulator too, where a store would take the one of all stores that name none."""
    assert firestore_emulator.address
    for arguments in EACH:
        result = run(*arguments)

        assert 2 == result.exit_code, arguments
        assert "" == result.stdout
        assert "no Google Cloud project: set ADK_STORE_PROJECT or pass --project" in result.stderr
        head, tail = arguments[: 1 if arguments[0] == "gc" else 2], "--project demo-adk-store"
        helps = result.stderr.rpartition(": ")[2].strip()
        assert helps.startswith(f"gcp-adk-store {' '.join(head)} {tail}")
        assert 2 != run(*shlex.split(helps)[1:]).exit_code


def test_no_project_without_an_emulator_is_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where the credentials name none: a key of an external account without a project."""
    monkeypatch.delenv("FIRESTORE_EMULATOR_HOST", raising=False)
    (tmp_path / "who.json").write_text(
        json.dumps({"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"})
    )
    result = run("gc", GOOGLE_APPLICATION_CREDENTIALS=str(tmp_path / "who.json"))

    assert 2 == result.exit_code
    assert result.stderr.strip().endswith("gcp-adk-store gc --project PROJECT")


def test_credentials_of_the_environment_are_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """``ADK_STORE_CREDENTIALS_FILE`` holds for gc as it does for a store."""
    monkeypatch.delenv("FIRESTORE_EMULATOR_HOST", raising=False)
    result = run("gc", "--project", "p", ADK_STORE_CREDENTIALS_FILE=str(tmp_path / "missing.json"))

    assert 2 == result.exit_code
    assert "missing.json" in result.stderr


def test_a_database_that_does_not_answer_leads_to_the_doctor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For the same place."""
    impatient = SessionLimits(rpc_timeout_s=0.3, deadline_s=0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", f"127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setattr("gcp_adk_store.cli.place._READS_ONCE", impatient)
        result = run("sessions", "list", "--project", "demo-x", "--prefix", "team", "--app", "a")

    assert 2 == result.exit_code
    assert result.stderr.strip().endswith("gcp-adk-store doctor --project demo-x --prefix team")


def test_an_emulator_that_is_not_there_leads_to_the_emulators(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message ends with the command that starts them."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", address)
        result = run("sessions", "list", "--project", "demo-x", "--app", "a")

    assert 2 == result.exit_code
    assert result.stderr.strip().endswith(
        f"nothing listens at {address}; start `gcp-adk-store emulators`, or unset FIRESTORE_EMULATOR_HOST"
    )


LONG = "folder/" * 40 + "name.txt"
LISTED = ("artifacts", "list", "--app", "app", "--user", "ada", "--session", "s")
USED = ("--turns-per-day", "1000", "--events-per-turn", "2", "--history", "9")


def save(deployment: Deployment) -> None:
    """Save an artifact with a long name."""

    async def work() -> None:
        async with deployment.store() as store:
            await store.sessions.create_session(app_name="app", user_id="u" * 200, session_id="s" * 200)
            await store.artifacts.save_artifact(
                app_name="app", user_id="ada", session_id="s", filename=LONG, artifact=types.Part(text="x")
            )

    asyncio.run(work())


def on_terminal(deployment: Deployment, columns: int, *arguments: str) -> str:
    """Return what the command prints on a terminal of so many columns."""
    program = str(ready_programs() / "gcp-adk-store")
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update({"COLUMNS": f"{columns}", "LINES": "50", "TERM": "xterm", **deployment.environ})
        os.execv(program, [program, *arguments])  # noqa: S606  # in the child
    printed = b""
    try:
        while piece := os.read(terminal, 65_536):
            printed += piece
    except OSError:
        pass  # its end, on Linux
    os.close(terminal)
    os.waitpid(pid, 0)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", printed.decode()).replace("\r", "")


def test_what_an_encoding_lacks_is_escaped() -> None:
    """Such as the bars of a chart, in a file of another encoding than UTF-8."""
    ended = subprocess.run(
        [sys.executable, "-m", "gcp_adk_store.cli", "cost", *USED],
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        check=False,
    )

    assert (0, b"") == (ended.returncode, ended.stderr)
    assert rb"\u2588" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "row"),
    [
        (LISTED, rf"{LONG} +0 +1 byte +text/plain "),
        (("sessions", "list", "--app", "app"), r"u{200} +s{200} +0 +20\d\d-"),
        (("cost", *USED), r"documents written +[\d,]+ +[\d,]+ +0\.09 for 100,000 +\d+\.\d\d +\d+\.\d\d$"),
        (("doctor",), r"ok +latency of documents +half of 20 reads took less than .* none more than .* ms$"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_row_is_one_line_in_a_pipe(deployment: Deployment, arguments: tuple[str, ...], row: str) -> None:
    """Of any width, whatever the environment says of columns, without blanks at its end."""
    save(deployment)
    run = deployment.led(*arguments, COLUMNS="40")
    lines = run.stdout.splitlines()

    assert 0 == run.exit_code, run.stderr
    assert [line for line in lines if re.search(row, line)], run.stdout
    assert [] == [line for line in lines if line != line.rstrip() or "\x1b" in line]


def test_a_terminal_gets_what_fits(deployment: Deployment) -> None:
    """A long name goes on in the next line: all of it is there."""
    save(deployment)
    lines = on_terminal(deployment, 60, *LISTED).splitlines()[1:]
    table = [line for line in lines if "folder/" in line or "name.txt" in line]
    names = "".join(line[:30].split(" ")[1] for line in table)

    assert len(table) > 5
    assert 60 >= max(map(len, lines[1:]))
    assert LONG.startswith(names[:100])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain \u00e4 \u4e2d \U0001f469\u200d\U0001f680\u00a0x", None),
        ("two\tcells\nand lines", None),
        ("two\r\nlines", "two\nlines"),
        ("over\rwritten", r"over\rwritten"),
        ("\x1b[31m \x07 \x08 \x9b \x7f", r"\x1b[31m \x07 \x08 \x9b \x7f"),
        ("\u202eabc\u2066 \u2028", r"\u202eabc\u2066 \u2028"),
        ("\ud800", r"\ud800"),
    ],
)
def test_only_what_steers_is_escaped(tmp_path: Path, text: str, shown: str | None) -> None:
    """Text of any language is as it was; None is the same."""

    async def say() -> None:
        async with Store.local(tmp_path) as store:
            session = await store.sessions.create_session(app_name="app", user_id="ada", session_id="s")
            content = types.Content(role="user", parts=[types.Part(text=text)])
            await store.sessions.append_event(session, Event(author="user", content=content))

    asyncio.run(say())
    named = ["--local", str(tmp_path), *LISTED[2:]]
    lines = CliRunner().invoke(command, ["sessions", "show", *named]).stdout.splitlines()

    assert {*(text if shown is None else shown).split("\n")} <= {line[4:] for line in lines}
