"""A virtual environment is made once, and again when what it is made from has changed."""

import shutil
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from tools.setup.environments import Environment, make

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
