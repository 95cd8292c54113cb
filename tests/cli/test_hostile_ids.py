"""Commands that delete or redact do what they were asked for, whatever the ids and names say.

The corpus is after OWASP's testing guide: path traversal, injection of arguments, commands and templates,
control of the terminal, and names that look like others.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result
from google.adk.events import Event
from google.genai import types

from gcp_adk_store import Store
from gcp_adk_store.cli.command import command
from tests.support.folder import read_documents
from tests.support.lengths import at_length

HOSTILE: Final = {
    "parent": "../victim",
    "deep": "../../../../etc/passwd",
    "absolute": "/etc/passwd",
    "encoded": "%2e%2e%2fvictim",
    "windows": "..\\..\\victim",
    "a path below": "victim/adk_sessions/s",
    "a dot": ".",
    "two dots": "..",
    "reserved": "__victim__",
    "an option": "--yes",
    "help": "--help",
    "a short option": "-h",
    "end of options": "--",
    "an option with a value": "--user=victim",
    "a command": "$(touch hacked)",
    "backticks": "`touch hacked`",
    "a pipe": "x; touch hacked | cat",
    "a template": "{{7*7}}${7*7}%s%n{0}",
    "sql": "victim' OR '1'='1' --",
    "like": "%",
    "a wildcard": "*",
    "clears the screen": "a\x1b[2J\x1b[31mb",
    "sets the title": "\x1b]0;hacked\x07",
    "turns the order": "a\u202enimda",
    "a line end": "victim\nrm -rf /",
    "a return": "victim\rsafe  ",
    "markup": "[bold red]victim[/]",
    "a link": "[link=http://evil.test]victim[/link]",
    "looks alike": "victіm",
    "a zero byte": "victim\x00x",
    "no width": "vic\u200btim",
    "half a pair": "victim\ud800",
    "long": "x" * 1400,
    "too long": "x" * 5000,
    "empty": "",
    "blank": " ",
}
"""What a stranger may take for an id."""

STEERING: Final = ("\x1b[2J", "\x1b[31m", "\x1b]0;", "\x07", "\u202e", "\r", "\u200b")

WHO: Final[dict[str, Any]] = {"app_name": "app", "user_id": "victim"}


def commands_on(id_: str) -> Iterator[list[str]]:
    """Yield each command that deletes or redacts, with *id_* as each of the ids that it takes."""
    for place, others in (
        ("--app", ["--user", "victim", "--session", "s"]),
        ("--user", ["--app", "app", "--session", "s"]),
        ("--session", ["--app", "app", "--user", "victim"]),
    ):
        yield ["sessions", "delete", "--yes", place, id_, *others]
        yield ["sessions", "redact", "--yes", "--event", "e0", "--reason", "r", place, id_, *others]
    ids = ["--app", "app", "--user", "victim"]
    yield ["sessions", "redact", "--yes", "--reason", "r", "--event", id_, *ids, "--session", "s"]
    yield ["sessions", "turn", "withdraw", "--yes", "--message", id_, *ids, "--session", "s"]
    yield ["memory", "delete", "--yes", *ids, "--id", id_]
    yield ["memory", "delete", "--yes", *ids, "--session", id_]
    yield ["artifacts", "delete", "--yes", *ids, "--session", "s", "--filename", id_]
    yield ["artifacts", "delete", "--yes", *ids, "--all", "--session", id_]
    yield ["sessions", "delete", "--yes", *ids, "--session", "nothing", f"--{id_}"]
    yield ["sessions", "delete", "--yes", *ids, "--session", "nothing", "--", id_]
    for place, others in (("--app", ["--user", "victim"]), ("--user", ["--app", "app"])):
        yield ["erase-user", "--yes", place, id_, *others]
    yield ["prune", "--older-than", "0", "--label", id_, "--app", "app"]
    yield ["prune", "--older-than", "0", "--app", id_]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what must stay, and nothing beside it."""

    async def make() -> None:
        async with Store.local(tmp_path / "store") as store:
            session = await store.sessions.create_session(**WHO, session_id="s", state={"user:name": "V"})
            content = types.Content(role="user", parts=[types.Part(text="hello")])
            await store.sessions.append_event(session, Event(id="e0", author="user", content=content))
            await store.memory.add_session_to_memory(session)
            await store.artifacts.save_artifact(
                **WHO, session_id="s", filename="f.txt", artifact=types.Part(text="t")
            )

    asyncio.run(make())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(folder: Path, arguments: list[str]) -> Result:
    """Run a command in this process, as a shell passes the arguments."""
    at = next(place for place, each in enumerate(arguments) if each.startswith("--"))
    given = [*arguments[:at], "--local", str(folder / "store"), *arguments[at:]]
    return CliRunner().invoke(command, given)


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_ids_reach_nothing_of_others(folder: Path, name: str) -> None:
    """Each command ends with a status of its own; documents stay, no file appears, the terminal is safe."""
    before = read_documents(folder / "store")
    # In `make test` each id goes through a fourth of the commands, which take turns.
    few = slice([*HOSTILE].index(name) % 4, None, at_length(4, 1))
    for arguments in [*commands_on(HOSTILE[name])][few]:
        result = run(folder, arguments)

        assert result.exit_code in (0, 1, 2), (arguments, result.exception)
        assert result.exception is None or isinstance(result.exception, SystemExit), arguments
        assert not [each for each in STEERING if each in result.output], arguments
    after = read_documents(folder / "store")
    kept = {path: fields for path, fields in before.items() if "adk_erasures" not in path}
    assert kept == {path: after.get(path) for path in kept}
    assert ["store"] == [each.name for each in folder.iterdir()]


