"""Models get the declarations of tools, run only what a request offered, and hand over to other agents."""

from pathlib import Path
from typing import Any

import pytest
from google.genai import types

from gcp_adk_store import InvalidInputError
from gcp_adk_store.ces import AgentApp, AppAgent, MockConfig, MockedCall, ScriptedModel, read_app
from tests.ces.conversation.apps import write_app, write_files
from tests.ces.conversation.conftest import Converse, offered
from tests.ces.conversation.test_guardrails import guarded
from tests.support.documents import ROOT

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
        ("Literal[-1, 0, None]", {"enum": [-1, 0, None]}),
        ("Literal[b'a']", {}),
        ("Literal[Color.RED]", {}),
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


async def test_half_of_an_emoji_in_a_declaration_is_escaped(converse: Converse) -> None:
    """As in what users and models say: no request can have it."""
    code = 'def find() -> str:\n    "Find \\ud83d."\n'

    assert (await declared(of_code(converse.folder, code), converse))["description"] == r"Find \ud83d."


OF_HEADER = {"name": "id", "in": "header", "required": True}


async def test_an_operation_is_declared_by_its_document(converse: Converse) -> None:
    """Its body is one argument, and so are parameters of one name."""
    operation = {
        "operationId": "pay",
        "summary": "Pay.",
        "parameters": [{"name": "id", "in": "path"}, {"name": "dry", "in": "query"}, OF_HEADER],
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


NOTE = "set_variable('trace', [*get_variable('trace'), '{}'])"
TO_BILLING = {"calls": [{"name": "transfer_to_agent", "args": {"agent_name": "billing"}}]}
TO_ROOT = {"calls": [{"name": "transfer_to_agent", "args": {"agent_name": "root"}}]}


def family(folder: Path, **rules: Any) -> Any:
    """Return an app of a root and a child, each with a callback that says that it begins."""
    notes = {name: {"before_agent": [NOTE.format(name)]} for name in ("root", "billing")}
    agents: dict[str, Any] = {
        "root": {"childAgents": ["billing"], "callbacks": notes["root"], **rules},
        "billing": {"description": "Bills.", "callbacks": notes["billing"]},
    }
    return write_app(folder, agents, variables={"trace": [], "verified": False})


async def test_a_model_hands_over_to_a_child_and_back(converse: Converse) -> None:
    """The next turn begins with the agent that spoke last, without the callbacks of the root.

    Another process goes on with it too: the session's events show who that is.
    """
    app = family(converse.new_folder())
    model = ScriptedModel([TO_BILLING, "Billing here.", "Still billing."])
    conversation, other = converse(app, model=model), converse(app, [TO_ROOT, "Root again."])
    turns = [await conversation.say(said) for said in ("My bill", "More")]
    turns.append(await other.send("Something else", conversation.key))

    assert [(turn.text, turn.agent) for turn in turns] == [
        *(("Billing here.", "billing"), ("Still billing.", "billing"), ("Root again.", "root"))
    ]
    assert turns[-1].variables["trace"] == ["root", "billing", "billing", "billing", "root"]
    function = offered(model)
    assert (function.parameters_json_schema or {})["properties"]["agent_name"]["enum"] == ["billing"]
    assert "- billing: Bills." in (function.description or "")


async def test_what_an_agent_does_before_it_hands_over_is_done(converse: Converse) -> None:
    """A callback hands over to any agent; the last one runs beside that; of calls those before it count."""
    to_other = "return Content(parts=[Part.from_text('Wait.'), Part.from_agent_transfer('other')])"
    app = converse.app({"root": {"callbacks": {"before_agent": [to_other]}}, "other": {}})
    turn = await converse(app, ["Other here."]).say("Hi")
    assert (turn.text, turn.agent) == ("Wait.\nOther here.", "other")

    says = {"after_agent": ["return Content(parts=[Part.from_text('I hand over.')])"]}
    app = converse.app({"root": {"childAgents": ["billing"], "callbacks": says}, "billing": {}})
    turn = await converse(app, [TO_BILLING, "Billing here."]).say("Hi")
    assert (turn.text, turn.agent) == ("I hand over.\nBilling here.", "billing")
    assert turn.calls[0].response == {"result": None}

    bye = ["return Content(parts=[Part.from_text('Bye.')])"]
    silent = {"before_agent": ["return Content(parts=[])"], "after_agent": bye}
    app = converse.app(
        {"root": {"childAgents": ["billing"], "callbacks": says}, "billing": {"callbacks": silent}}
    )
    assert (await converse(app, [TO_BILLING]).say("Hi")).text == "I hand over.\nBye."

    counts = "def count():\n    set_variable('n', (get_variable('n') or 0) + 1)\n    return 1"
    agents = {"root": {"childAgents": ["billing"], "tools": ["count"]}, "billing": {}}
    app = converse.app(agents, tools={"count": counts})
    calls = [{"name": "count"}, *TO_BILLING["calls"], {"name": "count"}]
    turn = await converse(app, [{"calls": calls}, "Done."]).say("Hi")
    assert (turn.agent, turn.variables["n"]) == ("billing", 1)


@pytest.mark.parametrize("kind", ["before_agent", "before_model", "after_model", "after_agent"])
async def test_a_callback_hands_over_by_the_actions_of_its_context(converse: Converse, kind: str) -> None:
    """One event says so, and the other agent answers next, also if it says nothing now."""
    hands_over = {kind: ["callback_context.actions.transfer_to_agent = 'other'"]}
    silent = {"before_agent": ["return Content(parts=[])"]}
    app = converse.app(
        {"root": {"tools": ["pay"], "callbacks": hands_over}, "other": {"callbacks": silent}},
        tools={"pay": PAY},
    )
    turn = await converse(app, [PAYS, "Root."]).say("Hi")

    assert turn.agent == "other"
    assert [to for each in turn.events if (to := each.actions.transfer_to_agent)] == ["other"]


async def test_agents_that_hand_over_without_end_are_stopped(converse: Converse) -> None:
    """The turn ends with an error. The response to a transfer to an unknown agent lists the agents."""
    turn = await converse(family(converse.new_folder()), [TO_BILLING, TO_ROOT] * 6).say("Hi")

    assert turn.error == "TURN_TOO_LONG: more than 10 transfers in one turn"
    assert " model calls, or 10 transfers |" in (ROOT / "docs/ces-conversations.md").read_text()

    wrong = {"calls": [{"name": "transfer_to_agent", "args": {"agent_name": "nobody"}}]}
    turn = await converse(family(converse.new_folder()), [wrong, "Sorry."]).say("Hi")

    assert turn.calls[0].response == {"error": "unknown agent 'nobody'; known: billing, root"}
    assert (turn.text, turn.agent) == ("Sorry.", "root")


@pytest.mark.parametrize(
    "condition",
    [
        {"expressionCondition": {"expression": "verified == true"}},
        {"pythonCodeCondition": {"pythonCode": "get_variable('verified')"}},
        {"pythonCodeCondition": {"pythonCode": "def ready(ctx):\n    return ctx.variables['verified']\n"}},
        {"pythonCodeCondition": {"pythonCode": "agents/rule.py"}},
    ],
)
async def test_a_rule_forces_a_transfer_if_it_holds(converse: Converse, condition: dict[str, Any]) -> None:
    """Before the model is asked."""
    rule = {"childAgent": "billing", "direction": "PARENT_TO_CHILD", "deterministicTransfer": condition}
    folder = write_files(converse.new_folder(), {"agents/rule.py": "context.variables['verified']"})
    conversation = converse(family(folder, transferRules=[rule]), ["Root.", "Billing."])

    without = await conversation.send("Hi", await conversation.begin())
    forced = await conversation.send("Hi", await conversation.begin(variables={"verified": True}))

    assert (without.text, without.agent) == ("Root.", "root")
    assert (forced.text, forced.agent) == ("Billing.", "billing")


async def test_a_rule_forbids_the_model_a_transfer(converse: Converse) -> None:
    """It is neither offered nor carried out."""
    unless = {"disablePlannerTransfer": {"expressionCondition": {"expression": "!verified"}}}
    rule = {"childAgent": "billing", "direction": "PARENT_TO_CHILD", **unless}
    model = ScriptedModel([TO_BILLING, "Root."])
    app = family(converse.new_folder(), transferRules=[rule])
    turn = await converse(app, model=model).say("Hi")

    assert not model.requests[0].config.tools
    assert (turn.text, turn.agent) == ("Root.", "root")
    refused = "'transfer_to_agent' was not offered in this request, and did not run"
    assert turn.calls[0].response == {"error": refused}


def forced_if(text: str) -> dict[str, Any]:
    """Return the rule that the child answers while a condition holds."""
    condition = {"expressionCondition": {"expression": text}}
    return {"childAgent": "billing", "direction": "PARENT_TO_CHILD", "deterministicTransfer": condition}


@pytest.mark.parametrize(
    ("text", "variables", "holds"),
    [
        ("tier == 'gold' && tries < 3", {"tier": "gold", "tries": 2}, True),
        ("{tier} in ['gold', 'silver'] and not (tries >= 3 || blocked)", {"tier": "gold", "tries": 2}, True),
        ("tries < 3", {"tries": "2"}, False),
        ("account.owed[0] > 10", {"account": {"owed": [11]}}, True),
        ("account.owed[0] > 10", {}, False),
        ("note == 'a && b'", {"note": "a && b"}, True),
        ("missing == null", {}, True),
        ("tries > -1", {"tries": 0}, True),
    ],
)
async def test_conditions_compare_variables(
    converse: Converse, text: str, variables: dict[str, Any], *, holds: bool
) -> None:
    """In either encoding; what cannot be compared does not hold."""
    conversation = converse(family(converse.new_folder(), transferRules=[forced_if(text)]), ["Hello."])
    turn = await conversation.send("Hi", await conversation.begin(variables=variables))

    assert turn.agent == ("billing" if holds else "root")


def test_a_condition_of_anything_else_is_refused(converse: Converse) -> None:
    """When the app is loaded."""
    long = f"tries == 1{' ' * 9990}or tries == 2"
    for text in ("__import__('os')", "tries +", "", "(lambda: 1)()", "a if b else c", "(" * 300, long):
        with pytest.raises(InvalidInputError, match="cannot be read"):
            converse(family(converse.new_folder(), transferRules=[forced_if(text)]))
    for code in ("async def ready():\n    return False\n", "x = 1", "def ("):
        rule = {**forced_if("true"), "deterministicTransfer": {"pythonCodeCondition": {"pythonCode": code}}}
        with pytest.raises(InvalidInputError, match="the code of a transfer rule"):
            converse(family(converse.new_folder(), transferRules=[rule]))


def test_an_agent_is_known_by_its_folder_its_name_and_its_resource_name(tmp_path: Path) -> None:
    """A folder that is no app has no root."""
    app = write_app(
        tmp_path,
        {"root": {"childAgents": ["projects/p/locations/us/apps/a/agents/billing"]}, "billing": {}},
        root="projects/p/locations/us/apps/a/agents/root",
    )

    assert app.root is not None
    assert (app.root.name, app.root.children) == ("root", ("billing",))
    no_app = read_app(tmp_path / "agents")
    assert no_app.root is None
    with pytest.raises(InvalidInputError, match="names no root agent"):
        AppAgent(no_app, model=ScriptedModel([]))
    with pytest.raises(InvalidInputError, match="an agent cannot have the name 'user'"):
        AppAgent(write_app(tmp_path / "other", {"user": {}}, root="user"), model=ScriptedModel([]))
