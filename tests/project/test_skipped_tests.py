"""A run with a skipped test fails, as does one without a test; one for other systems leaves tests out."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.programs import ran
from tests.support.ready_programs import ready_programs

CONFTEST = Path(__file__).parents[1] / "conftest.py"
OF_LINUX = """
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


def run_tests_of(folder: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of *code* as this project's."""
    shutil.copy(CONFTEST, folder / "conftest.py")
    (folder / "test_one.py").write_text(code)
    return ran(
        [ready_programs() / "python", "-m", "pytest", "-q", "-p", "xdist", *arguments, "."],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )


@pytest.mark.parametrize(
    ("body", "arguments", "status"),
    [
        ("assert True", ["-n0"], 0),
        ("pytest.skip('no emulator')", ["-n0"], 1),
        ("pytest.skip('no emulator')", ["-n1"], 1),
        ("assert True", ["-n0", "-k", "nothing"], 5),
    ],
)
def test_what_was_not_run_shows_nothing(tmp_path: Path, body: str, arguments: list[str], status: int) -> None:
    """Also where workers run the tests."""
    run = run_tests_of(tmp_path, f"import pytest\n\n\ndef test_one():\n    {body}\n", *arguments)

    assert status == run.returncode


def test_the_core_leaves_out_what_needs_linux(tmp_path: Path) -> None:
    """By its marker, or by a fixture that it uses through another; left out is not skipped."""
    run = run_tests_of(tmp_path, OF_LINUX, "-n0", "--core")

    assert 0 == run.returncode, run.stdout
    assert "1 passed, 2 deselected" in run.stdout
