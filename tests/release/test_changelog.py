"""The changelog is in order, and a release is refused until it says what is released."""

from pathlib import Path

import pytest

from gcp_adk_store import __version__
from tools.release.changelog import UNRELEASED, notes, problems, sections

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
