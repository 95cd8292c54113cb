"""Evaluations are read from the formats of the platform and its tooling; errors have a line."""

import json
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event
from google.genai import types

from gcp_adk_store.ces import ConversationTurn
from gcp_adk_store.ces.testing.evaluation_runs import _mocks
from gcp_adk_store.ces.testing.evaluations import Evaluation, read_evaluations, said_of
from gcp_adk_store.ces.testing.nodes import MalformedTestError
from gcp_adk_store.ces.testing.turn_checks import EvaluatedTurn, ExpectedCall

GOLDEN = """
common_session_parameters: {tier: gold, region: eu}
common_expectations: [The agent is polite.]
conversations:
  - conversation: an order is looked up
    tags: [P0, orders]
    session_parameters:
      - {name: tier, value: silver}
      - region
    turns:
      - user: "<event>welcome</event>"
        agent: ["Welcome!", "How can I help?"]
      - user: Where is order 12?
        variables: {seen: true}
        tool_calls:
          - action: look_up
            args: {id: {value: "12", $matchType: contains}}
            output: {status: shipped}
          - {action: transfer_to_agent, agent: billing}
        agent: It has shipped.
    expectations: [The agent gives no date.]
"""
TURNS = """
config: {use_tool_fakes: true}
tests:
  - name: it greets
    event: welcome
    variables: {a: 1}
    expectations:
      - {type: contains, value: Welcome}
      - {type: no_tools_called}
      - It sounds friendly.
  - name: it asks
    turns:
      - {turn: first, user: My order, expectations: [{type: tool_not_called, value: look_up}]}
      - {turn: second, user: 12}
"""
START = "<event>session start</event>"
LOOKED_UP = {"tool": "projects/p/tools/look_up", "args": {"id": "12", "most": 1e22}}
ANSWERED = {"displayName": "look_up", "response": {"result": 1}}
FIRST = [
    {"userInput": {"variables": {"tier": "gold"}}},
    {"userInput": {"text": None, "event": {"event": "welcome"}}},
    {"expectation": {"agentResponse": {"role": "agent", "chunks": [{"text": "Hi \U0001f600"}]}}},
]
SECOND = [
    {"userInput": {"text": "Order 12"}},
    {"expectation": {"toolCall": {"tool": "greet"}}},
    {"expectation": {"toolCall": LOOKED_UP}},
    {"expectation": {"mockToolResponse": ANSWERED}},
    {"expectation": {"updatedVariables": {"seen": True}}},
    {"expectation": {"agentTransfer": {"displayName": "billing"}}},
]
EXPORTED = {
    "name": "projects/p/locations/us/apps/a/evaluations/e",
    "displayName": "An order",
    "golden": {"turns": [{"steps": FIRST}, {"steps": SECOND}]},
}


def read(folder: Path, text: str, name: str = "a.yaml") -> list[Evaluation]:
    """Return the evaluations of a file with *text*."""
    (folder / name).write_text(text)
    return read_evaluations(folder / name)


def turn(name: str, said: str, **expected: Any) -> EvaluatedTurn:
    """Return a turn, and what is expected of it."""
    return EvaluatedTurn(name=name, said=said, **expected)


def test_golden_conversations_are_read(tmp_path: Path) -> None:
    """Parameters of one conversation go before those of the file; a null stands for the default."""
    (found,) = read(tmp_path, GOLDEN)
    first, second = found.turns

    assert (found.name, found.line, found.tags) == ("an order is looked up", 5, ("P0", "orders"))
    assert found.variables == {"tier": "silver", "region": None}
    assert [each.partition(": ")[2] for each in found.left_out] == [
        "The agent is polite.",
        "The agent gives no date.",
    ]
    assert first == turn("turn 1", START, says=("Welcome!\nHow can I help?",), calls=())
    looked_up = ExpectedCall(
        "look_up", {"id": {"value": "12", "$matchType": "contains"}}, output={"status": "shipped"}
    )
    handed_over = ExpectedCall("transfer_to_agent", {"agent_name": "billing"})
    came: dict[str, Any] = {"says": ("It has shipped.",), "calls": (looked_up, handed_over)}
    assert second == turn("turn 2", "Where is order 12?", variables={"seen": True}, **came)


