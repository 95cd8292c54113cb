"""The pages about agent apps show what runs, and say what is so."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store import Store
from gcp_adk_store.ces import RuntimeSettings, ScriptedModel
from gcp_adk_store.ces.apps.findings import ERRORS, WARNINGS
from gcp_adk_store.ces.guest.contract import IMPORTABLE, RunSettings
from gcp_adk_store.ces.sandbox import Sandbox
from gcp_adk_store.ces.testing.evaluations import read_evaluations
from gcp_adk_store.ces.testing.matching import MATCH_TYPES
from gcp_adk_store.ces.testing.tool_tests import read_tool_tests
from gcp_adk_store.ces.testing.turn_checks import TYPES
from tests.ces.guest import seed
from tests.ces.guest.runs import FIELDS, of_callbacks
from tests.support.documents import ROOT, blocks, names_of

RUNTIME, CONVERSATIONS = "docs/ces-runtime.md", "docs/ces-conversations.md"
COMMANDS, EVALUATIONS = "docs/ces-commands.md", "docs/ces-evaluations.md"
SPELT = {str(IMPORTABLE): "the platform's", str(RunSettings()): "RunSettings()"}
CODES = ("CALLBACK_FAILED", "FAILED_PRECONDITION", "GUARDRAIL_TRIGGERED", "TURN_TOO_LONG")


@pytest.mark.usefixtures("ces_environment", "firestore_emulator")
@pytest.mark.parametrize(("page", "place"), [(RUNTIME, 0), (RUNTIME, 1), (CONVERSATIONS, 0)])
def test_an_example_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, page: str, place: int) -> None:
    """With its own assertions, in the sandbox, on Firestore and in a folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")

    names_of(page, place)


@pytest.mark.usefixtures("ces_environment")
def test_the_example_of_a_test_passes(adk_store: Store, ces_sandbox: Sandbox) -> None:
    """The last of docs/testing.md."""
    names: dict[str, Any] = {}
    exec(blocks("docs/testing.md", "python")[-1], names)  # noqa: S102  # the page's own
    names["test_a_tool_greets"](adk_store, ces_sandbox)


@pytest.mark.parametrize(
    ("page", "names"),
    [
        (RUNTIME, {*seed.CLASSES, *FIELDS}),
        (EVALUATIONS, {*TYPES, *MATCH_TYPES}),
        (CONVERSATIONS, CODES),
    ],
)
def test_a_page_names_all_that_there_is(page: str, names: set[str]) -> None:
    """Classes and fields of requests, kinds of expectations, and codes of turns that failed."""
    text = (ROOT / page).read_text()

    assert {name for name in names if f"`{name}`" not in text} == set()


@pytest.mark.parametrize(
    ("title", "settings"),
    [("## What we chose", RunSettings()), ("### Settings of a runtime", RuntimeSettings())],
)
def test_the_settings_of_the_page_are_those_that_there_are(title: str, settings: Any) -> None:
    """Each in one row, in the order of the code, with its default."""
    section = (ROOT / RUNTIME).read_text().split(f"\n{title}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| `?(.*?)`? \|", section, re.MULTILINE)
    defaults = {each.name: str(getattr(settings, each.name)) for each in dataclasses.fields(settings)}

    assert [(name, default.replace(",", "")) for name, default in rows] == [
        (name, SPELT.get(default, default)) for name, default in defaults.items()
    ]


def test_the_page_lists_every_rule() -> None:
    """With its severity; no code has two."""
    listed = re.findall(r"^\| `(CES\d{3})` \| (\w+) \| ", (ROOT / COMMANDS).read_text(), re.MULTILINE)
    rules = [*((code, "error") for code in ERRORS), *((code, "warning") for code in WARNINGS)]

    assert sorted(rules) == listed


def test_scripts_evaluations_and_tests_of_the_pages_are_read(tmp_path: Path) -> None:
    """As they stand there, and that of the sample."""
    files = [*blocks(CONVERSATIONS, "yaml"), *blocks(COMMANDS, "yaml"), *blocks(EVALUATIONS, "yaml")]
    script, tests, golden, turns = (tmp_path / f"{number}.yaml" for number in range(len(files)))
    for path, text in zip((script, tests, golden, turns), files, strict=True):
        path.write_text(text)

    for path in (script, ROOT / "examples/ces/chat.yaml"):
        assert ScriptedModel.from_file(path).requests == ()
    assert [each.subject for each in read_tool_tests(tests)] == ["arrange_payment"]
    read = [read_evaluations(path)[0].name for path in (golden, turns)]
    assert read == ["an order is looked up", "it hands over"]


@pytest.mark.parametrize(("said", "decision"), [("Your password?", "TRIGGER"), ("Hello", None)])
def test_the_guardrail_of_the_page_decides(said: str, decision: str | None) -> None:
    """As it stands there."""
    _, code = blocks(CONVERSATIONS, "python")
    response = {"content": {"role": "model", "parts": [{"text": said}]}}
    answer = of_callbacks("after_model_guardrail", code, llm_response=response)

    assert answer["error"] is None
    assert (answer["result"] or {}).get("decision") == decision
