"""Read the changelog, and say what is wrong with it; pure functions."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Final

GROUPS: Final = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
"""The groups of a section, in their order."""
UNRELEASED: Final = "Unreleased"
_SECTION: Final = re.compile(r"^## \[([^\]]+)\](?: - (\S+))?$", re.MULTILINE)
_GROUP: Final = re.compile(r"^### (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What changed with one version."""

    version: str
    """Its number, or :data:`UNRELEASED`."""
    date: str
    """When it was released, as it is written; empty if that is missing."""
    text: str
    """Its groups and their entries."""

    @property
    def groups(self) -> dict[str, str]:
        """The entries of each group, in the order of the changelog."""
        _, *parts = _GROUP.split(self.text)
        return {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}


def sections(changelog: str) -> list[Section]:
    """Return the sections of a changelog, in its order."""
    _, *parts = _SECTION.split(changelog)
    return [
        Section(version=version, date=day or "", text=text.strip())
        for version, day, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    ]


def problems(changelog: str, *, version: str, tag: str | None) -> Iterator[str]:
    """Yield what keeps a changelog from being that of a release.

    Args:
        changelog: Its text.
        version: The version of the package.
        tag: The tag of the release; ``None`` for a rehearsal, in which changes may still be unreleased.
    """
    found = sections(changelog)
    if not found or found[0].version != UNRELEASED:
        yield f"CHANGELOG.md must begin with a section [{UNRELEASED}]"
        return
    unreleased, *released = found
    if version not in [each.version for each in released[:1]]:
        yield f"CHANGELOG.md must have a section [{version}], the package's version, after [{UNRELEASED}]"
    if tag is not None and tag != f"v{version}":
        yield f"the tag is {tag}, and the package's version is {version}: tag v{version}"
    if tag is not None and unreleased.text:
        yield f"move what is under [{UNRELEASED}] to the section of {version}"
    yield from _of_dates(released)
    for section in found:
        yield from _of_groups(section)


def _of_dates(released: list[Section]) -> Iterator[str]:
    """Yield the sections without a date, and those that are out of order."""
    for section in released:
        if not _is_date(section.date):
            yield f"[{section.version}] needs a date as YYYY-MM-DD, and has {section.date or 'none'}"
        if not section.groups:
            yield f"[{section.version}] has no group of entries"
    for newer, older in pairwise(released):
        if _is_date(newer.date) and newer.date < older.date:
            yield f"[{newer.version}] stands before [{older.version}], which is younger"


def _of_groups(section: Section) -> Iterator[str]:
    """Yield what is wrong with the groups of a section."""
    names = [name for name in section.groups if name in GROUPS]
    for name, entries in section.groups.items():
        if name not in GROUPS:
            yield f"[{section.version}] has a group {name}; the groups are {', '.join(GROUPS)}"
        if not re.search(r"^- ", entries, re.MULTILINE):
            yield f"[{section.version}] has a group {name} without an entry"
    if names != sorted(names, key=GROUPS.index):
        yield f"[{section.version}] must have its groups in the order {', '.join(GROUPS)}"


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def notes(changelog: str, version: str) -> str:
    """Return what a release says of itself: the section of its *version*.

    Raises:
        KeyError: the changelog has no such section.
    """
    return {each.version: each.text for each in sections(changelog)}[version] + "\n"
