"""What is released is the package as git knows it, and nothing else.

The changelog is in order, and a release is refused until it says what is released.
"""

import re
import zipfile
from pathlib import Path

import pytest

from gcp_adk_store import __version__
from tools.release import __main__ as command
from tools.release.changelog import UNRELEASED, notes, problems, sections
from tools.release.files import catalogue_page, of_metadata, of_sources, of_wheel
from tools.release.sizes import project
from tools.release.trial import constraints
from tools.setup.tools import ROOT

PACKAGE = ["gcp_adk_store/__init__.py", "gcp_adk_store/py.typed"]
ABOUT = "gcp_adk_store-1.0.dist-info"
METADATA = [
    f"{ABOUT}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
]


@pytest.mark.parametrize(
    ("names", "wrong"),
    [
        ([*PACKAGE, *METADATA], set()),
        (["gcp_adk_store/__init__.py", *METADATA], {"gcp_adk_store/py.typed"}),
        ([*PACKAGE, "tests/test_store.py", *METADATA], {"tests/test_store.py"}),
        ([*PACKAGE, *METADATA[:-1]], {METADATA[-1]}),
    ],
)
def test_a_wheel_has_the_package_and_its_metadata(names: list[str], wrong: set[str]) -> None:
    """What is missing is reported as well as what is too much, tests for example."""
    assert wrong == of_wheel(names, tracked=PACKAGE, version="1.0", licenses=["LICENSE"])


def test_a_source_archive_has_what_a_wheel_is_built_from() -> None:
    """And not the documents of other folders."""
    found = of_sources(["gcp_adk_store-1.0/tests/README.md"], tracked=PACKAGE, version="1.0")

    assert "gcp_adk_store-1.0/tests/README.md" in found
    assert "gcp_adk_store-1.0/gcp_adk_store/py.typed" in found


def test_metadata_that_say_something_else_are_refused() -> None:
    """With both values."""
    about = {**project(), "requires-python": ">=3.12"}
    text = "Name: gcp-adk-store\nVersion: 0.9\nRequires-Python: >=3.11\n"
    faults = list(of_metadata(text, project=about, version="0.9"))

    assert "Requires-Python is >=3.11, and pyproject.toml says >=3.12" in faults
    assert not [line for line in faults if line.startswith(("Name", "Version"))]


def test_the_files_of_this_clone_can_be_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sources build the same wheel, byte by byte, and it names the repository that it is built for."""
    monkeypatch.setenv("ADK_STORE_REPOSITORY", "https://git.example/adk-store/")
    wheel = command.build(tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"gcp_adk_store-{__version__}.dist-info/METADATA").decode()
        names = set(archive.namelist())

    assert [] == list(command.problems(wheel))
    assert "Project-URL: Issues, https://git.example/adk-store/issues\n" in metadata
    assert {"gcp_adk_store/py.typed", "gcp_adk_store/inspector/static/htmx.min.js"} <= names


def test_the_page_for_adks_catalogue_leads_to_the_repository() -> None:
    """Each link of it; in this clone the links stay within the documents."""
    page = (ROOT / "docs/integrations/adk-catalogue.md").read_text()
    links = re.findall(r"\]\((.*?)\)", page)
    found = re.findall(r"\]\((.*?)\)", catalogue_page(page, repository="https://git.example/adk-store/"))

    assert all((ROOT / "docs/integrations" / link).exists() for link in links)
    assert found == [
        f"https://git.example/adk-store/blob/main/docs/{link.removeprefix('../')}" for link in links
    ]
    assert "REPOSITORY" not in page


def test_the_trial_installs_the_versions_of_the_lock_file() -> None:
    """Without digests, and with the conditions under which each holds."""
    lock = """\
# made by a command
click==8.1.8 \\
    --hash=sha256:0 \\
    --hash=sha256:1
uvloop==0.23.0 ; sys_platform != 'win32' \\
    --hash=sha256:2
"""

    assert "click==8.1.8\nuvloop==0.23.0 ; sys_platform != 'win32'\n" == constraints(lock)


CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"
GOOD = """\
# Changelog

## [Unreleased]

## [0.2.0] - 2026-12-01

### Added

- A store.

### Fixed

- A fault,
  with more to say.

## [0.1.0] - 2026-11-22

### Added

- The first one.
"""


def refused(changelog: str, *, version: str = "0.2.0", tag: str | None = "v0.2.0") -> list[str]:
    """Return what keeps a changelog from being that of a release."""
    return list(problems(changelog, version=version, tag=tag))


def test_the_changelog_is_in_order() -> None:
    """As for a rehearsal of a release, in which changes may be unreleased."""
    assert [] == refused(CHANGELOG.read_text(), version=__version__, tag=None)


def test_a_good_changelog_can_be_released() -> None:
    """Its sections are those that it names, in their order."""
    assert [] == refused(GOOD)
    assert [UNRELEASED, "0.2.0", "0.1.0"] == [each.version for each in sections(GOOD)]
    assert {"Added": "- A store.", "Fixed": "- A fault,\n  with more to say."} == sections(GOOD)[1].groups


@pytest.mark.parametrize(
    ("change", "to", "says"),
    [
        ("## [Unreleased]\n\n", "", "must begin with a section [Unreleased]"),
        ("[0.2.0]", "[0.3.0]", "must have a section [0.2.0]"),
        ("2026-12-01", "December-1", "needs a date as YYYY-MM-DD"),
        (" - 2026-12-01", "", "needs a date as YYYY-MM-DD, and has none"),
        ("2026-12-01", "2026-11-01", "[0.2.0] stands before [0.1.0], which is younger"),
        ("### Fixed", "### Repaired", "has a group Repaired"),
        ("### Fixed", "### Removed\n\n### Fixed", "has a group Removed without an entry"),
        ("### Added\n\n- A store.", "### Security\n\n- A store.", "must have its groups in the order"),
        ("### Added\n\n- The first one.\n", "", "[0.1.0] has no group of entries"),
        ("## [Unreleased]\n", "## [Unreleased]\n\n### Added\n\n- More.\n", "move what is under [Unreleased]"),
    ],
)
def test_a_changelog_that_is_out_of_order_is_refused(change: str, to: str, says: str) -> None:
    """With the section, and what is wrong with it."""
    assert change in GOOD
    (message,) = refused(GOOD.replace(change, to, 1))

    assert says in message


def test_changes_may_be_unreleased_in_a_rehearsal() -> None:
    """CI builds every change as if it were released."""
    assert [] == refused(
        GOOD.replace("## [Unreleased]\n", "## [Unreleased]\n\n### Added\n\n- More.\n"), tag=None
    )


def test_a_tag_of_another_version_is_refused() -> None:
    """The message names the tag that would be right."""
    assert ["the tag is v0.1.0, and the package's version is 0.2.0: tag v0.2.0"] == refused(
        GOOD, tag="v0.1.0"
    )


def test_the_notes_of_a_release_are_its_section() -> None:
    """Without the heading, which the page of a release has already."""
    assert "### Added\n\n- The first one.\n" == notes(GOOD, "0.1.0")
