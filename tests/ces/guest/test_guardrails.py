"""The code of guardrails decides whether a turn may go on."""

from typing import Any

import pytest

from tests.ces.guest.runs import of_callbacks, of_tool

RESPONSE = {"content": {"role": "model", "parts": [{"text": "hello"}]}}
GIVEN: dict[str, dict[str, Any]] = {
    "before_agent_guardrail": {},
    "after_agent_guardrail": {},
    "before_model_guardrail": {"llm_request": {"contents": []}},
    "after_model_guardrail": {"llm_response": RESPONSE},
}
PARAMETERS = {
    "before_agent_guardrail": "callback_context: CallbackContext",
    "after_agent_guardrail": "callback_context: CallbackContext",
    "before_model_guardrail": "callback_context: CallbackContext, llm_request: LlmRequest",
    "after_model_guardrail": "callback_context: CallbackContext, llm_response: LlmResponse",
}


def guardrail(kind: str, returned: str, *, name: str | None = None) -> str:
    """Return the code of a guardrail that counts, and returns *returned*."""
    return (
        f"def {name or kind}_callback({PARAMETERS[kind]}) -> GuardrailResult:\n"
        "    set_variable('runs', (get_variable('runs') or 0) + 1)\n"
        f"    return {returned}\n"
    )


@pytest.mark.parametrize("kind", GIVEN)
@pytest.mark.parametrize(
    "returned",
    [
        "create_guardrail_result(decision='TRIGGER', reason='no')",
        "GuardrailResult(decision='TRIGGER', reason='no')",
        "{'decision': 'TRIGGER', 'reason': 'no'}",
        "type('Other', (), {'decision': 'TRIGGER', 'reason': 'no'})()",
    ],
)
def test_a_guardrail_triggers(kind: str, returned: str) -> None:
    """By a result, a dict, or an object like it; the ones after it do not run."""
    answer = of_callbacks(kind, guardrail(kind, returned), guardrail(kind, returned), **GIVEN[kind])

    assert answer["error"] is None, answer["error"]["traceback"]
    assert (answer["override"], answer["overridden_by"]) == (True, 0)
    assert answer["result"] == {"decision": "TRIGGER", "reason": "no"}
    assert answer["state_delta"]["changed"] == {"runs": 1}


@pytest.mark.parametrize(
    "returned",
    ["create_guardrail_result()", "{'decision': 'OK', 'reason': 'fine'}", "GuardrailResult(decision='OK')"],
)
def test_a_guardrail_that_is_content_lets_the_next_one_decide(returned: str) -> None:
    """What it stored stays."""
    kind = "after_model_guardrail"
    last = guardrail(kind, "create_guardrail_result('TRIGGER')")
    answer = of_callbacks(kind, guardrail(kind, returned), last, **GIVEN[kind])

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

    assert (nothing["error"], nothing["override"]) == (None, False)
    assert "returned nothing, which counts as OK" in nothing["warnings"][0]
    assert of_callbacks("after_model_guardrail", code, llm_response=RESPONSE)["override"] is True
    assert elsewhere["error"]["type"] == "NameError"


@pytest.mark.parametrize("returned", ["'TRIGGER'", "{'decision': 'STOP'}", "{}", "{'decision': 3}", "True"])
def test_anything_else_is_an_error(returned: str) -> None:
    """A guardrail that decides nothing must not pass for one that lets everything through."""
    kind = "before_agent_guardrail"
    answer = of_callbacks(kind, guardrail(kind, returned))

    assert answer["error"]["type"] == "GuardrailResultError"
    assert "without the decision OK or TRIGGER" in answer["error"]["message"]
