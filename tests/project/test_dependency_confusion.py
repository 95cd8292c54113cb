"""No text asks for a package index for this package: whoever takes its name there would be installed."""

import re
import tomllib
from collections.abc import Iterator

import pytest
from packaging.utils import canonicalize_name

from tests.support.documents import ROOT
from tools.setup.environments import LOCK

NAME = "gcp-adk-store"
EXAMPLE = ROOT / "examples/cloud_run"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

BY_NAME = re.compile(
    r"""(pip|uv|pipx|poetry)[ ](install|add|run|wheel|download)\b[^\n`&;]*
        (?<![./\w-])gcp[-_.]adk[-_.]store(?![-_.\w/]) """,
    re.IGNORECASE | re.VERBOSE,
)
"""A command that installs this package by its name: not a path to it, not a module of it."""

SPREADS = re.compile(r"--find-links|--extra-index-url")
"""Options of pip that add a place to look in, and still ask the index."""


def mentions() -> Iterator[tuple[str, str]]:
    """Yield every text that readers see or copy: documents, examples, the package's code, build files."""
    folders = (
        "docs",
        "emulators",
        "terraform",
        "examples",
        "gcp_adk_store",
        "tools",
        ".github",
    )
    kinds = {"", ".hcl", ".md", ".py", ".tf", ".toml", ".txt", ".yaml", ".yml"}
    files = [
        path for path in (*ROOT.iterdir(), ROOT / ".ci/run") if path.name not in ("CHANGELOG.md", ".coverage")
    ]
    files += [path for folder in folders for path in (ROOT / folder).rglob("*")]
    for path in files:
        if path.is_file() and path.suffix in kinds and ".terraform" not in path.parts:
            yield str(path.relative_to(ROOT)), path.read_text()


@pytest.mark.parametrize(
    ("line", "asks"),
    [
        ("pip install 'gcp-adk-store[a2a]'", True),
        ("RUN pip install --no-cache-dir gcp_adk_store==0.1.0", True),
        ("uv add gcp-adk-store", True),
        ("pip install '.[a2a]'", False),
        ("pip install --no-index --no-deps wheels/gcp_adk_store-*.whl", False),
        ("pip install . && gcp-adk-store doctor", False),
    ],
)
def test_a_command_that_asks_an_index_is_recognised(line: str, *, asks: bool) -> None:
    """By the package's name in any spelling; a path to a wheel or a clone names a file."""
    assert asks == bool(BY_NAME.search(line))


def test_no_document_error_or_example_installs_the_package_by_name() -> None:
    """Nor adds a place to look in beside the index, where the highest version wins."""
    found = [
        f"{name}: {each[0]}"
        for name, text in mentions()
        for asks in (BY_NAME, SPREADS)
        for each in asks.finditer(text)
    ]

    assert [] == found


def test_no_file_of_requirements_names_the_package() -> None:
    """Such a file is read with an index."""
    files = [EXAMPLE / "requirements.txt", ROOT / LOCK, ROOT / "tests/terraform/requirements.txt"]
    named = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in files
        for line in path.read_text().splitlines()
        if canonicalize_name(re.split(r"[^\w.-]", line, maxsplit=1)[0]) == NAME
    ]

    assert [] == named


def test_the_requirements_of_the_example_are_those_of_the_package() -> None:
    """The wheel is installed without asking for any."""
    lines = (EXAMPLE / "requirements.txt").read_text().splitlines()
    given = {line for line in lines if line and not line.startswith("#")}

    assert {*PROJECT["dependencies"]} == given
    assert "pip install --no-cache-dir --no-index --no-deps wheels/" in (EXAMPLE / "Dockerfile").read_text()
