"""Measure what the package brings, alone and with each extra: ``python -m tools.release.sizes``."""

import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.setup.tools import ROOT

Distributions = Mapping[str, metadata.Distribution]


def project() -> dict[str, Any]:
    """Return the table ``[project]``."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def installed(folder: Path | None = None) -> dict[str, metadata.Distribution]:
    """Return the distributions of this environment, or of a *folder* of packages, by their names."""
    found: dict[str, metadata.Distribution] = {}
    for each in metadata.distributions() if folder is None else metadata.distributions(path=[str(folder)]):
        found.setdefault(canonicalize_name(each.metadata["Name"]), each)
    return found


def needed(requirements: Iterable[str], there: Distributions) -> set[str]:
    """Return the names of the distributions *there* that *requirements* bring; some are of other systems."""
    found: set[tuple[str, str]] = set()
    waiting = [(text, "") for text in requirements]
    while waiting:
        text, of_extra = waiting.pop()
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        if requirement.marker and not requirement.marker.evaluate({"extra": of_extra}):
            continue
        for extra in ("", *requirement.extras):
            if (name, extra) not in found and name in there:
                found.add((name, extra))
                waiting += [(below, extra) for below in there[name].requires or ()]
    return {name for name, _ in found}


def megabytes(names: Iterable[str], there: Distributions) -> float:
    """Return the size of the files that distributions install, without what Python compiles of them."""
    files = [file for name in names for file in there[name].files or () if file.suffix != ".pyc"]
    paths = (Path(str(file.locate())) for file in files)
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def sizes(there: Distributions) -> dict[str, float]:
    """Return the megabytes of one installation, under ``""``, and what each extra adds to it.

    An extra of which something is not installed is left out.
    """
    about = project()
    base = needed(about["dependencies"], there)
    found = {"": megabytes(base, there)}
    for extra, requirements in about["optional-dependencies"].items():
        named = [Requirement(text) for text in requirements]
        others = {canonicalize_name(each.name) for each in named if not each.marker or each.marker.evaluate()}
        if others <= there.keys() and extra != "dev":
            found[extra] = megabytes(needed(requirements, there) - base - {about["name"]}, there)
    return found


def shown(size: float) -> str:
    """Return megabytes as the documents have them."""
    return f"{size:.0f}" if size >= 10 else re.sub(r"\.0$", "", f"{size:.1f}")  # noqa: PLR2004  # two digits


def table(there: Distributions) -> str:
    """Return the sizes as lines of text."""
    rows = sizes(there).items()
    return "".join(f"{shown(size):>5} MB  {extra or 'without an extra'}\n" for extra, size in rows)


if __name__ == "__main__":
    sys.stdout.write(table(installed()))
