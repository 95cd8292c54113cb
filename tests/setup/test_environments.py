"""A virtual environment is made once, and again when what it is made from has changed."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from setup.environments import Environment, make
from setup.tools import ROOT
from tests.project.test_commands import made

WHEEL = "greeting-1.0-py3-none-any.whl"
FILES = {
    "greeting.py": "WORD = 'hello'\n",
    "greeting-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n",
    "greeting-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "greeting-1.0.dist-info/RECORD": "",
}
ENVIRONMENT = Environment(
    folder="env",
    installs=(("--no-index", "--requirement", "requirements.txt"),),
    reads=("requirements.txt",),
    holds="a greeting",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a package to install."""
    with zipfile.ZipFile(tmp_path / WHEEL, "w") as wheel:
        for name, text in FILES.items():
            wheel.writestr(name, text)
    (tmp_path / "requirements.txt").write_text(f"./{WHEEL}\n")
    return tmp_path


def test_an_environment_is_ready_until_what_it_reads_changes(root: Path) -> None:
    """The content of its files decides, not their times; and not before pip has succeeded."""
    (root / "requirements.txt").write_text("absent\n")
    with pytest.raises(subprocess.CalledProcessError):
        make(ENVIRONMENT, root, wheels=None)
    half = ENVIRONMENT.is_ready(root)
    (root / "requirements.txt").write_text(f"./{WHEEL}\n")
    make(ENVIRONMENT, root, wheels=None)
    made = ENVIRONMENT.is_ready(root)
    (root / "requirements.txt").touch()
    touched = ENVIRONMENT.is_ready(root)
    (root / "requirements.txt").write_text(f"./{WHEEL}  # again\n")
    greets = [str(ENVIRONMENT.python(root)), "-c", "import greeting"]

    assert (False, True, True, False) == (half, made, touched, ENVIRONMENT.is_ready(root))
    assert 0 == subprocess.run(greets, check=False).returncode


def test_another_python_has_an_environment_of_its_own() -> None:
    """As `make quick PYTHON=python3.13 VENV=.venv-3.13` names it."""
    ask = [sys.executable, "-c", "from setup.environments import PYTHON; print(PYTHON.folder)"]
    environ = {**os.environ, "ADK_STORE_VENV": ".venv-3.13"}
    run = subprocess.run(ask, cwd=ROOT, env=environ, capture_output=True, text=True, check=True)

    assert ".venv-3.13\n" == run.stdout
    assert ".venv-3.13/bin/python" == made("quick", "VENV=.venv-3.13")[0][0]