def test_a_hostile_session_is_redacted_and_deleted_itself(folder: Path) -> None:
    """An id that the store takes names exactly its session, also in the commands that the output shows."""
    taken = [
        id_ for name, id_ in HOSTILE.items() if id_.strip() and "long" not in name and "half" not in name
    ][at_length(slice(2, None, 4), slice(None))]

    async def make() -> None:
        async with Store.local(folder / "store") as store:
            for id_ in taken:
                session = await store.sessions.create_session(**WHO, session_id=id_)
                await store.sessions.append_event(session, Event(id=id_, author="user"))

    asyncio.run(make())
    before = read_documents(folder / "store")
    for id_ in taken:
        named = ["--app", "app", "--user", "victim", "--session", id_]
        redacted = run(folder, ["sessions", "redact", "--yes", "--reason", id_[:1], "--event", id_, *named])
        dry = run(
            folder, ["sessions", "redact", "--json", "--dry-run", "--reason", "r", "--event", id_, *named]
        )
        deleted = run(folder, ["sessions", "delete", "--yes", *named])

        if id_[:1].isprintable() and id_[:1].strip():
            assert (0, False) == (redacted.exit_code, json.loads(dry.stdout)["is_new"]), id_
        else:
            assert 2 == redacted.exit_code, id_
        assert 0 == deleted.exit_code, (id_, deleted.output)
        assert not [each for each in STEERING if each in redacted.output + deleted.output], id_
    after = read_documents(folder / "store")

    mine = {path for path in before if "/adk_sessions/" in path and not path.endswith("/adk_sessions/s")}
    assert {path: fields for path, fields in before.items() if path not in mine} == after
    assert ["store"] == [each.name for each in folder.iterdir()]


def test_a_reason_that_steers_a_terminal_is_refused(folder: Path) -> None:
    """It is stored and shown later: nothing is written."""
    before = read_documents(folder / "store")
    ids = ["--app", "app", "--user", "victim", "--session", "s", "--event", "e0"]
    for reason in ("", " ", "two\nlines", "a\x1b[31mb", "x" * 501, "a\u202eb"):
        result = run(folder, ["sessions", "redact", "--yes", "--reason", reason, *ids])

        assert 2 == result.exit_code, reason
    assert before == read_documents(folder / "store")
