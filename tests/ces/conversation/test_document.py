"""The page about conversations shows what runs."""

from pathlib import Path

import pytest

from gcp_adk_store.ces import ScriptedModel
from tests.ces.guest.runs import of_callbacks
from tests.support.documents import ROOT, blocks

PAGE = "docs/ces-conversations.md"


@pytest.mark.usefixtures("working_environment")
def test_its_example_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With its own assertions, in the sandbox, and on a folder."""
    monkeypatch.setenv("ADK_STORE_CES_ENVIRONMENT", str(ROOT / ".cache" / "ces"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    code, _ = blocks(PAGE, "python")

    exec(code, {"__name__": "page"})  # noqa: S102  # the page's own code is what is tested


def test_the_script_of_the_page_is_a_script(tmp_path: Path) -> None:
    """As is that of the sample."""
    (script,) = blocks(PAGE, "yaml")
    (tmp_path / "script.yaml").write_text(script)

    assert ScriptedModel.from_file(tmp_path / "script.yaml").requests == ()
    assert ScriptedModel.from_file(ROOT / "examples/ces/chat.yaml").requests == ()


@pytest.mark.parametrize(("said", "decision"), [("Your password?", "TRIGGER"), ("Hello", None)])
def test_the_guardrail_of_the_page_decides(said: str, decision: str | None) -> None:
    """As it stands there."""
    _, code = blocks(PAGE, "python")
    response = {"content": {"role": "model", "parts": [{"text": said}]}}
    answer = of_callbacks("after_model_guardrail", code, llm_response=response)

    assert answer["error"] is None
    assert (answer["result"] or {}).get("decision") == decision


@pytest.mark.parametrize(
    "code", ["CALLBACK_FAILED", "FAILED_PRECONDITION", "GUARDRAIL_TRIGGERED", "TURN_TOO_LONG"]
)
def test_it_names_the_codes_of_a_turn_that_failed(code: str) -> None:
    """Those that tests of turns, transfers and guardrails have."""
    assert f"`{code}`" in (ROOT / PAGE).read_text()
