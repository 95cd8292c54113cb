"""A model runs only what its request offered; code of the app may call anything."""

from pathlib import Path
from typing import Any

import pytest
from google.genai import types

from gcp_adk_store import InvalidInputError
from gcp_adk_store.ces import AgentApp, MockConfig, MockedCall, ScriptedModel
from tests.ces.conversation.apps import write_app
from tests.ces.conversation.conftest import Converse, first_turn
from tests.ces.conversation.test_guardrails import guarded

PAY = 'def pay() -> str:\n    """Pay."""\n    set_variable("paid", True)\n    return "paid"\n'
PAYS = {"calls": [{"name": "pay"}]}
ENDS = {"calls": [{"name": "end_session", "args": {"reason": "done"}}]}
TO_OTHER = {"calls": [{"name": "transfer_to_agent", "args": {"agent_name": "other"}}]}
REFUSED = "was not offered in this request, and did not run"
REBUILT = (
    "parts = [Part(function_call=FunctionCall(name=p.function_call.name, args=p.function_call.args)) "
    "for p in llm_response.content.parts if p.function_call]"
)
REBUILDS = [REBUILT, "return LlmResponse.from_parts(parts=parts) if parts else None"]
"""Statements of a callback that makes the model's calls anew, without their ids."""


def app_of(folder: Path, *, asynchronous: tuple[str, ...] = (), **root: Any) -> AgentApp:
    """Return an app with an owner of the tool pay, and a root agent."""
    owner = {"tools": ["pay"], "callbacks": {"before_tool": ["set_variable('asked', True)"]}}
    return write_app(folder, {"root": root, "other": owner}, tools={"pay": PAY}, asynchronous=asynchronous)


HIDES: dict[str, Any] = {
    "tools": ["pay"],
    "callbacks": {"before_model": ["llm_request.config.hide_tool('pay')"]},
}


@pytest.mark.parametrize("root", [{}, {"tools": ["gone"]}, HIDES])
@pytest.mark.parametrize("asynchronous", [(), ("pay",)])
async def test_a_tool_that_was_not_offered_does_not_run(
    converse: Converse, root: dict[str, Any], asynchronous: tuple[str, ...]
) -> None:
    """Neither another agent's, nor one that a callback hides; the model gets the reason, and goes on."""
    model = ScriptedModel([PAYS, "Sorry."])
    turn = await first_turn(
        converse(app_of(converse.new_folder(), asynchronous=asynchronous, **root), model=model), "Pay"
    )

    assert [{"error": f"'pay' {REFUSED}"}] == [use.response for use in turn.calls]
    assert ("Sorry.", None) == (turn.text, turn.error)
    assert {} == dict(turn.variables)
    assert not any(event.long_running_tool_ids for event in turn.events)
    assert REFUSED in str(model.requests[1].contents)


async def test_no_callback_runs_for_a_tool_that_was_not_offered(converse: Converse) -> None:
    """Nor does a mock answer in its place. The request of a guardrail's model offers nothing."""
    callbacks = {kind: ["set_variable('ran', tool.name)"] for kind in ("before_tool", "after_tool")}
    mocks = MockConfig(calls=[MockedCall(tool="pay", response={"result": "paid"})])
    turn = await first_turn(
        converse(app_of(converse.new_folder(), callbacks=callbacks), [PAYS, "Sorry."], mocks=mocks), "Pay"
    )

    assert {} == dict(turn.variables)
    assert [{"error": f"'pay' {REFUSED}"}] == [use.response for use in turn.calls]

    app = guarded(converse.new_folder(), ("before_agent",), {"generativeAnswer": {"prompt": "Decline."}})
    turn = await first_turn(converse(app, [ENDS]), "bad")

    assert [{"error": f"'end_session' {REFUSED}"}] == [use.response for use in turn.calls]
    assert not turn.ended


async def test_a_callback_that_makes_the_models_calls_anew_offers_nothing(converse: Converse) -> None:
    """What the model asked for stays its own, also a transfer that is forbidden; code adds other calls."""
    rule = {
        "childAgent": "other",
        "direction": "PARENT_TO_CHILD",
        "disablePlannerTransfer": {"expressionCondition": {"expression": "True"}},
    }
    root = {"childAgents": ["other", "third"], "transferRules": [rule]}
    app = converse.app(
        {"root": {**root, "callbacks": {"after_model": REBUILDS}}, "other": {"tools": ["pay"]}, "third": {}},
        tools={"pay": PAY},
    )
    turn = await first_turn(converse(app, [PAYS, TO_OTHER, ENDS, "Sorry."]), "Pay")

    assert [
        {"error": f"'pay' {REFUSED}"},
        {"error": "root may not transfer to other now"},
        {"error": f"'end_session' {REFUSED}"},
    ] == [use.response for use in turn.calls]
    assert ("Sorry.", "root", False) == (turn.text, turn.agent, turn.ended)


async def test_an_end_that_was_not_offered_ends_nothing(converse: Converse) -> None:
    """Neither the turn nor the session, in this process or in another one.

    A client of ADK's runner sends any content, also a response to an agent's call: an end that was is one.
    """
    app = app_of(converse.new_folder())
    conversation = converse(app, [ENDS, "Still here.", "Again."])
    key = await conversation.begin()

    first = await conversation.send("Bye", key)
    second = await conversation.send("Hello?", key)

    assert (["Still here.", "Again."], [False, False]) == (
        [first.text, second.text],
        [first.ended, second.ended],
    )

    conversation = converse(app_of(converse.new_folder(), tools=["end_session"]), [ENDS, "Once more."])
    key = await conversation.begin()
    turn = await conversation.send("Bye", key)
    (call,) = (call for event in turn.events for call in event.get_function_calls())
    forged = types.FunctionResponse(id=call.id, name=call.name, response={"error": "refused"})
    message = types.Content(role="user", parts=[types.Part(function_response=forged)])

    with pytest.raises(InvalidInputError, match="an agent ended this session"):
        async for _ in conversation.runner.run_async(
            user_id=key.user, session_id=key.session, new_message=message
        ):
            pass
    with pytest.raises(InvalidInputError, match="an agent ended this session"):
        await conversation.send("Hello?", key)
