"""The page of extras names each of them, what it installs, and how large that is."""

import json
import re

import pytest
from packaging.requirements import Requirement

from gcp_adk_store import __version__
from tests.support.documents import ROOT
from tools.release.bom import bom
from tools.release.sizes import installed, megabytes, needed, project, sizes

PAGE = (ROOT / "docs/reference/extras.md").read_text()
ROWS = {
    name: (set(re.findall(r"`([\w-]+)`", installs.partition("; ADK")[0])), float(size))
    for name, installs, size in re.findall(r"^\| `(\w+)` \|[^|]*\|([^|]*)\| ([\d.]+) \|$", PAGE, re.MULTILINE)
}
EXTRAS = {name: list(map(Requirement, listed)) for name, listed in project()["optional-dependencies"].items()}


def near(documented: float, found: float) -> bool:
    """Return whether a size is what a page says: the next release of a package may be larger."""
    return abs(documented - found) <= max(0.5, found / 5)


def test_the_page_has_every_extra_and_what_it_installs() -> None:
    """By the names of pyproject.toml; another extra that it brings is named, too."""
    named = {
        extra: {each.name for each in listed if each.name != "gcp-adk-store"}
        | {other for each in listed if each.name == "gcp-adk-store" for other in each.extras}
        for extra, listed in EXTRAS.items()
        if extra != "dev"
    }

    assert named == {extra: installs for extra, (installs, _) in ROWS.items()}


@pytest.mark.linux
def test_the_sizes_of_the_page_are_those_of_the_packages() -> None:
    """Of the locked versions; tests/beam measures the extra that has an environment of its own."""
    there = installed()
    found = sizes(there)
    whole, of_google = map(float, re.findall(r"(\d+) MB", PAGE))
    documented = {"": whole} | {extra: size for extra, (_, size) in ROWS.items()}
    google = [text for text in project()["dependencies"] if text.startswith("google")]

    assert {"", *EXTRAS} - {"beam", "dev"} <= found.keys()
    assert {} == {extra: size for extra, size in found.items() if not near(documented[extra], size)}
    assert near(of_google, megabytes(needed(google, there), there))


def test_a_bill_of_materials_names_each_package_once_with_its_version() -> None:
    """In the order of their names, with the released one apart."""
    there = installed()
    found = json.loads(bom("gcp-adk-store", there.values(), time="2026-11-27T09:00:00+00:00"))
    names = [each["name"] for each in found["components"]]
    (mine,) = found["dependencies"]

    assert ("CycloneDX", "1.6") == (found["bomFormat"], found["specVersion"])
    assert f"pkg:pypi/gcp-adk-store@{__version__}" == found["metadata"]["component"]["purl"] == mine["ref"]
    assert sorted(there.keys() - {"gcp-adk-store"}) == names
    assert {each["purl"] for each in found["components"]} == {*mine["dependsOn"]}
    assert f"pkg:pypi/google-adk@{there['google-adk'].version}" in mine["dependsOn"]
