"""The main job, as `make demo` runs it."""

import os
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from examples.turns import Checks
from gcp_adk_store.cli.command import command as commands
from gcp_adk_store.testing.emulators import Emulator
from tests.support.programs import ran
from tests.support.ready_programs import ready_programs

ROOT = Path(__file__).parents[2]


def cells(text: str, separator: str) -> set[tuple[str, ...]]:
    """Return the rows of three cells of a printed table."""
    rows = [line.strip(f"{separator} ").split(separator) for line in text.splitlines()]
    return {tuple(cell.strip() for cell in row) for row in rows if len(row) == 3 and "=" in row[1]}


@pytest.mark.long
def test_the_demo_finds_every_value_it_expects(
    firestore_emulator: Emulator, storage_emulator: Emulator
) -> None:
    """On emulators that run already, beside ADK's own services; README shows the figures that it prints."""
    assert firestore_emulator.address
    assert storage_emulator.address
    run = ran([ready_programs() / "python", "-m", "examples.demo"], cwd=ROOT)
    claimed = cells((ROOT / "README.md").read_text(), "|")

    assert (0, "") == (run.returncode, run.stderr)
    for shown in (
        "Every expected value came back.",
        "adk_apps/support/adk_users/ada",
        "state after the turn",
        "the latest report",
    ):
        assert shown in run.stdout
    assert 5 == len(claimed)
    assert claimed <= cells(run.stdout, "│")


def test_the_demo_needs_no_emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs on a local store, and its last command shows the session."""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_EMULATOR_HOST")}
    run = ran(
        [ready_programs() / "python", "-m", "examples.demo", "--path", str(tmp_path)],
        cwd=ROOT,
        env={**environment, "COLUMNS": "200"},
    )

    assert (0, "") == (run.returncode, run.stderr)
    assert "Every expected value came back." in run.stdout
    assert "store.sqlite3" in run.stdout
    (command,) = [line for line in run.stdout.splitlines() if line.startswith("  gcp-adk-store ")]
    for name in os.environ.keys() - environment.keys():
        monkeypatch.delenv(name)
    shown = CliRunner().invoke(commands, [*shlex.split(command)[1:], "--json"])
    assert 0 == shown.exit_code, shown.output
    assert "Closed. Goodbye, Ada." in shown.stdout


def test_a_value_that_did_not_come_back_counts() -> None:
    """What is equal does not."""
    checks = Checks()
    checks.equal("same", [1], [1])
    checks.equal("other", [1], [2])

    assert 1 == checks.failed
