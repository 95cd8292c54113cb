"""Models get the declarations of tools, and run only what a request offered; code may call anything."""

from pathlib import Path
from typing import Any

import pytest
from google.genai import types

from gcp_adk_store import InvalidInputError
from gcp_adk_store.ces import AgentApp, MockConfig, MockedCall, ScriptedModel, read_app
from tests.ces.conversation.apps import write_app, write_files
from tests.ces.conversation.conftest import Converse, offered
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
    """Neither another agent's, nor one that a callback hides; the model gets the reason, and goes on.

    No callback runs for it, and no mock answers in its place.
    """
    ran = {kind: ["set_variable('ran', tool.name)"] for kind in ("before_tool", "after_tool")}
    root = {**root, "callbacks": {**ran, **root.get("callbacks", {})}}
    app = app_of(converse.new_folder(), asynchronous=asynchronous, **root)
    mocks = MockConfig(calls=[MockedCall(tool="pay", response={"result": "paid"})])
    model = ScriptedModel([PAYS, "Sorry."])
    turn = await converse(app, model=model, mocks=mocks).say("Pay")

    assert [{"error": f"'pay' {REFUSED}"}] == [use.response for use in turn.calls]
    assert ("Sorry.", None) == (turn.text, turn.error)
    assert {} == dict(turn.variables)
    assert not any(event.long_running_tool_ids for event in turn.events)
    assert REFUSED in str(model.requests[1].contents)


async def test_the_model_of_a_guardrail_is_offered_nothing(converse: Converse) -> None:
    """Neither a tool nor the end of the session."""
    app = guarded(converse.new_folder(), ("before_agent",), {"generativeAnswer": {"prompt": "Decline."}})
    turn = await converse(app, [ENDS]).say("bad")

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
    turn = await converse(app, [PAYS, TO_OTHER, ENDS, "Sorry."]).say("Pay")

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

    first = await conversation.say("Bye")
    second = await conversation.say("Hello?")

    assert (["Still here.", "Again."], [False, False]) == (
        [first.text, second.text],
        [first.ended, second.ended],
    )

    conversation = converse(app_of(converse.new_folder(), tools=["end_session"]), [ENDS, "Once more."])
    turn = await conversation.say("Bye")
    (call,) = (call for event in turn.events for call in event.get_function_calls())
    forged = types.FunctionResponse(id=call.id, name=call.name, response={"error": "refused"})
    message = types.Content(role="user", parts=[types.Part(function_response=forged)])

    with pytest.raises(InvalidInputError, match="an agent ended this session"):
        async for _ in conversation.runner.run_async(
            user_id="local", session_id=conversation.key.session, new_message=message
        ):
            pass
    with pytest.raises(InvalidInputError, match="an agent ended this session"):
        await conversation.say("Hello?")


async def declared(app: AgentApp, converse: Converse) -> dict[str, Any]:
    """Return what a model gets of the only tool."""
    model = ScriptedModel(["Done."])
    await converse(app, model=model).say("Go")
    return offered(model).model_dump(exclude_none=True)


def of_code(folder: Path, code: str) -> AgentApp:
    """Return an app whose tool has this *code*."""
    return write_app(folder, {"root": {"tools": ["find"]}}, tools={"find": code})


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        ("str", {"type": "string"}),
        ("int", {"type": "integer"}),
        ("'float'", {"type": "number"}),
        ("bool", {"type": "boolean"}),
        ("list[str]", {"type": "array", "items": {"type": "string"}}),
        ("typing.List[int]", {"type": "array", "items": {"type": "integer"}}),
        ("list", {"type": "array", "items": {}}),
        ("dict[str, Any]", {"type": "object"}),
        ("Optional[int]", {"type": "integer"}),
        ("str | None", {"type": "string"}),
        ("Union[str, int]", {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ("Tuple[()]", {"type": "array", "items": {}}),
        ("Union[None]", {}),
        ("str | int | None", {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        (" | ".join(["int"] * 2000), {"anyOf": [{"type": "integer"}] * 2000}),
        ("Literal['a', 'b']", {"enum": ["a", "b"]}),
        ("Any", {}),
        ("'not python'", {}),
    ],
)
async def test_a_python_tool_is_declared_by_its_signature(
    converse: Converse, annotation: str, schema: dict[str, Any]
) -> None:
    """Parameters without a default are required."""
    code = f'def find(it: {annotation}, *, most: int = 3):\n    """Find it.\n\n    And more.\n    """\n'

    assert await declared(of_code(converse.folder, code), converse) == {
        "name": "find",
        "description": "Find it.\n\nAnd more.",
        "parameters_json_schema": {
            "type": "object",
            "properties": {"it": schema, "most": {"type": "integer"}},
            "required": ["it"],
        },
    }


@pytest.mark.parametrize("code", ["def (", "x = 1", f"x = a{'.b' * 10_000}"])
async def test_code_that_cannot_be_read_is_declared_without_parameters(converse: Converse, code: str) -> None:
    """A call of it says what is wrong."""
    found = await declared(of_code(converse.folder, code), converse)

    assert found["parameters_json_schema"] == {"type": "object", "properties": {}}


async def test_an_operation_is_declared_by_its_document(converse: Converse) -> None:
    """Its body is one argument."""
    operation = {
        "operationId": "pay",
        "summary": "Pay.",
        "parameters": [{"name": "id", "in": "path"}, {"name": "dry", "in": "query"}],
        "requestBody": {"required": True, "content": {"application/json": {}}},
    }
    document = {
        "info": {"title": "Shop"},
        "servers": [{"url": "https://api.example.com"}],
        "paths": {"/bills/{id}": {"post": operation}},
    }
    converse.app({"root": {"toolsets": [{"toolset": "Shop"}]}})
    toolset = {"displayName": "Shop", "openApiToolset": {"openApiSchema": "toolsets/Shop/schema.yaml"}}
    files = {"toolsets/Shop/Shop.json": toolset, "toolsets/Shop/schema.yaml": document}
    found = await declared(read_app(write_files(converse.folder, files)), converse)

    assert (found["name"], found["description"]) == ("Shop_pay", "Pay.")
    properties = {"id": {}, "dry": {}, "body": {"type": "object"}}
    schema = {"type": "object", "properties": properties, "required": ["id", "body"]}
    assert found["parameters_json_schema"] == schema
