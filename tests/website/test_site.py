"""The site has every page and every public name, and no broken link; what is made from code is current.

The documents are in plain words, as far as a program can check.
"""

import importlib
import os
import re
from functools import cache
from pathlib import Path

import pytest
from google.adk.cli import service_registry
from google.adk.cli.service_registry import get_service_registry

import gcp_adk_store
from gcp_adk_store import register
from tests.project.test_commands import made
from tests.support.documents import ROOT
from tools.setup.environments import DOCS
from tools.website import build, diagrams, reference, words

PAGES = build.pages()
NAVIGATION = build.navigation(build.configuration())
IMAGE = re.compile(r"!\[[^\]]*\]\(([^)]+)\)")


@cache
def sources() -> str:
    """Return all modules of the package, each text of several literals as one."""
    code = "\n".join(path.read_text() for path in (ROOT / "gcp_adk_store").rglob("*.py"))
    return re.sub(r'"\s*\n\s*f?"', "", code)


def page(name: str) -> str:
    """Return a page of docs/."""
    return (ROOT / "docs" / name).read_text()


def test_every_document_is_in_the_navigation() -> None:
    """Once, and the navigation leads to nothing else; a file that a document shows is none."""
    documents = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}

    assert documents == {*NAVIGATION}
    assert len(NAVIGATION) == len({*NAVIGATION})


def test_every_link_of_the_site_leads_to_a_page_of_it() -> None:
    """Also those to what lies outside of docs/, which has pages of its own."""
    assert [] == build.broken(PAGES)
    assert ["a.md: b.md", "a.md: c.svg"] == build.broken(
        {"a.md": "[b](b.md) ![c](c.svg) [a](a.md#a) `[d](d.md)`"}
    )


@pytest.mark.parametrize("package", ["gcp_adk_store", *reference.PACKAGES])
def test_every_public_name_has_a_place_on_a_page(package: str) -> None:
    """With a title that links can lead to, and the line that shows its docstring."""
    text = "".join(page(f"reference/api/{path.name}") for path in (ROOT / "docs/reference/api").iterdir())
    names = importlib.import_module(package).__all__

    assert [] == [name for name in names if f"\n## {name}\n\n::: {package}.{name}\n" not in text]


def test_every_public_package_has_a_page() -> None:
    """Those that say what is public; docs/bulk.md describes those that need Apache Beam, which is apart."""
    said = {
        ".".join(path.relative_to(ROOT).parent.parts)
        for path in (ROOT / "gcp_adk_store").rglob("__init__.py")
        if "\n__all__ = [" in path.read_text()
    }

    assert {"gcp_adk_store", "gcp_adk_store.bulk", *reference.PACKAGES} == said


@pytest.mark.parametrize("name", sorted(reference.pages()))
def test_a_page_of_the_reference_is_what_the_code_says(name: str) -> None:
    """`make reference` makes it anew."""
    assert page(f"reference/{name}") == reference.pages()[name]


@pytest.mark.parametrize("name", sorted(diagrams.DIAGRAMS))
def test_a_diagram_is_what_its_script_draws(name: str) -> None:
    """`make reference` draws it anew; it loads nothing, and has colours for dark pages."""
    svg = (ROOT / f"docs/pictures/{name}.svg").read_text()

    assert diagrams.DIAGRAMS[name]().svg() == svg
    assert "prefers-color-scheme: dark" in svg
    assert "<desc>" in svg


def test_every_picture_is_shown_and_says_what_it_shows() -> None:
    """On a page or in the README."""
    shown = {
        os.path.normpath(Path(path).parent / found)
        for path in ("README.md", *(f"docs/{name}" for name in PAGES if (ROOT / "docs" / name).exists()))
        if path.endswith(".md")
        for found in IMAGE.findall((ROOT / path).read_text())
    }
    kept = {str(path.relative_to(ROOT)) for path in (ROOT / "docs/pictures").iterdir()}

    assert kept <= shown
    assert "![](" not in "".join((ROOT / "docs" / name).read_text() for name in NAVIGATION if name in PAGES)


def test_no_svg_loads_anything() -> None:
    """Neither a font nor a picture."""
    loading = re.compile(r"url\((?!#|[\"']?data:)|@import|(?:href|src)=\"(?!#|data:)")
    found = [path.name for path in (ROOT / "docs").rglob("*.svg") if loading.search(path.read_text())]

    assert [] == found


def test_every_variable_of_the_environment_is_on_its_page() -> None:
    """All that the code reads under a name of its own, and Google's that it names."""
    named = set(re.findall(r"\bADK_STORE_[A-Z_]*[A-Z]\b", sources()))
    documented = set(re.findall(r"^\| `([A-Z_]+)`", page("reference/environment.md"), re.MULTILINE))

    of_the_project = {"ADK_STORE_REPOSITORY", "ADK_STORE_VENV"}
    assert named - of_the_project == {name for name in documented if name.startswith("ADK_STORE_")}
    assert {"GOOGLE_CLOUD_PROJECT", "FIRESTORE_EMULATOR_HOST", "STORAGE_EMULATOR_HOST"} <= documented


