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
    """As is that of the sample. The page names the codes of a turn that failed, which other tests have."""
    (script,) = blocks(PAGE, "yaml")
    (tmp_path / "script.yaml").write_text(script)

    for path in (tmp_path / "script.yaml", ROOT / "examples/ces/chat.yaml"):
        assert ScriptedModel.from_file(path).requests == ()
    for code in ("CALLBACK_FAILED", "FAILED_PRECONDITION", "GUARDRAIL_TRIGGERED", "TURN_TOO_LONG"):
        assert f"`{code}`" in (ROOT / PAGE).read_text()


@pytest.mark.parametrize(("said", "decision"), [("Your password?", "TRIGGER"), ("Hello", None)])
def test_the_guardrail_of_the_page_decides(said: str, decision: str | None) -> None:
    """As it stands there."""
    _, code = blocks(PAGE, "python")
    response = {"content": {"role": "model", "parts": [{"text": said}]}}
    answer = of_callbacks("after_model_guardrail", code, llm_response=response)

    assert answer["error"] is None
    assert (answer["result"] or {}).get("decision") == decision
