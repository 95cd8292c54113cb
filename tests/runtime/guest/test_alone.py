"""The guest package runs in an environment that has pydantic and nothing else."""

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import gcp_adk_store.runtime.guest

GUEST = Path(gcp_adk_store.runtime.guest.__path__[0])

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

    assert found - sys.stdlib_module_names == {"pydantic", "pydantic_core"}


def test_it_runs_under_another_name_in_a_bare_environment(tmp_path: Path) -> None:
    """As a sandbox mounts it; what has no installed package cannot be imported by it."""
    (tmp_path / "mounted").symlink_to(GUEST)
    for name in NEEDED:
        found = importlib.util.find_spec(name)
        assert found is not None
        assert found.origin is not None
        origin = Path(found.origin)
        place = origin.parent if origin.name == "__init__.py" else origin
        (tmp_path / place.name).symlink_to(place)
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
