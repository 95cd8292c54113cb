"""The main job, as `make demo` runs it."""

import subprocess
import sys
from pathlib import Path

from examples.demo import Checks
from gcp_adk_store.testing.emulators import Emulator

ROOT = Path(__file__).parents[2]


def cells(text: str, separator: str) -> set[tuple[str, ...]]:
    """Return the rows of three cells of a printed table."""
    rows = [line.strip(f"{separator} ").split(separator) for line in text.splitlines()]
    return {tuple(cell.strip() for cell in row) for row in rows if len(row) == 3 and "=" in row[1]}


def test_the_demo_finds_every_value_it_expects(
    firestore_emulator: Emulator, storage_emulator: Emulator
) -> None:
    """On emulators that run already; the README's figures are those that it prints."""
    assert firestore_emulator.address
    assert storage_emulator.address
    run = subprocess.run(
        [sys.executable, "-m", "examples.demo"], cwd=ROOT, capture_output=True, text=True, check=False
    )
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


def test_a_value_that_did_not_come_back_counts() -> None:
    """What is equal does not."""
    checks = Checks()
    checks.equal("same", [1], [1])
    checks.equal("other", [1], [2])

    assert 1 == checks.failed
