"""Callbacks run in order, change what they get and override; code of guardrails decides on a turn."""

from typing import Any

import pytest

from tests.ces.callbacks import callback
from tests.ces.guest.runs import UNCHANGED, of_callbacks, of_tool

LLM_REQUEST = {"model": "gemini", "contents": [{"role": "user", "parts": [{"text": "hi"}]}], "config": {}}
LLM_RESPONSE = {"content": {"role": "model", "parts": [{"text": "hello"}]}}
TOOL = {"tool": {"name": "look_up", "description": "Looks up."}, "args": {"id": 7}}

GIVEN: dict[str, dict[str, Any]] = {
    "before_agent": {},
    "after_agent": {},
    "before_model": {"llm_request": LLM_REQUEST},
    "after_model": {"llm_response": LLM_RESPONSE},
    "before_tool": TOOL,
    "after_tool": {**TOOL, "tool_response": {"result": 1}},
}

CONTENT = "Content(parts=[Part.from_agent_transfer('billing')], role='model')"
RESPONSE = "LlmResponse.from_parts([Part.from_text('instead')])"


@pytest.mark.parametrize(
    ("kind", "expression", "message"),
    [
        ("before_agent", RESPONSE, "before_agent_callback returned LlmResponse, not Content or None"),
        ("before_model", CONTENT, "before_model_callback returned Content, not LlmResponse or None"),
        ("after_model", "False", "after_model_callback returned bool, not LlmResponse or None"),
        ("after_tool", "'text'", "after_tool_callback returned str, not dict or None"),
    ],
)
def test_what_a_kind_does_not_allow_is_an_error(kind: str, expression: str, message: str) -> None:
    """Which names what it does."""
    error = of_callbacks(kind, callback(kind, f"return {expression}"), **GIVEN[kind])["error"]

    assert (error["type"], error["message"]) == ("CallbackResultError", message)


@pytest.mark.parametrize(
    ("kind", "statement", "kind_of_error"),
    [
        ("after_model", "llm_response.content.parts = ['text']", "CallbackResultError"),
        ("after_model", "llm_response.content.parts[0].text = 5", "CallbackResultError"),
        ("before_tool", "input['when'] = object()", "NotJsonError"),
        ("after_model", "llm_response.content.parts.append(llm_response.content)", "CallbackResultError"),
        ("after_model", "llm_response.content.parts[0].function_call = llm_response", "CallbackResultError"),
        ("after_model", "llm_response.content.parts[:] = [None]", "CallbackResultError"),
        ("after_model", "llm_response.content = None; del llm_response.content", "AttributeError"),
        ("before_tool", "input['self'] = input", "NotJsonError"),
    ],
)
def test_a_change_that_cannot_travel_is_an_error(kind: str, statement: str, kind_of_error: str) -> None:
    """And the variables stay as they were."""
    answer = of_callbacks(kind, callback(kind, "callback_context.state['a'] = 1", statement), **GIVEN[kind])

    assert answer["error"]["type"] == kind_of_error
    assert answer["state_delta"] == UNCHANGED


def test_callbacks_share_variables_and_nothing_else() -> None:
    """Variables go from one to the next. Tool callbacks know the call; the others are about no tool."""
    answer = of_callbacks(
        "before_agent",
        "count = 1\n" + callback("before_agent", "callback_context.state['n'] += count"),
        callback(
            "before_agent", "set_variable('n', get_variable('n') + (5 if 'count' in globals() else 10))"
        ),
        state={"n": 0},
    )

    assert answer["state_delta"] == {"changed": {"n": 11}, "removed": []}

    known = "getattr(context, 'function_call_id', '-')"
    same = f"print(context is callback_context, type(context).__name__, {known})"
    answer = {
        kind: of_callbacks(kind, callback(kind, same), **given, context={"functionCallId": "f"})["stdout"]
        for kind, given in GIVEN.items()
    }

    assert answer == {
        kind: "True ToolContext f\n" if kind.endswith("_tool") else "True CallbackContext -\n"
        for kind in GIVEN
    }


def test_an_instruction_that_was_set_to_a_text_is_a_content() -> None:
    """As where one is read; what changes before an override is reported beside it."""
    changes = callback("before_model", "llm_request.config.system_instruction = 'Be.'", f"return {RESPONSE}")
    answer = of_callbacks("before_model", changes, llm_request=LLM_REQUEST)

    assert answer["changed"]["llm_request"]["config"] == {"systemInstruction": {"parts": [{"text": "Be."}]}}
    assert answer["result"]["content"]["parts"] == [{"text": "instead"}]


