"""Commands run the guardrails of apps, and call their toolsets with credentials that nothing shows."""

import json
from pathlib import Path

import pytest

from tests.ces.conversation.apps import ces, write_app, write_files
from tests.ces.conversation.test_toolsets import KEY, write
from tests.ces.host.web import serving

CODE = """def before_agent_guardrail_callback(callback_context: CallbackContext) -> GuardrailResult:
    said = callback_context.get_last_user_input()[0].text
    return create_guardrail_result(decision="TRIGGER" if "bad" in said else "OK", reason="a word")
"""
TEST = """import python_code


def test_it_triggers(ces_callback):
    assert ces_callback(said="bad").override == {"decision": "TRIGGER", "reason": "a word"}
    assert ces_callback(said="good").override is None


def test_its_names_are_there():
    assert python_code.create_guardrail_result().decision == "OK"
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """The code of a guardrail in an app, and its test."""
    path = "guardrails/words/before_agent_callback/python_code.py"
    declared = {"codeCallback": {"beforeAgentCallback": {"pythonCode": path}}}
    files = {path: CODE, path.replace("python_code", "test"): TEST, "app.json": {}}
    return write_files(tmp_path, {**files, "guardrails/words/words.json": declared}) / path


def test_a_guardrail_is_run_on_a_message(code: Path) -> None:
    """Its result is the override, if it triggers."""
    decided = []
    for said in ("bad", "good"):
        line = ("run-callback", "before_agent_guardrail", code, "--said", said)
        result = ces(*line, "--sandbox", "inprocess", "--json")
        decided.append(json.loads(result.stdout)["override"])

    assert decided == [{"decision": "TRIGGER", "reason": "a word"}, None]


@pytest.mark.long
def test_the_test_of_a_guardrail_is_run(code: Path) -> None:
    """As that of an agent's callback."""
    result = ces("test", code.parents[3], "--sandbox", "inprocess", "--json")

    assert [each["status"] for each in json.loads(result.stdout)] == ["passed", "passed"], result.output


def test_a_guardrail_that_does_not_run_here_is_named(tmp_path: Path) -> None:
    """Nobody takes the conversation for a guarded one; one that is not enabled is of no interest."""
    app = write_app(tmp_path, {"root": {}}).folder
    for name, enabled in (("Words", True), ("Off", False)):
        config = {"enabled": enabled, "contentFilter": {"bannedContents": ["bad"]}}
        write_files(app, {f"guardrails/{name}/{name}.json": config})
    (tmp_path / "script.yaml").write_text("[Hello.]")
    script = ("--script", tmp_path / "script.yaml")

    result = ces("chat", app, "--sandbox", "inprocess", *script, says="bad\n")

    assert (result.exit_code, result.stdout) == (0, "root: Hello.\n")
    assert result.stderr.startswith("the guardrail Words has no code, and does not run here\n")
    assert "Off" not in result.stderr


ASKS = "def ask() -> dict:\n    return tools.Bank_read({'note': 'hi'}).json()\n"


def test_a_toolset_is_called_where_an_option_says(tmp_path: Path) -> None:
    """With the key of an environment variable, and the session's values."""
    app = write(tmp_path, authentication=KEY)
    (tmp_path / "ask.py").write_text(ASKS)
    with serving() as web:
        toolset = ("--server", f"Bank={web.url}/v1", "--credential", "Bank=BANK_KEY")
        given = ("--allow-host", web.url[7:], "--variables", '{"token": "t", "tier": 1}', "--json")
        line = ("run-tool", tmp_path / "ask.py", "--tools", app, "--sandbox", "inprocess")
        result = ces(*line, *toolset, *given, BANK_KEY="secret-key")
        asked = web.last

    assert result.exit_code == 0, result.output
    assert "secret-key" not in result.output
    assert (asked.method, asked.headers["x-api-key"], asked.headers["x-token"]) == ("POST", "secret-key", "t")
    assert asked.path.startswith("/v1/sessions/")
    assert json.loads(asked.body) == {"note": "hi", "tier": 1}
