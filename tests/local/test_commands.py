"""Every command works on the store in a folder, which its option or the environment names."""

import asyncio
import json
import os
import resource
import subprocess
import sys
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner, Result
from google.adk.events import Event, EventActions
from google.genai import types

from gcp_adk_store import SessionLimits, Store
from gcp_adk_store.cli.command import command
from tests.support.clock import in_days
from tests.support.documents import ROOT
from tests.support.ready_programs import ready_programs
from tests.support.stored import change, session_path

T = TypeVar("T")

OF: dict[str, Any] = {"app_name": "app", "user_id": "ada", "session_id": "s1"}
NAMED = ("--app", "app", "--user", "ada", "--session", "s1")
SMALL = SessionLimits(state_value_bytes=10)
EACH = [
    ["sessions", "list", "--app", "app"],
    ["sessions", "show", *NAMED],
    ["sessions", "export", *NAMED, "-"],
    ["sessions", "delete", *NAMED, "--yes"],
    ["artifacts", "list", *NAMED],
    ["artifacts", "get", *NAMED, "--filename", "plot.png", "-o", "-"],
    ["artifacts", "delete", *NAMED, "--all", "--yes"],
    ["gc", "--dry-run"],
    ["doctor"],
    ["template", "lint", "instruction.txt", "--session", "app/ada/s1"],
]