def test_a_silent_text_is_not_checked_and_an_output_that_is_no_object_is_a_result(tmp_path: Path) -> None:
    """Texts beside it are, each by itself. As the answer of a tool has it; also what is empty or false."""
    (silent,) = read(tmp_path, GOLDEN.replace('["Welcome!",', '["# silent", "Welcome!",'))
    outputs = []
    for given in ("0", "[]", "false", "said"):
        (found,) = read(tmp_path, GOLDEN.replace("{status: shipped}", given))
        outputs += [call.output for call in (found.turns[1].calls or ())[:1]]

    assert silent.turns[0].says == ("Welcome!", "How can I help?")
    assert outputs == [{"result": 0}, {"result": []}, {"result": False}, {"result": "said"}]


def test_tests_of_turns_are_read(tmp_path: Path) -> None:
    """Of one turn and of several."""
    greets, asks = read(tmp_path, TURNS)

    others = (("contains", "Welcome"), ("no_tools_called", None))

    assert greets.name == "it greets"
    assert greets.turns == (turn("turn 1", START, variables={"a": 1}, others=others),)
    judged = "in natural language, which only a model can judge: turn 1: It sounds friendly."
    assert greets.left_out == (judged,)
    assert [(turn.name, turn.said) for turn in asks.turns] == [("first", "My order"), ("second", "12")]


def test_a_null_is_missing(tmp_path: Path) -> None:
    """As tools write models with fields that nobody set. One in arguments is a value."""
    calls = "tool_calls: [{action: c, args: {a: null}, agent: null}]"
    one_turn = f"{{user: null, event: e, agent: null, expectations: null, {calls}}}"
    (found,) = read(tmp_path, f"tests:\n- {{name: a, tags: null, turns: [{one_turn}]}}")

    expected = (ExpectedCall("c", {"a": None}),)
    assert found.turns == (turn("turn 1", "<event>e</event>", calls=expected),)


def test_an_exported_evaluation_is_read(tmp_path: Path) -> None:
    """Its steps are turns; a mock belongs to the call before it. It is JSON, whatever YAML makes of that."""
    (found,) = read(tmp_path, json.dumps(EXPORTED, indent="\t").replace("1e+22", "1e22"), "e.json")
    first, second = found.turns
    looked_up = ExpectedCall("look_up", {"id": "12", "most": 1e22}, output={"result": 1})
    handed_over = ExpectedCall("transfer_to_agent", {"agent_name": "billing"})

    assert found.name == "An order"
    assert first == turn("turn 1", START, variables={"tier": "gold"}, says=("Hi \U0001f600",), calls=())
    calls = (ExpectedCall("greet", {}), looked_up, handed_over)
    assert second == turn("turn 2", "Order 12", calls=calls, after={"seen": True})


def golden(expected: dict[str, Any]) -> str:
    """Return an exported evaluation of one turn."""
    return json.dumps({"golden": {"turns": [{"steps": [{"expectation": expected}]}]}})


def said(given: dict[str, Any]) -> str:
    """Return an exported evaluation whose user gives something."""
    return json.dumps({"golden": {"turns": [{"steps": [{"userInput": given}, *FIRST[-1:]]}]}})


INVALID = {"tool": "a", "args": {"b": {"$matchType": "regexp", "$matchValue": "("}}}


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (golden({"agentResponse": {"chunks": 3}}), 1, "its golden expects nothing"),
        (golden({"agentResponse": {"chunks": {"text": "Hi"}}}), 1, "its golden expects nothing"),
        (golden({"toolCall": INVALID}), 1, "turn 1: the regular expression '(' is not valid"),
        ('{"golden": 3}', 1, "its golden expects nothing"),
        (said({"dtmf": "1"}), 1, "turn 1: the user gives dtmf; only text"),
        ('{"golden": {}\n]', 2, "Expecting"),
        ("[" * 100_000, 1, "recursion"),
    ],
)
def test_what_an_exported_evaluation_cannot_expect_is_an_error(
    tmp_path: Path, text: str, line: int, says: str
) -> None:
    """Before anything runs: a pattern may take all memory."""
    with pytest.raises(MalformedTestError) as caught:
        read(tmp_path, text, "e.json")

    assert (caught.value.line, says in caught.value.says) == (line, True), caught.value


