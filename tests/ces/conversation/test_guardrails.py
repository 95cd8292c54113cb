"""Guardrails stop a turn before and after agents and models, and act in place of the agent."""

from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store import InvalidInputError
from gcp_adk_store.ces import AgentApp, ScriptedModel, lint_app, read_app
from tests.ces.conversation.apps import change, write_app, write_files
from tests.ces.conversation.conftest import Converse

ALL = ("before_agent", "after_agent", "before_model", "after_model")
SAYS_NO = {"respondImmediately": {"responses": [{"text": "off", "disabled": True}, {"text": "I cannot."}]}}
SUBJECT = {"before_model": ", llm_request: LlmRequest", "after_model": ", llm_response: LlmResponse"}
CODE = {
    kind: (
        f"def {kind}_guardrail_callback(callback_context: CallbackContext{SUBJECT.get(kind, '')})"
        " -> GuardrailResult:"
    )
    for kind in ALL
}
SEEN = {
    "before_agent": "callback_context.get_last_user_input()[0].text",
    "after_agent": "callback_context.get_last_agent_output()[0].text",
    "before_model": "llm_request.contents[-1].parts[0].text",
    "after_model": "str(llm_response.content.parts[0].text)",
}
NOTE = "set_variable('trace', [*get_variable('trace'), '{}'])"


def guarded(
    folder: Path,
    kinds: tuple[str, ...],
    action: dict[str, Any] | None = None,
    *,
    enabled: bool = True,
    of_agent: bool = False,
) -> AgentApp:
    """Return an app with a guardrail that triggers at the word bad, and callbacks that say when they run."""
    declared, files = {}, dict[str, Any]()
    for kind in kinds:
        code = f"guardrails/words/{kind}_callback/python_code.py"
        files[code] = (
            f"{CODE[kind]}\n    {NOTE.format('guard ' + kind)}\n"
            f"    if 'bad' in {SEEN[kind]}:\n"
            "        return create_guardrail_result(decision='TRIGGER', reason='a bad word')\n"
            "    return create_guardrail_result(decision='OK')\n"
        )
        first, second = kind.split("_")
        declared[f"{first}{second.capitalize()}Callback"] = {"pythonCode": code}
    config = {"displayName": "Words", "enabled": enabled, "codeCallback": declared, "action": action or {}}
    write_files(folder, {**files, "guardrails/words/words.json": config})
    guards = {"guardrails": ["Words"]}
    root = {"childAgents": ["billing"], "callbacks": {kind: [NOTE.format(kind)] for kind in ALL}}
    agents = {"root": {**root, **(guards if of_agent else {})}, "billing": {}}
    write_app(folder, agents, variables={"trace": []})
    if not of_agent:
        change(folder / "app.json", **guards)
    read = read_app(folder)
    assert not read.problems
    return read


async def test_guardrails_run_before_the_agents_callbacks(converse: Converse) -> None:
    """Each kind before the callbacks of its kind; one that is content changes nothing."""
    app = guarded(converse.new_folder(), ALL)
    turn = await converse(app, ["Hello."]).say("Hi")

    assert (turn.text, turn.error) == ("Hello.", None)
    assert turn.variables["trace"] == [
        *("guard before_agent", "before_agent", "guard before_model", "before_model"),
        *("guard after_model", "after_model", "guard after_agent", "after_agent"),
    ]
    assert [each for each in lint_app(app) if each.path.startswith("guardrails/")] == []


@pytest.mark.parametrize(
    ("kind", "said", "replies", "trace"),
    [
        ("before_agent", "bad", [], ["guard before_agent"]),
        ("before_model", "bad", [], ["before_agent", "guard before_model"]),
        ("after_model", "Hi", ["bad"], ["before_agent", "before_model", "guard after_model"]),
        ("after_agent", "Hi", ["bad"], ["before_agent", "before_model", "after_model", "guard after_agent"]),
    ],
)
async def test_a_guardrail_answers_in_place_of_the_agent(
    converse: Converse, kind: str, said: str, replies: list[str], trace: list[str]
) -> None:
    """With its first response that is not disabled; nothing of the agent runs or is said after it."""
    model = ScriptedModel(replies)
    conversation = converse(guarded(converse.new_folder(), (kind,), SAYS_NO), model=model)

    turn = await conversation.say(said)

    assert (turn.text, turn.error, turn.ended) == ("I cannot.", None, False)
    assert turn.variables["trace"] == trace
    assert len(model.requests) == len(replies)