def done(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of *work*."""
    return asyncio.run(work)


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the environment name no store, and the current folder be one of the test."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("ADK_STORE_", "GOOGLE_"))]:
        monkeypatch.delenv(name)
    for name in ("FIRESTORE_EMULATOR_HOST", "STORAGE_EMULATOR_HOST"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "instruction.txt").write_text("Hello {user:name}, you have {count} and {nothing}.")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with a session that replaced a large value, with two events and an artifact of two versions."""
    folder = tmp_path / "store"

    async def fill() -> None:
        async with Store.local(folder, session_limits=SMALL) as store:
            session = await store.sessions.create_session(**OF, state={"user:name": "Ada", "count": "1" * 50})
            for number in (1, 2):
                actions = EventActions(state_delta={"count": f"{number}" * 60})
                text = types.Content(role="user", parts=[types.Part(text=f"words {number}")])
                event = Event(author="user", content=text, actions=actions)
                await store.sessions.append_event(session, event)
            for data in (b"1", b"22"):
                part = types.Part.from_bytes(data=data, mime_type="image/png")
                await store.artifacts.save_artifact(**OF, filename="plot.png", artifact=part)

    done(fill())
    return folder


def run(*arguments: str, at: Path | str | None) -> Result:
    """Run the command; *at* is the folder that ``--local`` names after the names of the command."""
    words = list(arguments)
    if at is not None:
        names = [word for word in words[:2] if not word.startswith("-")]
        words[len(names) : len(names)] = ["--local", str(at)]
    return CliRunner().invoke(command, words, env={"COLUMNS": "200"})


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "arguments",
    [
        ["export", "--app", "app", "-"],
        ["sessions", "list", "--app", "app", "--json"],
        ["sessions", "--help"],
        ["prune", "--app", "app", "--idle-days", "1", "--dry-run"],
        ["cost", "--like", "chat"],
        ["sessions", "export", *NAMED, "-"],
        ["ces", "lint", str(ROOT / "examples/ces/app")],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_standard_output_on_a_full_disk_is_one_error(folder: Path, arguments: list[str]) -> None:
    """With 2, as for a file that cannot be written."""
    assert_is_one_error(
        [str(ready_programs() / "gcp-adk-store"), *arguments], {"ADK_STORE_LOCAL": str(folder)}
    )


def test_what_a_full_disk_did_not_take_is_not_written_again() -> None:
    """Python does so when a process ends, with what its buffer has."""
    command = [sys.executable, "-m", "gcp_adk_store.cli", "cost", "--like", "chat"]
    assert_is_one_error(command, {"PYTHONUNBUFFERED": ""})


def assert_is_one_error(command: list[str], environ: dict[str, str]) -> None:
    """Assert what a command says whose standard output is a full disk."""
    with open("/dev/full", "wb") as full:  # noqa: PTH123  # it is no path, but a device
        ended = subprocess.run(
            command,
            env={**os.environ, **environ},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert 2 == ended.returncode
    assert 1 == len(ended.stderr.splitlines()), ended.stderr
    assert ended.stderr.startswith("Error: standard output cannot be written: No space left on device")


def test_an_embedder_whose_module_fails_is_an_error(folder: Path, tmp_path: Path) -> None:
    """With 2, and not with the 1 of a missing memory."""
    (tmp_path / "failing_embedder.py").write_text("raise KeyError('k')")
    named = ("--app", "app", "--user", "ada", "--embedder", "failing_embedder:it")
    ended = run("memory", "reindex", *named, "--dry-run", at=folder)

    assert 2 == ended.exit_code
    assert "names no embedder (KeyError)" in ended.stderr


def test_an_export_to_a_full_disk_leaves_no_part(folder: Path, tmp_path: Path) -> None:
    """Neither the file nor what was written of it."""

    async def talk() -> None:
        async with Store.local(folder) as store:
            session = await store.sessions.get_session(**OF)
            assert session is not None
            for _ in range(40):
                await store.sessions.append_event(
                    session, Event(author="user", content=types.UserContent("x" * 3_000))
                )

    done(talk())
    (tmp_path / "full").mkdir()
    most, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (80_000, hard))
    try:
        ended = run("export", "--app", "app", f"{tmp_path}/full/out.jsonl", at=folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))

    assert 2 == ended.exit_code
    assert "cannot be written: File too large" in ended.stderr
    assert [] == [*(tmp_path / "full").iterdir()]


def test_sessions_are_listed_and_shown(folder: Path) -> None:
    """Each says the folder first; JSON has it, too."""
    listed = run("sessions", "list", "--app", "app", at=folder)
    shown = run("sessions", "show", *NAMED, at=folder)
    answer = json.loads(run("sessions", "show", *NAMED, "--json", at=folder).stdout)

    assert (0, 0) == (listed.exit_code, shown.exit_code), listed.output + shown.output
    assert f"folder {folder}, prefix adk" == listed.stdout.splitlines()[0] == shown.stdout.splitlines()[0]
    assert ["ada", "s1"] == listed.stdout.splitlines()[2].split()[:2]
    assert "words 2" in shown.stdout
    assert (str(folder), None, None) == (answer["local"], answer["project"], answer["bucket"])
    assert {"user:name": "Ada", "count": "2" * 60} == answer["state"]
    assert 2 == len(answer["events"])


@pytest.mark.parametrize(
    "arguments",
    [
        ("sessions", "show"),
        ("sessions", "delete", "--yes"),
        ("sessions", "redact", "--event", "e", "--reason", "r", "--yes"),
        ("sessions", "turn", "status"),
        ("fsck",),
    ],
    ids=" ".join,
)
def test_a_session_that_cannot_be_read_is_named_with_the_command_that_looks_at_it(
    folder: Path, arguments: tuple[str, ...]
) -> None:
    """By commands that need it; the command that looks at it does so."""

    async def damage() -> None:
        async with Store.local(folder) as store:
            await change(store, session_path(OF), {"rev": "x"})

    done(damage())
    result = run(*arguments, "--local", str(folder), *NAMED, at=None)
    ending = f"; look at it: gcp-adk-store fsck --local {folder} {' '.join(NAMED)}\n"

    if arguments == ("fsck",):
        assert (1, True) == (result.exit_code, "FSCK" in result.stdout), result.output
    else:
        assert (2, True) == (result.exit_code, result.stderr.endswith(ending)), result.output


def test_json_has_null_for_numbers_that_it_lacks(folder: Path) -> None:
    """As other programs read it."""

    async def fill() -> None:
        async with Store.local(folder) as store:
            await store.sessions.create_session(
                app_name="app", user_id="ada", session_id="s2", state={"mean": float("nan"), "n": 1.5}
            )

    done(fill())
    result = run("sessions", "show", *NAMED[:-1], "s2", "--json", at=folder)

    assert "NaN" not in result.stdout
    assert {"user:name": "Ada", "mean": None, "n": 1.5} == json.loads(result.stdout)["state"]


def test_garbage_is_found_and_removed(folder: Path) -> None:
    """The value of an event that was replaced, when it is a day old; what is in use stays."""
    young = run("gc", "--json", at=folder)
    with in_days(2):
        found = run("gc", "--dry-run", at=folder)
        removed = json.loads(run("gc", "--json", at=folder).stdout)
        nothing = run("gc", at=folder)
    answer = json.loads(run("sessions", "show", *NAMED, "--json", at=folder).stdout)

    assert [] == json.loads(young.stdout)
    assert f"looking in folder {folder}, prefix adk" == found.stdout.splitlines()[0]
    assert "1 found" in found.stdout
    assert "--dry-run" in found.stdout
    assert [("payload", "removed")] == [(each["kind"], each["outcome"]) for each in removed]
    assert "nothing: " in nothing.stdout
    assert "2" * 60 == answer["state"]["count"]


def test_a_template_is_compared_with_the_session(folder: Path) -> None:
    """What it does not have, keys or artifacts, is unknown; a session that is not there is an error."""
    instruction = folder.parent / "instruction.txt"
    instruction.write_text("{user:name} {nothing} {artifact.plot.png} {artifact.none}")
    lint = partial(run, "template", "lint", f"{instruction}", "--json", "--session", at=folder)
    found, nowhere = lint("app/%61da/s1"), lint("app/nobody/s1")

    assert 1 == found.exit_code, found.output
    assert ["state", "unknown", "artifact", "unknown"] == [each["kind"] for each in json.loads(found.stdout)]
    assert 2 == nowhere.exit_code
    assert "the session app/nobody/s1 does not exist" in nowhere.stderr


@pytest.mark.parametrize("arguments", EACH, ids=lambda words: " ".join(words[:2]))
def test_the_environment_names_the_folder(
    folder: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``ADK_STORE_LOCAL`` leads a command where ``--local`` does, though it names a project, too."""
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "another")
    monkeypatch.setenv("ADK_STORE_LOCAL", str(folder))
    result = run(*arguments, at=None)

    assert result.exit_code == (1 if arguments[0] == "template" else 0), result.output


@pytest.mark.sample(11)  # each command, and each place
@pytest.mark.parametrize("arguments", EACH, ids=lambda words: " ".join(words[:2]))
@pytest.mark.parametrize(
    ("at", "says"),
    [
        (
            "nowhere",
            "the folder 'nowhere' contains no local store; an agent creates one: Store.local('nowhere')",
        ),
        (
            "store",
            "or never had any: restore a backup; an agent begins anew there: Store.local('store')",
        ),
        (".", "the folder '.' contains no local store; an agent creates one: Store.local('.')"),
        ("store/store.sqlite3", "is a file; name the folder of a store, which contains store.sqlite3"),
        (":memory:", "so no command finds it; name a folder with --local or ADK_STORE_LOCAL"),
        ("x" * 300, "cannot be read (File name too long); let this user read it, or name another one"),
    ],
    ids=["no folder", "an empty file", "no store", "a file", "memory", "a long name"],
)
def test_a_place_without_a_store_is_reported_and_nothing_is_created(
    tmp_path: Path, arguments: list[str], at: str, says: str
) -> None:
    """The message is all that a command prints; it ends with 2."""
    (tmp_path / "store").mkdir()
    (tmp_path / "store/store.sqlite3").touch()
    before = sorted(tmp_path.rglob("*"))
    result = run(*arguments, at=at)

    assert (2, "") == (result.exit_code, result.stdout), result.output
    assert result.stderr.strip().endswith(says)
    assert before == sorted(tmp_path.rglob("*"))
