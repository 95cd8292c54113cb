"""The guest package runs in an environment that has pydantic and nothing else."""

import importlib.util
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from gcp_adk_store.ces.sandbox import open_environment

HERE = Path(__file__)
ROOT = HERE.parents[3]

RUNS_TESTS = ("_pytest", "iniconfig", "packaging", "pluggy", "py", "pygments")


def link(names: Iterable[str], folder: Path) -> None:
    """Make *names*, packages or modules, importable from *folder*, and nothing that lies beside them."""
    for name in names:
        found = importlib.util.find_spec(name)
        assert found is not None
        assert found.origin is not None
        origin = Path(found.origin)
        place = origin.parent if origin.name == "__init__.py" else origin
        (folder / place.name).symlink_to(place)


@pytest.mark.long
def test_all_holds_on_the_platforms_python_and_packages(ces_environment: Path, tmp_path: Path) -> None:
    """The tests beside this one pass on those too, of which this process has others."""
    environment = open_environment(ces_environment)
    link(("pytest", *RUNS_TESTS), tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    options = ("-q", "-x", "--noconftest", "-p", "no:cacheprovider", "-c", tmp_path / "pytest.ini")
    ran = subprocess.run(
        [environment.interpreter.executable, "-S", "-m", "pytest", *options, f"--ignore={HERE}", HERE.parent],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=ROOT,
        env={
            "PATH": os.environ["PATH"],
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ces_environment / "site", tmp_path))),
        },
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
