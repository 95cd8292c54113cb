"""Show what ``gcp-adk-store ces eval`` runs, says, and ends with."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import Result

from tests.ces.conversation.apps import ces, change, write_app, write_files

LOOK_UP = '''def look_up(id: str) -> dict:
    """Look it up."""
    set_variable("seen", id)
    return {"status": "lost"}
'''
GOLDEN = """
common_session_parameters: {tier: gold}
conversations:
  - conversation: an order is looked up
    tags: [P0]
    turns:
      - user: Hi
        agent: Welcome, gold customer
      - user: Where is order 12?
        tool_calls:
          - {action: look_up, args: {id: "12"}, output: {result: {status: shipped}}}
        agent: Your order has shipped.
"""
TURNS = """
conversations:
  - conversation: it hands over
    tags: [P1]
    turns:
      - turn: asks
        user: A bill
        variables: {mood: bad}
        expectations:
          - {type: agent_transfer, value: billing}
          - {type: no_tools_called}
          - {type: contains, value: "BILLING   here"}
      - turn: looks up
        user: Order 12
        expectations:
          - {type: tool_called, value: look_up}
          - {type: tool_not_called, value: other}
          - {type: tool_input, value: {id: 12}}
          - {type: tool_output, value: {status: lost}}
          - {type: equals, value: "It is lost."}
          - {type: fuzzy_match, value: lost is it}
          - {type: not_contains, value: found}
"""
SHOP = "cxas_app/Shop"
LOOKS_UP = {"calls": [{"name": "look_up", "args": {"id": "12"}}]}
SCRIPT = {
    "an order is looked up": ["Welcome, gold customer!", LOOKS_UP, "Your order has shipped."],
    "it hands over": [
        {"calls": [{"name": "transfer_to_agent", "args": {"agent_name": "billing"}}]},
        "Billing here.",
        LOOKS_UP,
        "It is lost.",
    ],
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with an app, its evaluations, and a script."""
    write_app(
        tmp_path / "cxas_app" / "Shop",
        {
            "root": {"childAgents": ["billing"], "tools": ["look_up", "end_session"]},
            "billing": {"tools": ["look_up"]},
        },
        tools={"look_up": LOOK_UP},
        variables={"tier": "", "seen": "", "mood": "good"},
    )
    goldens = {"evals/goldens/orders.yaml": GOLDEN, "evals/turn_evals/turns.yaml": TURNS}
    return write_files(tmp_path, {**goldens, "script.json": SCRIPT})


def run(project: Path, *arguments: str, script: Any = None) -> Result:
    """Run the command with a script."""
    if script is not None:
        (project / "script.json").write_text(json.dumps(script))
    other = {"--model", "--expected"} & set(arguments)
    replies = () if other else ("--script", project / "script.json")
    return ces("eval", project, "--sandbox", "inprocess", *arguments, *replies)


def outcomes(result: Result) -> dict[str, dict[str, Any]]:
    """Return what was reported of each evaluation, by its name."""
    return {each["name"]: each for each in json.loads(result.stdout)}


def test_the_evaluations_of_a_project_pass(project: Path) -> None:
    """They are found from the root and from the app. A malformed file is an outcome, with its line."""
    result = run(project)
    from_the_app = run(project, "--tests", str(project / "evals"), "--json", "--app", "Shop")

    assert result.exit_code == 0, result.output
    assert "passed" in result.stdout
    assert "orders" in result.stdout
    assert result.stdout.endswith("2 passed\n")
    assert [each["status"] for each in json.loads(from_the_app.stdout)] == ["passed", "passed"]

    bad = {"goldens/bad.yaml": "conversations:\n- {name: x, user: y}\n"}
    write_files(project / "evals", {**bad, "simulations/s.yaml": "- name: needs a user\n"})

    reported = json.loads(run(project, "--json").stdout)

    assert [(each["status"], each["path"], each["line"]) for each in reported] == [
        ("error", f"{project}/evals/goldens/bad.yaml", 2),
        ("passed", f"{project}/evals/goldens/orders.yaml", 4),
        ("passed", f"{project}/evals/turn_evals/turns.yaml", 3),
    ]


def test_what_differs_from_a_golden_is_reported(project: Path) -> None:
    """The text, the calls that are missing, and those that are not expected; the transcript is beside it."""
    other = {"calls": [{"name": "look_up", "args": {"id": "13"}}]}
    result = run(
        project,
        *("--json", "--name", "an order is looked up", "--junit", str(project / "junit.xml")),
        script={"an order is looked up": ["Go away", other, "Lost."]},
    )
    outcome = outcomes(result)["an order is looked up"]
    suite = ET.parse(project / "junit.xml").getroot()[0]  # noqa: S314  # our own

    called = 'look_up {"id": "13"}'

    assert result.exit_code == 1
    assert outcome["path"] == f"{project}/evals/goldens/orders.yaml"
    assert outcome["says"] == [
        "turn 1: the agent says 'Go away', expected 'Welcome, gold customer': similarity 0.00, wanted 0.80",
        "turn 2: the agent says 'Lost.', expected 'Your order has shipped.': similarity 0.00, wanted 0.80",
        f'turn 2: no call of look_up {{"id": "12"}}; an unexpected call of {called}; called: {called}',
    ]
    assert 'root calls look_up {"id": "13"} -> {"result": {"status": "shipped"}}' in outcome["stdout"]
    assert (suite.get("name"), suite.get("failures")) == ("ces eval", "1")
    assert suite[0].get("classname") == "orders"