def test_every_scheme_is_on_the_page_of_uris(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that this package registers with ADK, in a registry of the test's own, and those of copies."""
    monkeypatch.setattr(service_registry, "_service_registry_instance", None)
    register()
    registry = get_service_registry()
    schemes = {
        scheme
        for factories in (
            registry._session_factories,
            registry._artifact_factories,
            registry._memory_factories,
        )
        for scheme, factory in factories.items()
        if factory.__module__.startswith("gcp_adk_store")
    }
    documented = set(re.findall(r"^\| `([a-z+-]+)://", page("reference/uris.md"), re.MULTILINE))

    assert schemes
    assert schemes <= documented
    assert {"adk-firestore", "adk-java-firestore"} <= documented


def test_every_message_of_the_troubleshooting_is_one_of_the_code() -> None:
    """Of this package, or of ADK where ours says the same."""
    documented = re.findall(r"^\| `([^`]+)` \|", page("troubleshooting.md"), re.MULTILINE)

    assert len(documented) > 20
    assert [] == [message for message in documented if message not in sources()]


def test_the_site_is_built_by_an_environment_of_its_own() -> None:
    """Without a package of the tests."""
    pinned = (ROOT / DOCS.reads[0]).read_text().splitlines()

    assert ["-m", "tools.website.build"] == made("docs")[-1][1:]
    assert all("==" in line for line in pinned if not line.startswith("#"))


def test_markdown_of_the_repository_becomes_that_of_the_site() -> None:
    """A list after a line, and blocks within it."""
    given = "Steps:\n1. One\n\n   ```bash\n   if\n     x\n   ```\n2. Two\n  - in\n"

    assert (
        "Steps:\n\n1. One\n\n    ```bash\n    if\n      x\n    ```\n2. Two\n    - in\n"
        == build.for_markdown(given)
    )


def test_a_page_that_loads_from_elsewhere_is_found(tmp_path: Path) -> None:
    """A link to another site is none."""
    (tmp_path / "a.html").write_text(
        '<a href="https://a.example/"></a><link rel="canonical" href="https://b.example/">'
        '<script src="https://c.example/x.js"></script><link rel="stylesheet" href="https://d.example/x.css">'
    )

    found = build.elsewhere(tmp_path)

    assert 2 == len(found)
    assert "c.example" in found[0]
    assert gcp_adk_store.__all__


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("You simply call it.", ["simply"]),
        ("It mends the document, and tells you.", ["mends", "tells"]),
        ("Simply call it.", ["simply"]),
        ("It is stored via Firestore, e.g. in eur3.", ["e.g.", "via"]),
        ("There is no limit.", ["there is no"]),
        ("`simply` and\n```bash\nplease\n```\nand [a page](via.md)", []),
        ("The multi-region US is one. Neither is None.", []),
        ("A robustness test.", []),
    ],
)
def test_a_word_is_found_in_prose_alone(text: str, found: list[str]) -> None:
    """Not in code, not in addresses, not in names."""
    assert found == sorted(each.found for each in words.findings(text))


def test_a_long_sentence_is_found_with_its_line() -> None:
    """A table, and an item of a list, begin anew."""
    long = "Short.\n\n" + "word " * 50 + "end.\n"
    listed = "".join(f"- {'word ' * 20}\n" for _ in range(5))

    assert [3] == [each.line for each in words.findings(long)]
    assert [] == list(words.findings(listed + "| " + "word " * 60 + "|\n"))


def test_a_term_is_found_in_what_people_read_of_code() -> None:
    """Docstrings, comments, messages and names; not single words that are values, and not files' ``tell``."""
    lines = (
        "def repair(_TOLD_before, tell, retold):",
        "    'Mend what is broken.'",
        '    x = "mend"  # it is told so',
        '    raise ValueError(tell, "is mended now")',
    )

    found = [(each.line, each.found) for each in words.findings_in_code("\n".join(lines))]

    assert [(1, "TOLD"), (2, "Mend"), (3, "told"), (4, "mended")] == found


def test_a_term_is_found_between_the_values_of_an_f_string() -> None:
    """From Python 3.12 on, its texts are tokens of their own."""
    lines = ('raise ValueError(f"""{x} was', 'spelled so {y}, of which little {z} is known""")')

    found = [(each.line, each.found) for each in words.findings_in_code("\n".join(lines))]

    assert [(2, "spelled"), (2, "of which little")] == found
