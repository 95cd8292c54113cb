"""A run in which a test was skipped fails, as does one in which none ran."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, "."],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(CONFTEST.parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )

    assert status == run.returncode