def test_a_callback_has_the_name_of_its_kind() -> None:
    """Helpers may have any; without it, or as an ``async def``, or with other parameters, it is an error."""
    right = of_callbacks(
        "before_agent", "def greet():\n    print('hi')\n\n" + callback("before_agent", "greet()")
    )
    errors = [
        of_callbacks("before_agent", code)["error"]
        for code in (
            "def greet(callback_context):\n    return None",
            "async " + callback("before_agent", "set_variable('a', 1)"),
            "def before_agent_callback(ctx):\n    return None",
        )
    ]

    assert right["stdout"] == "hi\n"
    assert [each["type"] for each in errors] == ["EntryPointError", "EntryPointError", "TypeError"]
    assert "callback_context" in errors[2]["message"]


def test_callbacks_call_tools() -> None:
    """As tools do; an unknown one in any of them fails before the first is run."""
    known = of_callbacks(
        "before_agent", callback("before_agent", "print(tools.look_up({'id': 1}).json())"), tools=["look_up"]
    )
    unknown = of_callbacks(
        "before_agent", callback("before_agent", "print('ran')"), callback("before_agent", "tools.nope({})")
    )

    assert known["stdout"] == "{'result': {'id': 1}}\n"
    assert (unknown["stdout"], unknown["error"]["type"]) == ("", "UnknownToolError")
    assert 'File "before_agent_2.py", line 2' in unknown["error"]["traceback"]


def test_a_callback_that_reads_a_raw_response_gets_its_result() -> None:
    """What it changes in place is beside that."""
    statements = (
        "found = tool_response.get('status')",
        "tool_response['seen'] = 'absent' not in tool_response and 'status' in tool_response.get('result')",
        "return None if found is None else {'found': found}",
    )
    result = {"status": "open", "result": 1}
    given = {**TOOL, "tool_response": {"result": result}}
    answer = of_callbacks("after_tool", callback("after_tool", *statements), **given)

    assert answer["result"] is None
    assert answer["changed"]["tool_response"] == {"result": result, "seen": True}
    (warning,) = answer["warnings"]
    assert "has 'status' in its 'result'" in warning
    for other in ("status", None):
        given = {**TOOL, "tool_response": {"result": other}}
        answer = of_callbacks("after_tool", callback("after_tool", statements[0]), **given)
        assert (answer["error"], answer["warnings"]) == (None, [])


SAID = {"content": {"role": "model", "parts": [{"text": "hello"}]}}
GUARDED: dict[str, dict[str, Any]] = {
    "before_agent_guardrail": {},
    "after_model_guardrail": {"llm_response": SAID},
}


def guardrail(kind: str, returned: str, *, name: str | None = None) -> str:
    """Return the code of a guardrail that counts, and returns *returned*."""
    subject = "".join(f", {each}" for each in GUARDED[kind])
    return (
        f"def {name or kind}_callback(callback_context: CallbackContext{subject}) -> GuardrailResult:\n"
        "    set_variable('runs', (get_variable('runs') or 0) + 1)\n"
        f"    return {returned}\n"
    )


@pytest.mark.parametrize(
    "returned",
    ["create_guardrail_result()", "{'decision': 'OK', 'reason': 'fine'}", "GuardrailResult(decision='OK')"],
)
def test_a_guardrail_that_is_content_lets_the_next_one_decide(returned: str) -> None:
    """What it stored stays; none runs after the one that triggers, here by an object like a result."""
    kind = "after_model_guardrail"
    triggers = guardrail(kind, "type('Other', (), {'decision': 'TRIGGER', 'reason': None})()")
    answer = of_callbacks(kind, guardrail(kind, returned), triggers, triggers, **GUARDED[kind])

    assert (answer["overridden_by"], answer["result"]) == (1, {"decision": "TRIGGER", "reason": ""})
    assert answer["state_delta"]["changed"] == {"runs": 2}
    assert answer["warnings"] == []


def test_nothing_counts_as_ok_with_a_warning() -> None:
    """The platform's reference wants a result. It names no function: an agent's callback's name will do.

    Other code has none of its names: they were not seen in a tool of the platform.
    """
    nothing = of_callbacks("before_agent_guardrail", guardrail("before_agent_guardrail", "None"))
    code = guardrail("after_model_guardrail", "create_guardrail_result('TRIGGER')", name="after_model")
    elsewhere = of_tool("def tool():\n    return create_guardrail_result()\n")

    assert (nothing["error"], nothing["overridden_by"]) == (None, None)
    assert "returned nothing, which counts as OK" in nothing["warnings"][0]
    assert of_callbacks("after_model_guardrail", code, llm_response=SAID)["overridden_by"] == 0
    assert elsewhere["error"]["type"] == "NameError"


def test_anything_else_is_an_error() -> None:
    """A guardrail that decides nothing must not pass for one that lets everything through."""
    for returned in ("'TRIGGER'", "{'decision': 'STOP'}", "{}", "{'decision': 3}", "True"):
        error = of_callbacks("before_agent_guardrail", guardrail("before_agent_guardrail", returned))["error"]
        assert error["type"] == "CallbackResultError"
        assert "without the decision OK or TRIGGER" in error["message"]
