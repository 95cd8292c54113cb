"""A virtual environment is made once, and again when what it is made from has changed."""

import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.project.test_commands import made
from tools.setup.environments import UV, Environment, lay, make
from tools.setup.tools import ROOT

pytestmark = pytest.mark.long

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
def root(tmp_path: Path, with_pip: Path) -> Path:
    """A folder with a package to install, and the environment with pip alone."""
    shutil.copytree(with_pip, tmp_path / ENVIRONMENT.folder, symlinks=True)
    with zipfile.ZipFile(tmp_path / WHEEL, "w") as wheel:
        for name, text in FILES.items():
            wheel.writestr(name, text)
    (tmp_path / "requirements.txt").write_text(f"./{WHEEL}\n")
    return tmp_path


@pytest.fixture(scope="module")
def with_pip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an environment with pip alone, which takes its time to make."""
    root = tmp_path_factory.mktemp("bare")
    make(replace(ENVIRONMENT, installs=(), reads=()), root, wheels=None)
    return root / ENVIRONMENT.folder


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
    assert "own hello" == said_above(root)


def test_uv_installs_and_pip_where_uv_fails(root: Path) -> None:
    """As where pip's settings alone name the index."""
    uv = UV.python(root).with_name("uv")
    uv.parent.mkdir(parents=True)
    python = str(ENVIRONMENT.python(root))
    installed = []
    for status in (0, 2):
        uv.write_text(f'#!/bin/sh\necho "$@" > given\nexit {status}\n')
        uv.chmod(0o755)
        make(ENVIRONMENT, root, wheels=None)
        greets = subprocess.run([python, "-c", "import greeting"], stderr=subprocess.DEVNULL, check=False)
        installed.append(greets.returncode == 0)
    asked = f"pip install --no-progress --python {python} {' '.join(ENVIRONMENT.installs[0])}\n"

    assert [False, True] == installed
    assert asked == (root / "given").read_text()


def said_above(root: Path) -> str:
    """Return what a module says of an environment over the other, which imports the other's."""
    upper = Environment(folder="upper", installs=(), over=ENVIRONMENT, holds="another greeting")
    python = upper.python(root)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root / "upper"], check=True)
    lay(ENVIRONMENT, below=python, root=root)
    (packages,) = root.glob("upper/lib/python*/site-packages")
    (packages / "own.py").write_text("import greeting; print('own', greeting.WORD)")
    done = subprocess.run([python, "-m", "own"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_another_python_has_an_environment_of_its_own() -> None:
    """As `make quick PYTHON=python3.13 VENV=.venv-3.13` names it."""
    ask = [sys.executable, "-c", "from tools.setup.environments import PYTHON; print(PYTHON.folder)"]
    environ = {**os.environ, "ADK_STORE_VENV": ".venv-3.13"}
    run = subprocess.run(ask, cwd=ROOT, env=environ, capture_output=True, text=True, check=True)

    assert ".venv-3.13\n" == run.stdout
    assert ".venv-3.13/bin/python" == made("quick", "VENV=.venv-3.13")[0][0]
