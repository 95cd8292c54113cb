"""The page about the runtime says what is so."""

import re

from tests.ces.guest import seed
from tests.ces.guest.runs import FIELDS, SETTINGS
from tests.support.documents import ROOT, blocks

PAGE = (ROOT / "docs/ces-runtime.md").read_text()


def section(title: str) -> str:
    """Return what the page has under *title*."""
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_its_example_runs() -> None:
    """With its own assertions."""
    code, _ = blocks("docs/ces-runtime.md", "python")
    exec(code, {"__name__": "page"})  # noqa: S102  # the page's own code is what is tested


def spelt(default: object) -> str:
    """Return how the page writes *default*."""
    if isinstance(default, bool):
        return f"`{default}`"
    return f"{default:,}" if isinstance(default, int) else "the platform's"


def test_its_settings_are_those_that_there_are() -> None:
    """Each in one row, in the order of the code, with its default."""
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", section("What we chose"), re.MULTILINE))

    assert list(rows) == list(SETTINGS)
    assert rows == {name: spelt(value) for name, value in SETTINGS.items()}


def test_it_names_every_class_and_every_field() -> None:
    """The version is named as such."""
    names = {*seed.CLASSES, *FIELDS} - {"version"}

    assert {name for name in names if f"`{name}`" not in PAGE} == set()