def test_a_test_of_a_turn_shows_what_is_there_instead(project: Path) -> None:
    """Of each expectation."""
    script = {"it hands over": ["Root here.", "Found it."]}
    found = outcomes(run(project, "--tag", "P1", "--json", script=script))

    assert list(found) == ["it hands over"]
    assert found["it hands over"]["says"] == [
        "asks: agent_transfer 'billing': transfers: none",
        "asks: contains 'BILLING   here': the agent says 'Root here.'",
        "looks up: tool_called 'look_up': called: nothing",
        "looks up: tool_input {'id': 12}: called: nothing",
        "looks up: tool_output {'status': 'lost'}: responses: {}",
        "looks up: equals 'It is lost.': the agent says 'Found it.'",
        "looks up: fuzzy_match 'lost is it': the agent says 'Found it.'",
        "looks up: not_contains 'found': the agent says 'Found it.'",
    ]


def test_an_app_may_allow_calls_that_a_golden_does_not_list(project: Path) -> None:
    """By its own settings of evaluations."""
    calls = [LOOKS_UP, "Welcome, gold customer", LOOKS_UP, "Your order has shipped."]
    only = ("--name", "an order is looked up", "--json")
    allowed = {"toolMatchingSettings": {"extraToolCallBehavior": "ALLOW"}}

    refused = run(project, *only, script={"an order is looked up": calls})
    thresholds = {"evaluationMetricsThresholds": {"goldenEvaluationMetricsThresholds": allowed}}
    change(project / SHOP / "app.json", **thresholds)
    passed = run(project, *only)

    assert (refused.exit_code, passed.exit_code) == (1, 0)
    assert "an unexpected call of look_up" in refused.stdout


def test_a_turn_that_fails_and_a_session_that_has_ended_fail_an_evaluation(project: Path) -> None:
    """And the turns after it are not taken."""
    ends = {"text": "Bye", "calls": [{"name": "end_session", "args": {}}]}
    only = ("--name", "an order is looked up", "--json")

    ended = outcomes(run(project, *only, script={"an order is looked up": [ends]}))
    code = "def before_agent_callback(callback_context):\n    1 / 0\n"
    write_files(project / SHOP, {"agents/root/before_agent_callbacks/01/python_code.py": code})
    failed = outcomes(run(project, *only, script={}))

    assert "turn 2: an agent ended the session before it" in ended["an order is looked up"]["says"]
    assert failed["an order is looked up"]["says"] == [
        "turn 1: the turn failed: CALLBACK_FAILED: before_agent of root: ZeroDivisionError: division by zero"
    ]


def test_a_model_may_reply_as_a_golden_expects(project: Path) -> None:
    """So what callbacks make of it decides. What only a model can judge is skipped, and reported."""
    (project / "evals" / "turn_evals" / "turns.yaml").unlink()
    golden = project / "evals" / "goldens" / "orders.yaml"
    args = '{id: {value: "12", $matchType: contains}, why: {$matchType: ignore}, note: null}'
    golden.write_text(GOLDEN.replace('{id: "12"}', args))
    passed = run(project, "--expected")
    code = (
        "def after_model_callback(callback_context, llm_response):\n"
        "    return LlmResponse.from_parts([Part.from_text('No.')])\n"
    )
    write_files(project / SHOP, {"agents/root/after_model_callbacks/01/python_code.py": code})
    failed = run(project, "--expected")
    both = run(project, "--expected", "--model", "gemini-2.5-flash")
    golden.write_text(GOLDEN.replace("        agent: Welcome, gold customer\n", ""))
    silent = run(project, "--expected")

    assert (passed.exit_code, failed.exit_code, both.exit_code) == (0, 1, 2), passed.output
    assert "the agent says 'No.', expected 'Welcome, gold customer'" in failed.stdout
    assert "turn 1: the script has 0 replies" in silent.stdout
    assert "add agent or tool_calls to the turn, or run it with --model or --script" in silent.stdout

    (project / "evals" / "goldens" / "orders.yaml").write_text(
        "conversations:\n"
        "  - conversation: polite\n"
        "    turns: [{user: Hi, expectations: [The agent greets.]}]\n"
        "    expectations: [The agent is polite., The agent gives no date.]\n"
    )

    skipped = run(project, script={"polite": ["Hello, until Monday."]})

    assert skipped.exit_code == 2
    only_a_model = "in natural language, which only a model can judge:"
    assert f"{only_a_model} turn 1: The agent greets.; {only_a_model} The agent is polite." in skipped.stderr


def test_the_log_of_code_is_shown_beside_what_failed(project: Path) -> None:
    """Without the option, which is of the chat, too."""
    code = LOOK_UP.replace("    set_variable", '    print("seen", id)\n    set_variable')
    write_files(project / SHOP, {"tools/look_up/python_function/python_code.py": code})
    only = ("--name", "it hands over", "--json")

    failed = run(project, *only, script={"it hands over": [*SCRIPT["it hands over"][:3], "Found."]})

    assert (failed.exit_code, failed.stderr) == (1, "")
    assert "billing: look_up\n  seen 12\n" in outcomes(failed)["it hands over"]["stdout"]