async def test_a_guardrail_acts_as_its_configuration_says(converse: Converse) -> None:
    """The other agent begins in the same turn, or a model answers by its own prompt.

    It has neither the agent's instruction and tools, nor the answer that was stopped. If it fails, the app
    says what follows, as if the agent's own fails. Without an action the turn ends with an error that has the
    reason.
    """
    action = {"transferAgent": {"agent": "projects/p/locations/us/apps/a/agents/billing"}}
    turn = await converse(
        guarded(converse.new_folder(), ("after_model",), action, of_agent=True), ["bad", "Billing."]
    ).say("Hi")

    assert (turn.text, turn.agent) == ("Billing.", "billing")

    model = ScriptedModel(["bad", "Let us talk about bills."])
    action = {"generativeAnswer": {"prompt": "Decline politely."}}
    turn = await converse(guarded(converse.new_folder(), ("after_model",), action), model=model).say("Hi")

    assert turn.text == "Let us talk about bills."
    config = model.requests[1].config
    assert "Decline politely." in str(config.system_instruction)
    assert not config.tools
    assert [content.role for content in model.requests[1].contents] == ["user"]

    guarded(converse.new_folder(), ("after_model",), {"generativeAnswer": {"prompt": "Decline politely."}})
    handling = {
        "errorHandlingStrategy": "FALLBACK_RESPONSE",
        "fallbackResponseConfig": {"customFallbackMessages": {"en": "Sorry."}},
    }
    change(converse.folder / "app.json", errorHandlingSettings=handling)
    app = read_app(converse.folder)
    blocked = {"content": {"role": "model", "parts": []}, "error_code": "SAFETY", "error_message": "no"}
    turn = await converse(app, ["bad", blocked]).say("Hi")

    assert (turn.text, turn.error) == ("Sorry.", "SAFETY: no")

    turn = await converse(guarded(converse.new_folder(), ("before_agent",))).say("bad")

    assert turn.error == "GUARDRAIL_TRIGGERED: Words: a bad word"


async def test_guardrails_guard_the_agents_that_have_them(converse: Converse) -> None:
    """Those of the app guard all; one that is not enabled guards none."""
    to_billing = {"calls": [{"name": "transfer_to_agent", "args": {"agent_name": "billing"}}]}
    options_of_each: tuple[dict[str, Any], ...] = ({}, {"of_agent": True}, {"enabled": False})
    texts = []
    for number, options in enumerate(options_of_each):
        app = guarded(converse.folder / str(number), ("after_model",), SAYS_NO, **options)
        conversation = converse(app, [to_billing, "bad"])
        texts.append((await conversation.send("Hi", await conversation.begin())).text)

    assert texts == ["I cannot.", "bad", "bad"]


@pytest.mark.parametrize("kind", ["before_agent", "after_agent"])
async def test_code_of_a_guardrail_that_fails_ends_the_turn(converse: Converse, kind: str) -> None:
    """What guards must not be passed by its own failure: an answer that it should judge is not said."""
    app = guarded(converse.new_folder(), (kind,), SAYS_NO)
    (app.callbacks[-1].path).write_text(f"def {kind}_guardrail_callback(callback_context):\n    1 / 0\n")
    turn = await converse(app, ["Hello."]).say("Hi")

    assert (
        turn.error == f"CALLBACK_FAILED: {kind} of the guardrail Words: ZeroDivisionError: division by zero"
    )
    assert turn.text == ""


def test_lint_reads_the_code_of_guardrails(tmp_path: Path) -> None:
    """With their names, which other code does not have; a file that is missing is named."""
    app = guarded(tmp_path, ("before_agent", "after_model"))
    before, after = (each.path for each in app.callbacks[-2:])
    before.write_text("def other(callback_context: CallbackContext) -> GuardrailResult:\n    return 1\n")
    after.unlink()

    found = [(each.code, each.path) for each in lint_app(read_app(tmp_path))]

    assert ("CES101", str(before.relative_to(tmp_path))) in found
    assert ("CES001", str(after.relative_to(tmp_path))) in found
    with pytest.raises(InvalidInputError, match="no toolset"):
        read_app(tmp_path, servers={"x": "https://a.test"})
