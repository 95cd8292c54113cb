"""Say what is wrong with the files of a wheel or a source archive; pure functions."""

from collections.abc import Iterable, Iterator, Mapping
from email.parser import HeaderParser
from typing import Any, Final

from packaging.utils import canonicalize_name

PACKAGE: Final = "gcp_adk_store"
_OF_SOURCES: Final = frozenset(
    {
        ".gitignore",
        "CHANGELOG.md",
        "LICENSE",
        "PKG-INFO",
        "README.md",
        "tools/hatch_build.py",
        "pyproject.toml",
    }
)
"""What a source archive has beside the package."""


def of_wheel(
    names: Iterable[str], *, tracked: Iterable[str], version: str, licenses: Iterable[str]
) -> set[str]:
    """Return what a wheel has too much or too little: exactly the package that git knows, and its metadata.

    Args:
        names: The names in the wheel.
        tracked: The files of the package that git knows, by their paths from the root of the clone.
        version: The version of the package.
        licenses: The paths of the licences' texts.
    """
    about = f"{PACKAGE}-{version}.dist-info"
    metadata = {f"{about}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt")}
    return {*names} ^ {*tracked, *metadata, *(f"{about}/licenses/{path}" for path in licenses)}


def of_sources(names: Iterable[str], *, tracked: Iterable[str], version: str) -> set[str]:
    """Return what a source archive has too much or too little, as :func:`of_wheel` does."""
    root = f"{PACKAGE}-{version}"
    return {*names} ^ {f"{root}/{path}" for path in (*tracked, *_OF_SOURCES)}


def catalogue_page(page: str, *, repository: str) -> str:
    """Return the page for ADK's catalogue, whose links lead to the documents of the *repository*, a URL."""
    return page.replace("](../", f"]({repository.rstrip('/')}/blob/main/docs/")


def of_metadata(text: str, *, project: Mapping[str, Any], version: str) -> Iterator[str]:
    """Yield what the metadata of a wheel say otherwise than the table ``[project]``."""
    headers = HeaderParser().parsestr(text)
    expected = {
        "Name": [project["name"]],
        "Version": [version],
        "Requires-Python": [project["requires-python"]],
        "License-Expression": [project["license"]],
        "License-File": list(project["license-files"]),
        "Classifier": project["classifiers"],
        "Provides-Extra": [canonicalize_name(extra) for extra in project["optional-dependencies"]],
    }
    for name, values in expected.items():
        found = headers.get_all(name, [])
        if sorted(values) != sorted(found):
            yield f"{name} is {', '.join(found) or 'missing'}, and pyproject.toml says {', '.join(values)}"
