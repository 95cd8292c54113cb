"""List what a release was tried with, as CycloneDX 1.6 has it: its software bill of materials.

cyclonedx-bom writes the same from the same metadata, and would bring 21 packages to each contributor.
"""

import json
from collections.abc import Iterable
from importlib import metadata
from typing import Any
from urllib.parse import quote

from packaging.utils import canonicalize_name


def bom(name: str, there: Iterable[metadata.Distribution], *, time: str) -> str:
    """Return the JSON for the package *name* and all else *there*, in the order of their names.

    Args:
        name: Of the package that is released; it is one of *there*.
        there: The distributions of an environment.
        time: When it was made, as ISO 8601 in UTC.
    """
    components = {canonicalize_name(each.metadata["Name"]): component(each) for each in there}
    released = components.pop(canonicalize_name(name))
    found = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"timestamp": time, "component": {**released, "type": "library"}},
        "components": [components[key] for key in sorted(components)],
        "dependencies": [
            {"ref": released["bom-ref"], "dependsOn": sorted(each["bom-ref"] for each in components.values())}
        ],
    }
    return json.dumps(found, indent=2) + "\n"


def component(found: metadata.Distribution) -> dict[str, Any]:
    """Return the entry of one distribution."""
    name, version = canonicalize_name(found.metadata["Name"]), found.version
    place = f"pkg:pypi/{quote(name)}@{quote(version)}"
    made: dict[str, Any] = {"type": "library", "bom-ref": place, "purl": place}
    made |= {"name": name, "version": version}
    if license_ := found.metadata.json.get("license_expression"):
        made["licenses"] = [{"expression": license_}]
    return made
