"""What docs/erasure.md shows is run as it is, and its commands do what they say."""

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from google.genai import types

from gcp_adk_store import Store
from gcp_adk_store.cli.command import command
from gcp_adk_store.model.erasures import digest_of
from tests.erasure.conftest import APP, OWNER, USER, said
from tests.support.documents import blocks, commands
from tests.support.folder import read_documents
from tests.support.ready_programs import ready_path


async def make(folder: Path) -> None:
    """Make what the examples are about."""
    who: dict[str, Any] = {"app_name": "support", "user_id": "ada", "session_id": "s1"}
    async with Store.local(folder) as store:
        session = await store.sessions.create_session(**who, state={"user:name": "Ada"})
        event = said("hello")
        event.id = "e1"
        await store.sessions.append_event(session, event)
        await store.artifacts.save_artifact(**who, filename="f", artifact=types.Part(text="t"))


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    """The page erases the user first; here that comes last."""
    asyncio.run(make(tmp_path / "store"))
    erase, prune, redact, verify, anchor = commands("docs/erasure.md")
    run = subprocess.run(
        ["bash", "-e", "-c", f"{redact}\n{verify}\n{anchor}\n{prune}\n{erase}"],  # noqa: S607  # the reader's shell
        cwd=tmp_path,
        env={
            **os.environ,
            "ADK_STORE_LOCAL": str(tmp_path / "store"),
            "PATH": ready_path(os.environ),
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == run.returncode, run.stdout + run.stderr
    assert "the chain proves all of them" in run.stdout
    assert "redacted event e1, number 0 of the session" in run.stdout
    assert "anchors: 1; they prove the first 2 events" in run.stdout
    assert "would delete 0 of 1 sessions" in run.stdout
    assert run.stdout.splitlines()[-1].startswith("digest ")


@pytest.mark.parametrize("number", [0, 1])
async def test_the_code_of_the_page_prints_a_receipt(tmp_path: Path, number: int) -> None:
    """Within a coroutine, as it is; the second way prints the progress before."""
    await make(tmp_path)
    printed: list[object] = []
    lines = blocks("docs/erasure.md", "python")[number].splitlines()
    body = "\n".join(f"    {line}" for line in lines)
    names: dict[str, object] = {"print": lambda *values: printed.append(values)}
    exec(f"async def page(store):\n{body}", names)  # noqa: S102  # the page's own code
    async with Store.local(tmp_path) as store:
        await names["page"](store)  # type: ignore[operator]

    assert "digest" in str(printed[-1])
    assert [("documents", 1)][:number] == printed[:number]


async def test_the_redactor_of_the_page_stores_no_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its code, with a session beside."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(blocks("docs/erasure.md", "python")[2], names)  # noqa: S102  # the page's own code
    async with names["store"] as store:
        session = await store.sessions.create_session(app_name="support", user_id="ada")
        await store.sessions.append_event(session, said("my card is 4111 1111 1111 1111, thanks"))

    assert "my card is [card], thanks" == session.events[0].content.parts[0].text


def run(folder: Path, name: str, *options: str, app: str = APP, user: str = USER) -> Result:
    """Run a command on the user."""
    place = ["--local", str(folder), "--app", app, "--user", user]
    return CliRunner().invoke(command, [name, *place, *options])


def answer(result: Result) -> Any:
    """Return the JSON that a command printed."""
    return json.loads(result.stdout)


def test_a_user_is_erased_only_with_yes(filled_folder: Path) -> None:
    """A dry run counts and changes nothing; without either, it says how to go on."""
    before = read_documents(filled_folder)

    neither = run(filled_folder, "erase-user")
    dry = run(filled_folder, "erase-user", "--dry-run", "--task-owner", OWNER, "--json")

    assert 2 == neither.exit_code
    assert "nothing was changed" in neither.stderr
    assert 0 == dry.exit_code
    assert answer(dry)["is_dry_run"]
    assert before == read_documents(filled_folder)

    erased = run(filled_folder, "erase-user", "--yes", "--task-owner", OWNER, "--json")

    assert 0 == erased.exit_code
    assert answer(dry)["erased"] == answer(erased)["erased"]
    assert digest_of(answer(erased)) == answer(erased)["digest"]
    assert {"adk_apps/app", "adk_erasures/key"} == read_documents(filled_folder).keys()


def test_what_is_erased_is_readable(filled_folder: Path) -> None:
    """A receipt says what was erased, what was not, and its digest; a dry run that nothing is there."""
    found = run(filled_folder, "erase-user", "--dry-run").stdout
    nothing = run(filled_folder, "erase-user", "--dry-run", user="nobody").stdout
    shown = run(filled_folder, "erase-user", "--yes").stdout

    assert "run it with --yes to erase this" in found
    assert nothing.endswith("nothing of the user\n")
    for words in ("sessions", "not erased: logs, traces, exports", "not erased: A2A tasks", "digest "):
        assert words in shown
    assert USER not in shown


@pytest.mark.parametrize("user", ["../other", "a\x1b[31mb", "", "%2F", "x" * 1500, "a\u202eb"])
def test_ids_of_strangers_do_no_harm(filled_folder: Path, user: str) -> None:
    """They are nobody's path: nothing of another user goes, and the terminal stays as it is."""
    before = read_documents(filled_folder)

    result = run(filled_folder, "erase-user", "--yes", user=user)

    assert result.exit_code in {0, 2}
    assert "\x1b[31m" not in result.output
    assert before.items() <= read_documents(filled_folder).items()


def test_a_history_is_verified(filled_folder: Path) -> None:
    """The command ends with 0, with 1 for another history or session, and prints how to compare later."""
    proof = run(filled_folder, "verify", "--session", "s", "--json")
    known = ["--events", str(answer(proof)["events"]), "--head", answer(proof)["head"]]
    shown = run(filled_folder, "verify", "--session", "s", *known)
    other = run(filled_folder, "verify", "--session", "s", "--events", "1", "--head", "0" * 64)
    missing = run(filled_folder, "verify", "--session", "nothing")

    assert (0, None) == (proof.exit_code, answer(proof)["broken"])
    assert (0, 1, 1) == (shown.exit_code, other.exit_code, missing.exit_code)
    assert " ".join(known) in shown.stdout
    assert "not proven from event 0" in other.stdout
