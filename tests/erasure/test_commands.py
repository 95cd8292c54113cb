"""Show what ``gcp-adk-store erase-user`` and ``verify`` print, and how they end."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gcp_adk_store.cli.command import command
from gcp_adk_store.model.erasures import digest_of
from tests.erasure.conftest import APP, OWNER, USER
from tests.support.folder import read_documents


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
    for said in ("sessions", "not erased: logs, traces, exports", "not erased: A2A tasks", "digest "):
        assert said in shown
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
