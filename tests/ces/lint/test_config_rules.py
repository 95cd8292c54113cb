"""What lint finds in the configuration of an app."""

from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store.ces import AgentApp, lint_app, read_app
from tests.ces.conversation.apps import change, write_app, write_files
from tests.ces.lint.test_apps import codes

TOOL = 'def look_up(number: str) -> dict:\n    """Look it up."""\n    return {}\n'
ROOT: dict[str, Any] = {"tools": ["look_up", "end_session"], "childAgents": ["billing"]}


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """An app without a fault."""
    write_app(tmp_path, {"root": dict(ROOT), "billing": {"tools": []}}, tools={"look_up": TOOL})
    (tmp_path / "agents/root/instruction.txt").write_text("Use {@TOOL: look_up}.\nAsk {@AGENT: billing}.\n")
    return tmp_path


def test_an_app_that_names_what_it_has_passes(app: Path) -> None:
    """Also tools of the platform; variables and arguments in snake_case; a toolset by either name."""
    assert codes(app) == []

    schema = {"type": "OBJECT", "default": {"display_name": "a"}}
    change(app / "app.json", variableDeclarations=[{"name": "root_agent", "schema": schema}])

    assert codes(app) == []

    files = {"toolsets/crm_tools/crm_tools.json": {"displayName": "Crm", "mcpToolset": {}}}
    write_files(app, files)
    (app / "agents/billing/instruction.txt").write_text("Ask {@TOOL: Crm_find}.")
    for toolset in ("crm_tools", "Crm"):
        change(app / "agents/billing/billing.json", toolsets=[{"toolset": toolset, "toolIds": ["find"]}])

        assert codes(app) == []


def test_an_instruction_mentions_operations_that_its_agent_chooses(app: Path) -> None:
    """Another agent may choose others of the same toolset."""
    write_files(app, {"toolsets/crm/crm.json": {"displayName": "Crm", "mcpToolset": {}}})
    for agent, operation in (("root", "open"), ("billing", "find")):
        toolsets = [{"toolset": "crm", "toolIds": [operation]}]
        change(app / f"agents/{agent}/{agent}.json", toolsets=toolsets)
    path = "agents/billing/instruction.txt"
    (app / path).write_text("Ask {@TOOL: Crm_find}.\nNot {@TOOL: Crm_open}.\n")

    assert codes(app) == [("CES606", path, 2)]


def test_an_app_that_its_caller_describes_is_checked_with_the_files_of_its_folder(app: Path) -> None:
    """Nothing read them before."""
    change(app / "app.json", variable_declarations=[])
    change(app / "agents/root/root.json", childAgents=["sales"])
    described = AgentApp(folder=app, name="app", agents=read_app(app).agents)

    assert {each.code for each in lint_app(described)} == {"CES604", "CES608"}


SALES = {"childAgent": "sales", "direction": "PARENT_TO_CHILD"}
RULE = {**SALES, "disablePlannerTransfer": {"expressionCondition": {"expression": "true"}}}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"tools": ["look_up", "lookup"]}, "CES603"),
        ({"tools": ["look_up", 5]}, "CES603"),
        ({"toolsets": [{"toolset": "Bank"}]}, "CES603"),
        ({"childAgents": ["billing", "sales"]}, "CES604"),
        ({"transferRules": [RULE]}, "CES604"),
        ({"child_agents": ["billing"]}, "CES608"),
    ],
)
def test_what_an_agent_names_and_the_app_does_not_have_is_found(
    app: Path, changes: dict[str, Any], code: str
) -> None:
    """In the file that names it."""
    change(app / "agents/root/root.json", **changes)

    assert [(found, path) for found, path, _ in codes(app)] == [(code, "agents/root/root.json")]


@pytest.mark.parametrize(
    ("mention", "code"),
    [("{@TOOL: lookup}", "CES605"), ("{@AGENT: sales}", "CES605"), ("{@TOOL: look_up}", "CES606")],
)
def test_what_an_instruction_mentions_must_be_there(app: Path, mention: str, code: str) -> None:
    """In the app, and a tool among those of the agent."""
    (app / "agents/billing/instruction.txt").write_text(f"Be kind.\n{mention}\n")

    assert codes(app) == [(code, "agents/billing/instruction.txt", 2)]


@pytest.mark.parametrize(
    ("kind", "default", "fits"),
    [
        ("STRING", "a", True),
        ("STRING", 3, False),
        ("NUMBER", 1, True),
        ("INTEGER", True, False),
        ("BOOLEAN", False, True),
        ("BOOLEAN", "false", False),
        ("object", {}, True),
        ("TEXT", "a", False),
    ],
)
def test_the_default_of_a_variable_has_its_type(app: Path, kind: str, default: Any, fits: bool) -> None:  # noqa: FBT001  # what is tested
    """One that is missing has any."""
    declared = [{"name": "tier", "schema": {"type": kind, "default": default}}, {"name": "b", "schema": {}}]
    change(app / "app.json", variableDeclarations=declared)

    assert [code for code, _, _ in codes(app)] == ([] if fits else ["CES607"])


def test_the_instruction_of_an_agent_with_a_space_in_its_name_is_in_its_file(tmp_path: Path) -> None:
    """As the configuration of an export names it; a sentence is no path."""
    path = "agents/Front Desk/instruction.txt"
    write_files(tmp_path, {path: "Be kind."})
    agents = {"Front Desk": {"instruction": path}, "b": {"instruction": "Read notes.txt"}}
    read = write_app(tmp_path, agents, root="b").agents

    assert [each.instruction for each in read] == ["Be kind.", "Read notes.txt"]


def test_an_agent_has_one_parent(app: Path, tmp_path: Path) -> None:
    """As the platform wants it. A custom header of an MCP toolset is a variable of any name."""
    change(app / "agents/billing/billing.json", childAgents=["root"])
    write_app(app, {"third": {"childAgents": ["billing"]}})

    assert ("CES609", "agents/third/third.json") in [(code, path) for code, path, _ in codes(app)]

    plain = tmp_path / "plain"
    write_app(plain, {"root": {}})
    headers = {"X-Plan": "$context.variables.plan", "display_name": "gold"}
    toolset = {"mcpToolset": {"serverAddress": "https://x.test", "customHeaders": headers}}
    write_files(plain, {"toolsets/Crm/Crm.json": toolset})

    assert codes(plain) == [("CES610", "toolsets/Crm/Crm.json", 1)]
