"""How many files and frames a reader passes from a public method to the port of its backend."""

import json
import subprocess
import sys

from tests.support.documents import ROOT

BUDGETS = {
    "append": [27, 13],
    "get": [11, 8],
    "save": [12, 5],
    "remember": [16, 7],
    "search": [13, 12],
    "erase": [19, 8],
}


def test_a_way_gets_no_longer() -> None:
    """Files, and frames; whoever comes below a budget lowers it. In a process where no other test ran."""
    run = [sys.executable, "-m", "tests.project.ways"]
    found = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert BUDGETS == json.loads(found)
