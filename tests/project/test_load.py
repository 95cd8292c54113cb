"""Show that a command runs beside other work, which ends with it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.load import run_beside

CHILDREN = """
import os, pathlib, sys
found = pathlib.Path(f"/proc/{os.getppid()}/task/{os.getppid()}/children").read_text().split()
pathlib.Path(sys.argv[1]).write_text(" ".join(each for each in found if int(each) != os.getpid()))
sys.exit(7)
"""


@pytest.mark.linux
def test_the_work_beside_a_command_ends_with_it(tmp_path: Path) -> None:
    """And the status is the command's."""
    found = tmp_path / "children"
    arguments = [sys.executable, "-m", "tests.load", "2", sys.executable, "-c", CHILDREN, str(found)]
    status = subprocess.run(arguments, capture_output=True, check=False).returncode
    beside = found.read_text().split()

    assert 7 == status
    assert 2 + 2 == len(beside)
    assert not [each for each in beside if Path(f"/proc/{each}").exists()]


def test_a_command_that_is_not_there_leaves_nothing_running() -> None:
    """Its error is the caller's."""
    with pytest.raises(FileNotFoundError):
        run_beside(1, ["/nowhere/program"])
