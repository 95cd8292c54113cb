"""A run in which a test was skipped fails, as does one in which none ran."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.ready_programs import ready_programs

CONFTEST = Path(__file__).parents[1] / "conftest.py"


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
    shutil.copy(CONFTEST, tmp_path / "conftest.py")
    (tmp_path / "test_one.py").write_text(f"import pytest\n\n\ndef test_one():\n    {body}\n")
    run = subprocess.run(
        [ready_programs() / "python", "-m", "pytest", "-q", "-p", "xdist", *arguments, "."],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # others take their time to be imported
        capture_output=True,
        text=True,
        check=False,
    )

    assert status == run.returncode
