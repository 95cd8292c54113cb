"""The page about the runtime says what is so of running."""

import dataclasses
import re
from typing import Any

import pytest

from gcp_adk_store.ces import RuntimeSettings
from gcp_adk_store.ces.guest.contract import IMPORTABLE, RunSettings
from tests.support.documents import ROOT, blocks

PAGE = (ROOT / "docs/ces-runtime.md").read_text()
SPELT = {str(IMPORTABLE): "the platform's", str(RunSettings()): "RunSettings()"}


@pytest.mark.usefixtures("bubblewrap", "firestore_emulator")
def test_its_example_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its own assertions, in the sandbox and on Firestore."""
    monkeypatch.setenv("ADK_STORE_CES_ENVIRONMENT", str(ROOT / ".cache" / "ces"))
    _, code = blocks("docs/ces-runtime.md", "python")

    exec(code, {"__name__": "page"})  # noqa: S102  # the page's own code is what is tested


@pytest.mark.parametrize(
    ("title", "settings"),
    [("## What we chose", RunSettings()), ("### Settings of a runtime", RuntimeSettings())],
)
def test_its_settings_are_those_that_there_are(title: str, settings: Any) -> None:
    """Each in one row, in the order of the code, with its default."""
    section = PAGE.split(f"\n{title}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| `?(.*?)`? \|", section, re.MULTILINE)
    defaults = {each.name: str(getattr(settings, each.name)) for each in dataclasses.fields(settings)}

    assert [(name, default.replace(",", "")) for name, default in rows] == [
        (name, SPELT.get(default, default)) for name, default in defaults.items()
    ]
