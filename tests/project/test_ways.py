"""How many files and frames a reader passes from a public method to the port of its backend."""

import json
import re

import pytest

from tests.support.documents import ROOT
from tests.support.programs import ran
from tests.support.ready_programs import ready_programs

BUDGETS = {
    "append": [14, 8],
    "get": [10, 7],
    "save": [9, 4],
    "remember": [15, 6],
    "search": [10, 11],
    "erase": [12, 8],
}


@pytest.fixture(scope="module")
def ways() -> str:
    """What the program prints in a process where no other test ran: numbers, then the files of appends."""
    run = [str(ready_programs() / "python"), "-m", "tests.project.ways", "append"]
    return ran(run, cwd=ROOT, check=True).stdout


def test_a_way_gets_no_longer(ways: str) -> None:
    """Files, and frames; whoever comes below a budget lowers it."""
    assert BUDGETS == json.loads(ways.splitlines()[0])


def test_a_name_on_the_ways_leads_to_one_function(ways: str) -> None:
    """But for what a store hands on, under the name of the operation."""
    shared = json.loads(ways.splitlines()[1])

    assert {
        "erase_user": [
            "erasure/run.py: UserErasure.erase_user",
            "store/operations.py: StoreOperations.erase_user",
        ]
    } == shared


def test_a_contributor_who_follows_an_append_reads_the_files_it_passes(ways: str) -> None:
    """In their order, but for the first two: what stands around a method is called before it."""
    table = re.findall(r"^\| \d \| `(\S+)`", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    _, _, *passed = ways.splitlines()

    assert table.pop() == "kernel/ports.py"
    assert set(table) <= set(passed)
    assert table[2:] == sorted(table[2:], key=passed.index)


def test_the_places_that_the_page_of_architecture_names_exist() -> None:
    """The answers to where something is."""
    page = (ROOT / "docs/concepts/architecture.md").read_text()
    named = re.findall(r"`([a-z_]+/[a-z_/]*(?:\.py)?)`", page)

    assert len(named) > 40
    assert [] == [each for each in named if not (ROOT / "gcp_adk_store" / each).exists()]


def test_make_help_names_each_target() -> None:
    """Eight that one uses each day, and the others under more."""
    make = ["make", "-s", "help"]
    said = ran(make, cwd=ROOT, check=True).stdout
    daily = re.findall(r"^make (\S+)", said, re.MULTILINE)
    more = said.splitlines()[-1].removeprefix("more:").split()
    targets = re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)

    assert len(daily) == 8
    assert {"help", *daily, *more} == set(targets)


def test_the_makefile_names_files_that_exist() -> None:
    """Also those of targets that no test runs."""
    named = set(re.findall(r"\btests/[\w/.-]*\w", (ROOT / "Makefile").read_text()))

    assert len(named) > 10
    assert [] == sorted(each for each in named if not (ROOT / each).exists())
