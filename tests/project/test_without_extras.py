"""The package works with what it depends on alone: no extra, nothing of this repository's own tools."""

import json
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"

PROBE = """
import importlib, json, sys
missing = set(json.loads(sys.argv[1]))

class Missing:
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
before = set(sys.modules)
import gcp_adk_store
first = sorted(set(sys.modules) - before - sys.stdlib_module_names)
for name in gcp_adk_store.__all__:
    getattr(gcp_adk_store, name)
ours = {name.split(".")[1] for name in sys.modules if name.startswith("gcp_adk_store.")}
print(json.dumps([first, sorted(ours)]))
"""


def needed(requirements: list[str]) -> set[str]:
    """Return the distributions that *requirements* bring, of those that are installed."""
    found: set[tuple[str, str]] = set()
    waiting = [(text, "") for text in requirements]
    while waiting:
        text, of_extra = waiting.pop()
        requirement = Requirement(text)
        name = distribution(requirement.name)
        if requirement.marker and not requirement.marker.evaluate({"extra": of_extra}):
            continue
        for extra in ("", *requirement.extras):
            if (name, extra) not in found and is_installed(name):
                found.add((name, extra))
                waiting += [(below, extra) for below in metadata.requires(name) or ()]
    return {name for name, _ in found}


def distribution(name: str) -> str:
    """Return how the name of a distribution is compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def is_installed(name: str) -> bool:
    """Return whether there is such a distribution: some are of other systems."""
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def test_the_package_imports_without_any_extra() -> None:
    """Nothing at first; then all of its names, and neither the runtime nor the command with them."""
    core = needed(tomllib.loads(PYPROJECT.read_text())["project"]["dependencies"])
    modules = metadata.packages_distributions()
    ours = {"gcp_adk_store", "tests", "benchmarks"}
    missing = [
        module
        for module, owners in modules.items()
        if not core & set(map(distribution, owners)) and module not in ours
    ]
    assert {"rich", "numpy", "pytest", "uvloop"} <= set(missing)
    run = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps(missing)],
        capture_output=True,
        text=True,
        check=False,
        cwd=PYPROJECT.parent,
        timeout=60,
    )

    assert run.returncode == 0, run.stderr
    first, imported = json.loads(run.stdout)
    assert [name for name in first if name.partition(".")[0] not in sys.stdlib_module_names] == [
        "gcp_adk_store",
        "gcp_adk_store.imports",
    ]
    assert {"sessions", "artifacts", "store"} <= set(imported)
    assert not {"ces", "cli", "testing", "costs"} & set(imported)
