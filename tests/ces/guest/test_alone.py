"""The guest package runs in an environment that has pydantic and nothing else."""

import ast
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

import gcp_adk_store.ces.guest
from gcp_adk_store.ces.sandbox import open_environment

GUEST = Path(gcp_adk_store.ces.guest.__path__[0])

HERE = Path(__file__)
ROOT = HERE.parents[3]
PROPERTIES = HERE.with_name("test_state_delta.py")

RUNS_TESTS = ("_pytest", "iniconfig", "packaging", "pluggy", "py", "pygments")

NEEDED = ("annotated_types", "pydantic", "pydantic_core", "typing_extensions", "typing_inspection")

PROBE = """
import json, sys
sys.path[:0] = sys.argv[1:]
from mounted.running import run
source = "def tool():\\n    return Part.from_text('x').text"
request = {"kind": "tool", "code": [{"source": source, "filename": "tool.py"}]}
imported = {name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names
print(json.dumps([run(request, None)["result"], sorted(imported)]))
"""


def test_it_imports_itself_the_standard_library_and_pydantic_alone() -> None:
    """Itself relatively, also where only a function imports."""
    found = set()
    for path in GUEST.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                found.add(str(node.module).partition(".")[0])
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 1

    assert found - sys.stdlib_module_names == {"pydantic"}


def link(names: Iterable[str], folder: Path) -> None:
    """Make *names*, packages or modules, importable from *folder*, and nothing that lies beside them."""
    for name in names:
        found = importlib.util.find_spec(name)
        assert found is not None
        assert found.origin is not None
        origin = Path(found.origin)
        place = origin.parent if origin.name == "__init__.py" else origin
        (folder / place.name).symlink_to(place)


def test_it_runs_under_another_name_in_a_bare_environment(tmp_path: Path) -> None:
    """As a sandbox mounts it; what has no installed package cannot be imported by it."""
    (tmp_path / "mounted").symlink_to(GUEST)
    link(NEEDED, tmp_path)
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", PROBE, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert ran.returncode == 0, ran.stderr
    result, imported = json.loads(ran.stdout)
    assert result == "x"
    assert {name for name in imported if not name.startswith("_")} <= {*NEEDED, "mounted"}


@pytest.mark.long
def test_all_holds_on_the_platforms_python_and_packages(ces_environment: Path, tmp_path: Path) -> None:
    """The tests beside this one pass on those too, of which this process has others."""
    environment = open_environment(ces_environment)
    link(("pytest", *RUNS_TESTS), tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    options = ("-q", "-x", "--noconftest", "-p", "no:cacheprovider", "-c", tmp_path / "pytest.ini")
    ignored = (f"--ignore={path}" for path in (HERE, PROPERTIES))
    ran = subprocess.run(
        [environment.interpreter.executable, "-S", "-m", "pytest", *options, *ignored, HERE.parent],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=ROOT,
        env={
            "PATH": os.environ["PATH"],
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, environment.site, tmp_path))),
        },
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
