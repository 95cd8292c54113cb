"""Guardrails stop a turn before and after agents and models; an app that lacks one, or else, does not run."""

from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store import InvalidInputError
from gcp_adk_store.ces import AgentApp, AppAgent, ScriptedModel, lint_app, read_app
from tests.ces.conversation.apps import ces, change, write_app, write_files
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


WORDS = "guardrails/words/before_agent.py"


def sound(folder: Path) -> Path:
    """Return the folder of an app with a callback and a guardrail, and without problems."""
    write_app(folder, {"root": {"callbacks": {"before_agent": ["return None"]}}, "other": {}})
    code = (
        "def before_agent_guardrail_callback(callback_context):\n"
        "    return create_guardrail_result(decision='OK')\n"
    )
    declared = {"codeCallback": {"beforeAgentCallback": {"pythonCode": WORDS}}}
    write_files(folder, {WORDS: code, "guardrails/words/words.json": declared})
    change(folder / "app.json", guardrails=["words"])
    assert not read_app(folder).problems
    return folder


APP, ROOT_AGENT, GUARDRAIL = "app.json", "agents/root/root.json", "guardrails/words/words.json"


def rules(**changed: Any) -> dict[str, Any]:
    """Return a transfer rule with changes as the root has it; a value of None takes a member out."""
    condition = {"expressionCondition": {"expression": "true"}}
    rule = {"childAgent": "other", "direction": "PARENT_TO_CHILD", "disablePlannerTransfer": condition}
    rule = {name: value for name, value in {**rule, **changed}.items() if value is not None}
    return {"transferRules": [rule]}


PROBLEMS: dict[str, tuple[str, dict[str, Any] | None, str]] = {
    "the code of a guardrail": (WORDS, None, "CES001"),
    "the configuration of a guardrail": (GUARDRAIL, None, "CES001"),
    "a guardrail of the app": (APP, {"guardrails": ["words", "gone"]}, "CES602"),
    "guardrails that are no names": (APP, {"guardrails": [{"name": "words"}]}, "CES602"),
    "guardrails that are no list": (APP, {"guardrails": "gone"}, "CES602"),
    "a guardrail of an agent": (ROOT_AGENT, {"guardrails": ["gone"]}, "CES602"),
    "the root agent": (APP, {"rootAgent": "gone"}, "CES602"),
    "the agent of a guardrail": (GUARDRAIL, {"action": {"transferAgent": {"agent": "gone"}}}, "CES602"),
    "a callback": (ROOT_AGENT, {"beforeAgentCallbacks": [{"pythonCode": "gone.py"}]}, "CES001"),
    "callbacks that are no list": (ROOT_AGENT, {"beforeAgentCallbacks": "gone.py"}, "CES001"),
    "a callback of a guardrail that is a path": (
        GUARDRAIL,
        {"codeCallback": {"beforeAgentCallback": WORDS}},
        "CES001",
    ),
    "a callback of a guardrail of another kind": (
        GUARDRAIL,
        {"codeCallback": {"beforeToolCallback": {"pythonCode": WORDS}}},
        "CES001",
    ),
    "code of a guardrail that is no object": (GUARDRAIL, {"codeCallback": WORDS}, "CES001"),
    "the direction of a transfer rule": (ROOT_AGENT, rules(direction=None), "CES001"),
    "a direction that is not known": (ROOT_AGENT, rules(direction="PARENT_TO_CHILDREN"), "CES001"),
    "a direction that is a list": (ROOT_AGENT, rules(direction=["PARENT_TO_CHILD"]), "CES001"),
    "the child of a transfer rule": (ROOT_AGENT, rules(childAgent=None), "CES001"),
    "the condition of a transfer rule": (
        ROOT_AGENT,
        rules(disablePlannerTransfer={"eventCondition": {}}),
        "CES001",
    ),
    "transfer rules that are no list": (ROOT_AGENT, {"transferRules": "other"}, "CES001"),
}


@pytest.mark.parametrize("missing", PROBLEMS)
def test_an_app_that_lacks_what_it_names_does_not_run(tmp_path: Path, missing: str) -> None:
    """A guard would be skipped, or another agent would begin."""
    path, members, code = PROBLEMS[missing]
    folder = sound(tmp_path)
    if members is None:
        (folder / path).unlink()
    else:
        change(folder / path, **members)
    app = read_app(folder)

    assert [code] == [each.code for each in app.problems]
    with pytest.raises(InvalidInputError, match=r"1 problems; the first is .*\. Correct them, or pass"):
        AppAgent(app, model="gemini-2.5-flash")


async def test_an_app_with_problems_runs_where_the_caller_allows_it(converse: Converse) -> None:
    """Without what it lacks, by its own choice. A guard is left out for ``true`` alone, and for no text."""
    folder = sound(converse.new_folder())
    (folder / WORDS).unlink()
    app = read_app(folder)

    with pytest.raises(InvalidInputError, match="allow_problems=True"):
        converse(app)
    conversation = converse(app, ["Hello."], allow_problems=True)

    assert "Hello." == (await conversation.send("Hi", await conversation.begin())).text

    folder = sound(converse.new_folder())
    fields = {"pythonCode": WORDS, "disabled": "false"}
    change(folder / GUARDRAIL, codeCallback={"beforeAgentCallback": fields})
    change(folder / "agents/root/root.json", beforeAgentCallbacks=[fields])

    for wrong in (5, "app"):
        with pytest.raises(InvalidInputError, match=f"folder must be a Path, not {type(wrong).__name__}"):
            read_app(wrong)  # type: ignore[arg-type]
    assert [False, False] == [each.disabled for each in read_app(folder).callbacks]


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["eval", "test", "chat"])
def test_the_commands_end_with_2_where_an_app_has_problems(tmp_path: Path, name: str) -> None:
    """They name each; --allow-problems runs the app without what it lacks."""
    folder = sound(tmp_path / "app")
    change(folder / "app.json", guardrails=["gone"])
    script = tmp_path / "script.yaml"
    script.write_text("[Hello.]")
    test = "import python_code\ndef test_a():\n    assert python_code.before_agent_callback(None) is None\n"
    golden = {"conversations": [{"conversation": "a", "user": "Hi", "agent": "Hello."}]}
    files = {"evals/goldens/a.yaml": golden, "agents/root/before_agent_callbacks/00/test_a.py": test}
    write_files(folder, files)
    words = (name, folder, "--sandbox", "inprocess", *(() if name == "test" else ("--script", script)))

    refused, allowed = (ces(*words, *more, says="Hi\n") for more in ((), ("--allow-problems",)))

    assert 2 == refused.exit_code, refused.output
    assert "" == refused.stdout
    assert f"{folder}/app.json:1: the guardrail 'gone' is not in the app; it has: words" in refused.stderr
    assert "add --allow-problems" in refused.stderr
    assert 0 == allowed.exit_code, allowed.output
    assert "the guardrail 'gone' is not in the app" in allowed.stderr
