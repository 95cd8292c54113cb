"""The page about the runtime says what is so of running."""

import dataclasses
import re

import pytest

from gcp_adk_store.ces import RuntimeSettings
from tests.support.documents import ROOT, blocks

PAGE = (ROOT / "docs/ces-runtime.md").read_text().split("\n## Running\n")[1].split("\n## ")[0]


@pytest.mark.usefixtures("bubblewrap", "firestore_emulator")
def test_its_example_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its own assertions, in the sandbox and on Firestore."""
    monkeypatch.setenv("ADK_STORE_CES_ENVIRONMENT", str(ROOT / ".cache" / "ces"))
    _, code = blocks("docs/ces-runtime.md", "python")

    exec(code, {"__name__": "page"})  # noqa: S102  # the page's own code is what is tested


def test_its_settings_are_those_that_there_are() -> None:
    """Each in one row, in the order of the code, with its default."""
    rows = dict(
        re.findall(r"^\| `(\w+)` \| (.*?) \|", PAGE.split("### Settings of a runtime")[1], re.MULTILINE)
    )
    settings = RuntimeSettings()
    spelt = {"guest": "`RunSettings()`"}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        is_number = isinstance(value, int) and not isinstance(value, bool)
        spelt.setdefault(field.name, str(value) if is_number else f"`{value}`")

    assert list(rows) == [field.name for field in dataclasses.fields(settings)]
    assert rows == spelt
