"""The page about the runtime says what is so."""

from tests.ces.guest import seed
from tests.ces.guest.runs import FIELDS
from tests.support.documents import ROOT, blocks

PAGE = (ROOT / "docs/ces-runtime.md").read_text()


def test_its_example_runs() -> None:
    """With its own assertions."""
    code, _ = blocks("docs/ces-runtime.md", "python")
    exec(code, {"__name__": "page"})  # noqa: S102  # the page's own code is what is tested


def test_it_names_every_class_and_every_field() -> None:
    """Those of a request and of an answer."""
    names = {*seed.CLASSES, *FIELDS}

    assert {name for name in names if f"`{name}`" not in PAGE} == set()
