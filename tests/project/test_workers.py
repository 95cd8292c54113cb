"""What the tests of a file share is made once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.test_commands import made

ONE_FILE = """
import os, pathlib, pytest

@pytest.fixture(scope="module")
def shared():
    with (pathlib.Path(__file__).parent / "made").open("a") as log:
        log.write(f"{__name__}\\n")

@pytest.mark.parametrize("number", range(4))
def test_of_it(shared, number):
    pass
"""


@pytest.mark.long
def test_a_file_runs_on_one_worker(tmp_path: Path) -> None:
    """As ``make test`` distributes them: a plugin whose option stopped working would go unnoticed."""
    *_, command = made("test")
    dist = command[command.index("--dist") + 1]
    for name in ("one", "two"):
        (tmp_path / f"test_{name}.py").write_text(ONE_FILE)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "xdist", "-n2", "--dist", dist, "."],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # others take their time to be imported
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == run.returncode, run.stdout
    assert ["test_one", "test_two"] == sorted((tmp_path / "made").read_text().split())
