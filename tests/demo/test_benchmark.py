"""The benchmarks, as `make bench` and `make bench-templates` run them, in a short form."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store.testing.emulators import Emulator
from tests.support.programs import ran
from tests.support.ready_programs import ready_programs
from tools.benchmarks.targets import targets

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
OURS, ADKS = "gcp_adk_store", "ADK's own"
SMALLER = "gcp_adk_store where there is less"
ALONE = "the same requests and parsing, alone"
PARSING, SLEEPING = "pydantic parsing", "as many tasks that sleep"
FILES = {"ADK's SQLite", "ADK's SQL on SQLite"}


def printed(module: str, *arguments: str, **environ: str) -> str:
    """Run a benchmark; return what it prints."""
    run = ran(
        [ready_programs() / "python", "-m", module, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "ignore", **environ},
    )
    assert 0 == run.returncode, run.stderr
    return run.stdout


@pytest.fixture(scope="module")
def results(
    firestore_emulator: Emulator, storage_emulator: Emulator, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Where the short form wrote its figures, with what it printed."""
    folder = tmp_path_factory.mktemp("results")
    environ = {made.variable: made.address for made in (firestore_emulator, storage_emulator)}
    command = ("tools.benchmarks", "--quick", "--rounds", "1", "--json", str(folder / "bench.json"))
    (folder / "printed").write_text(printed(*command, **environ))
    return folder


@pytest.fixture
def run(results: Path) -> dict[str, Any]:
    """All of the run."""
    read: dict[str, Any] = json.loads((results / "bench.json").read_text())
    return read


