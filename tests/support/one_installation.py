"""What one installation brings: the packages that this one requires, without any extra."""

from functools import cache
from importlib import metadata
from pathlib import Path

from packaging.utils import canonicalize_name

from tests.support.documents import ROOT
from tools.release.sizes import installed, needed, project

_HIDES = """
import sys
missing = set({missing!r})

class Missing:
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""


@cache
def missing_modules() -> list[str]:
    """Return the modules of this environment that one installation does not bring."""
    core = needed(project()["dependencies"], installed())
    ours = {"gcp_adk_store", "tests", "tools"}
    return [
        module
        for module, owners in metadata.packages_distributions().items()
        if not core & set(map(canonicalize_name, owners)) and module not in ours
    ]


def one_installation(folder: Path) -> dict[str, str]:
    """Return variables with which Python finds the code of this clone, and the modules of one installation.

    Args:
        folder: An empty folder, which they refer to.
    """
    (folder / "sitecustomize.py").write_text(_HIDES.format(missing=missing_modules()))
    return {"PYTHONPATH": f"{folder}:{ROOT}"}