def test_outputs_of_the_same_calls_come_in_order_also_if_the_calls_fit_others() -> None:
    """A call may have more arguments than those that were expected."""
    same: dict[str, Any] = {"id": "12"}
    for calls, args, outputs in (
        ([(same, 1), ({"kind": "b"}, 2), (same, 1), (same, 3)], {**same, "kind": "b"}, [1, 1, 3, 3]),
        ([({}, 1), ({}, 2)], {}, [1, 2, 2]),
        ([(same, 1), ({"id": "13"}, 2)], {"id": "14"}, [1, 1]),
    ):
        made = (ExpectedCall("look_up", each, output={"result": number}) for each, number in calls)
        mocks = _mocks(turn("turn 1", "Hi", calls=tuple(made)))
        assert mocks is not None
        found = [mocks.find("look_up", args) for _ in outputs]
        assert [each and each.response["result"] for each in found] == outputs


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_each_expected_call_has_one_of_those_that_were_made_if_there_is_a_way(order: tuple[int, int]) -> None:
    """Whatever the order of both is: one that fits many leaves the call that another needs."""
    ids = [("12", "13")[number] for number in order]
    made = [types.Part(function_call=types.FunctionCall(name="look_up", args={"id": id_})) for id_ in ids]
    event = Event(author="root", content=types.Content(role="model", parts=made))
    came = ConversationTurn(events=(event,), agent="root", variables={}, ended=False)
    calls = (ExpectedCall("look_up", {}), ExpectedCall("look_up", {"id": "12"}))

    assert [] == [*turn("turn 1", "Hi", calls=calls).failures(came, similar=1)]
    wanted = turn("turn 1", "Hi", calls=(*calls, ExpectedCall("look_up", {"id": "12"})))
    (failure,) = wanted.failures(came, similar=1)
    assert failure.startswith('no call of look_up {"id": "12"}; called: ')


def test_what_only_the_platform_can_run_is_none_or_says_what_it_needs(tmp_path: Path) -> None:
    """A model that plays the user, or a history. Events are encoded as the platform's."""
    scenario = {"displayName": "x", "scenario": {"task": "buy"}}
    text = "tests:\n- {name: a, user: b, agent: c, historical_contexts: {session_id: s}}\n"

    assert read(tmp_path, json.dumps(scenario), "e.json") == []
    assert read(tmp_path, text)[0].turns == ()
    assert read(tmp_path, text)[0].left_out == ("its historical_contexts are on the platform",)

    assert [said_of(None, None), said_of(None, "no-input")] == [START, "<event>no-input</event>"]


ONE = "conversations:\n- {name: a, user: b, "
WHOLE = "tests:\n- {name: a, turns: [{user: b}], "


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 1, "it is empty"),
        ("tests: []", 1, "it has no conversations"),
        ("{a: 1}", 1, "unknown name a"),
        ("conversations:\n- {turns: []}", 2, "name is missing"),
        ("conversations:\n- {name: a, turns: [{user: b}]}", 2, "expects nothing, so it cannot fail"),
        ("conversations:\n- name: a\n  turns:\n  - {user: b, agnet: c}", 4, "unknown name agnet"),
        (ONE + "event: c, agent: d}", 2, "user or event, not both"),
        (ONE + "agent: null, agent: c}", 2, "agent is given twice"),
        (ONE + "turns: []}", 2, "has turns and is one"),
        (ONE + "expectations: [{type: says, value: x}]}", 2, "unknown type says"),
        (ONE + "expectations: [{type: equals}]}", 2, "needs a value, a text"),
        (ONE + "expectations: [{type: tool_input, value: x}]}", 2, "needs a value, an object"),
        (ONE + "tool_calls: [{action: c, args: {x: {$matchType: like}}}]}", 2, "unknown $matchType 'like'"),
        (ONE + "agent: c, variables: 3}", 2, "variables must be an object"),
        (ONE + "agent: c, variables: [3]}", 2, "variables in a list are names"),
        (ONE + "agent: {$matchType: ignore}}", 2, "agent must be text"),
        (WHOLE + "expectations: [{type: equals, value: x}]}", 2, "belong to a turn"),
    ],
)
def test_a_malformed_evaluation_has_its_line(tmp_path: Path, text: str, line: int, says: str) -> None:
    """As a malformed test of a tool is."""
    with pytest.raises(MalformedTestError) as caught:
        read(tmp_path, text)

    assert (caught.value.line, says in caught.value.says) == (line, True), caught.value