@pytest.fixture
def counted(run: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """What was counted, by scenario and subject."""
    return {
        (figure["scenario"], figure["subject"]): figure["counted"]
        for figure in run["figures"]
        if figure["counted"]
    }


def test_the_collector_is_measured_as_it_is_set_in_three_ways(tmp_path: Path) -> None:
    """By default, as the library sets it, and off."""
    figures = tmp_path / "collector.json"
    short = ("--sessions", "2", "--history", "3", "--turns", "3", "--rounds", "1")
    output = printed("tools.benchmarks.collector", "--json", str(figures), *short)
    measured = json.loads(figures.read_text())

    assert ["by default", "tune_gc()", "off"] == list(measured)
    assert all(0 < row["p50"] <= row["p99"] <= row["longest"] for row in measured.values())
    assert all(name in output for name in measured)


def test_each_page_of_the_inspector_is_measured(tmp_path: Path) -> None:
    """With and without what the process read before."""
    figures = tmp_path / "inspector.json"
    short = ("--events", "200", "--rounds", "1")
    output = printed("tools.benchmarks.inspector", "--json", str(figures), *short)
    measured = json.loads(figures.read_text())

    assert {"conversation", "timeline", "state by position", "usage"} <= measured.keys()
    assert all(0 < row[name] for row in measured.values() for name in ("cold", "warm", "cold CPU", "kB"))
    assert "at most 200 ms of CPU time, cold" in output


def bill(counted: dict[str, Any]) -> tuple[dict[str, int], int, int, int]:
    """Return RPCs by name, documents read, written and deleted."""
    return counted["rpcs"], counted["reads"], counted["writes"], counted["deletes"]


def test_the_benchmark_measures_every_subject_of_every_scenario(run: dict[str, Any], results: Path) -> None:
    """It prints the table and writes the same figures; how large they are is for a reader to judge."""
    printed = (results / "printed").read_text()
    subjects: dict[str, set[str]] = {}
    for figure in run["figures"]:
        subjects.setdefault(figure["scenario"], set()).add(figure["subject"])
        assert figure["scenario"] in printed
        conversation = figure["scenario"].startswith("conversation")
        here_alone = figure["subject"] in {*FILES, PARSING, SLEEPING}
        assert figure["timings"].keys() == (set() if conversation else {"0"} if here_alone else {"0", "20"})
        assert conversation or 0 < figure["timings"]["0"]["p50_ms"] <= figure["timings"]["0"]["p99_ms"]

    network = {OURS, ADKS}
    commits = {"one raw Commit", "the same Commit, raw", ALONE}
    assert {*network, *FILES, *commits} == subjects["append, all scopes"]
    assert {*network, *FILES, *commits, SMALLER} == subjects["append at 20 events"]
    assert {*network, *FILES, "one raw BatchGet", PARSING} == subjects["get 20 events, whole, warm"]
    assert {*network, *FILES} == subjects["turn of 6 events"]
    assert network == subjects['turn of 6 events, durability="turn"']
    assert {OURS, "ADK's in memory", "two raw Commits", ALONE} == subjects["turn of 6 events, with a lease"]
    assert {OURS, SMALLER} == subjects["get 20 events, since compaction, warm"]
    assert {*network, "one raw Commit", ALONE, SLEEPING} == subjects["8 sessions x 4 tasks, an append"]
    assert {*network, "one raw upload"} == subjects["save 1 MB"]
    assert {*network, "one raw download"} == subjects["load 1 MB by number"]
    assert {OURS, SMALLER} == subjects["list a page of 50 of 200 sessions"]
    assert 30 < len(subjects)


def test_the_benchmark_counts_what_others_take(counted: dict[tuple[str, str], dict[str, Any]]) -> None:
    """ADK, and the same requests alone; tests/simulation/budgets.json has what this package takes."""
    commit, get = "Commit", "BatchGetDocuments"

    for delta in ("no delta", "session delta", "all scopes"):
        assert ({commit: 1}, 0, 1, 0) == bill(counted[f"append, {delta}", "one raw Commit"])
    assert ({get: 1}, 3, 0, 0) == bill(counted["get 20 events, whole, warm", "one raw BatchGet"])
    assert 20 + 3 == counted["get 20 events, whole, warm", ADKS]["reads"]
    for subject in (OURS, ALONE):
        assert ({commit: 2, get: 1}, 2, 2, 0) == bill(counted["turn of 6 events, with a lease", subject])
    # All that wait for a session go in one commit; ADK writes session and event for each append.
    assert ({commit: 8}, 0, 8, 0) == bill(counted["8 sessions x 4 tasks, an append", OURS])
    assert 2 * 8 * 4 == counted["8 sessions x 4 tasks, an append", ADKS]["writes"]
    theirs = counted["conversation of 10 turns", ADKS]
    # An empty query bills 1, and each read sees all events before it.
    assert (2 * 10 * 2, 3 * 10 + 2 * 10 + 1 + sum(range(2, 20, 2))) == (theirs["writes"], theirs["reads"])
    assert counted["append at 100 KB of state", OURS]["sent_bytes"] < 4000
    assert counted["append at 100 KB of state", ADKS]["sent_bytes"] > 100_000
    assert {"upload": 1, "list": 1} == counted["save at 20 versions, known", ADKS]["rpcs"]
    loaded = {"list": 1, "metadata": 1, "media": 1}
    assert loaded == counted["load the latest of 20 versions, unknown", ALONE]["rpcs"]
    assert 1_000_000 < counted["save 1 MB", OURS]["sent_bytes"] < 1_010_000
    assert 1_000_000 < counted["load 1 MB by number", OURS]["received_bytes"] < 1_010_000


def test_the_benchmark_ends_with_its_targets(run: dict[str, Any], results: Path) -> None:
    """Each with what was found where this form measures it; a missed one fails no run; a chart shows all."""
    assert next(target.what for target in targets([])) in (results / "printed").read_text()
    found = {target["what"]: target for target in run["targets"]}

    assert len(targets([])) == len(found)
    assert found["append, all scopes, 20 ms"]["reached"] in (True, False)
    assert found["get 1,000 events, whole, warm"]["reached"] is None
    billed = found["conversation of 10 turns, billed writes"]
    assert (True, "2.00x (40 / 20)") == (billed["reached"], billed["found"])
    assert (results / "bench.svg").read_text().startswith("<?xml")


def test_instructions_are_measured_beside_adks(tmp_path: Path) -> None:
    """All fill the same template, and the targets say how much faster this engine is meant to be."""
    results = tmp_path / "templates.json"
    output = printed("tools.benchmarks.templates", "--rounds", "1", "--json", str(results))
    figures = json.loads(results.read_text())
    assert 2 == len(re.findall(r"at least .* times: (?:reached|missed)", output))
    assert {"gcp_adk_store", "gcp_adk_store, parsed anew", "Jinja, compiled once"} < figures.keys()
    assert all(took > 0 for took in figures.values())
