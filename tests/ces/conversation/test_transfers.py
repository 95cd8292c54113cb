"""Agents hand over to each other, by models, callbacks and rules, and the next turn begins there."""

from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store import InvalidInputError
from gcp_adk_store.ces import ScriptedModel, read_app
from tests.ces.conversation.apps import write_app, write_files
from tests.ces.conversation.conftest import Converse, offered
from tests.support.documents import ROOT

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

    counts = "def count():\n    set_variable('n', (get_variable('n') or 0) + 1)\n    return 1"
    agents = {"root": {"childAgents": ["billing"], "tools": ["count"]}, "billing": {}}
    app = converse.app(agents, tools={"count": counts})
    calls = [{"name": "count"}, *TO_BILLING["calls"], {"name": "count"}]
    turn = await converse(app, [{"calls": calls}, "Done."]).say("Hi")
    assert (turn.agent, turn.variables["n"]) == ("billing", 1)


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
    for text in ("__import__('os')", "tries +", "", "(lambda: 1)()", "a if b else c", "(" * 300):
        with pytest.raises(InvalidInputError, match="cannot be read"):
            converse(family(converse.new_folder(), transferRules=[forced_if(text)]))


def test_an_agent_is_known_by_its_folder_its_name_and_its_resource_name(tmp_path: Path) -> None:
    """A folder that is no app has no root."""
    app = write_app(
        tmp_path,
        {"root": {"childAgents": ["projects/p/locations/us/apps/a/agents/billing"]}, "billing": {}},
        root="projects/p/locations/us/apps/a/agents/root",
    )

    assert app.root is not None
    assert (app.root.name, app.root.children) == ("root", ("billing",))
    assert read_app(tmp_path / "agents").root is None
