"""The benchmarks, as `make bench` and `make bench-templates` run them, in a short form."""

import json
import subprocess
import sys
from pathlib import Path

from gcp_adk_store.testing.emulators import Emulator

ROOT = Path(__file__).parents[2]


def test_the_benchmark_measures_every_subject_of_every_scenario(
    firestore_emulator: Emulator, tmp_path: Path
) -> None:
    """It prints the table and writes the same figures; how large they are is for a reader to judge."""
    assert firestore_emulator.address
    results = tmp_path / "results" / "sessions.json"
    run = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "benchmarks.sessions",
            "--rounds",
            "3",
            "--json",
            str(results),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == run.returncode, run.stderr
    figures = json.loads(results.read_text())
    both = {"gcp_adk_store", "ADK's own"}
    measured: dict[str, set[str]] = {}
    for figure in figures:
        measured.setdefault(figure["scenario"], set()).add(figure["subject"])
        assert figure["wall_ms"] > 0
        assert figure["scenario"] in run.stdout
    assert {
        "append, no state": {*both, "one raw Commit"},
        "append, all scopes": {*both, "one raw Commit"},
        "get, 20 events": both,
        "get, 200 events": both,
    } == measured


def test_an_instruction_is_filled_many_times_faster_than_by_adk(tmp_path: Path) -> None:
    """A ratio in one run: both of ADK's engines read a template anew for every call of the model."""
    results = tmp_path / "templates.json"
    run = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "benchmarks.templates",
            "--rounds",
            "5",
            "--json",
            str(results),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == run.returncode, run.stderr
    figures = json.loads(results.read_text())
    ours = figures["gcp_adk_store"]
    # Some 12 and 250 where nothing else runs; the bound leaves room for a busy machine.
    assert figures["ADK's own"] > 6 * ours
    assert figures["ADK's own, by Jinja"] > 10 * ours
    assert {"gcp_adk_store, parsed anew", "Jinja, compiled once"} < figures.keys()
