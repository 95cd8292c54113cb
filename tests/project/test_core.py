"""The run for other systems leaves out what they cannot run, and nothing else."""

import shutil
import subprocess
from pathlib import Path

from tests.support.ready_programs import ready_programs

CONFTEST = Path(__file__).parents[1] / "conftest.py"
TESTS = """
import pytest

@pytest.fixture
def chromium():
    raise AssertionError("it is not there")

@pytest.fixture
def page(chromium):
    pass

def test_anywhere():
    pass

def test_of_a_page(page):
    pass

@pytest.mark.linux
def test_of_linux():
    raise AssertionError("it is another system")
"""


def test_the_core_leaves_out_what_needs_linux(tmp_path: Path) -> None:
    """By its marker, or by a fixture that it uses through another; left out is not skipped."""
    shutil.copy(CONFTEST, tmp_path / "conftest.py")
    (tmp_path / "test_one.py").write_text(TESTS)
    run = subprocess.run(
        [ready_programs() / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--core", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == run.returncode, run.stdout
    assert "1 passed, 2 deselected" in run.stdout
