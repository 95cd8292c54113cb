"""Commands say where they looked, and what nothing names is an error that ends with what helps."""

import json
import shlex
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gcp_adk_store import SessionLimits
from gcp_adk_store.cli.command import command
from gcp_adk_store.testing.emulators import Emulator

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
