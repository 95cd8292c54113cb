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
    """Also tools of the platform, and a toolset by either name."""
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


ROOT_AGENT, BILLING, THIRD = "agents/root/root.json", "agents/billing/billing.json", "agents/third/third.json"
SAYS = "agents/billing/instruction.txt"
RULE = {
    "childAgent": "sales",
    "direction": "PARENT_TO_CHILD",
    "disablePlannerTransfer": {"expressionCondition": {"expression": "true"}},
}
HEADERS = {"X-Plan": "$context.variables.plan", "display_name": "gold"}


def variable(kind: str, *, default: Any) -> dict[str, Any]:
    """Return what declares a variable of a type with a default, and another with neither."""
    schemas = {"tier": {"type": kind, "default": default}, "b": {}}
    return {"variableDeclarations": [{"name": name, "schema": schema} for name, schema in schemas.items()]}


@pytest.mark.parametrize(
    ("path", "changes", "code"),
    [
        (ROOT_AGENT, {"tools": ["look_up", "lookup"]}, "CES603"),
        (ROOT_AGENT, {"tools": ["look_up", 5]}, "CES603"),
        (ROOT_AGENT, {"toolsets": [{"toolset": "Bank"}]}, "CES603"),
        (ROOT_AGENT, {"childAgents": ["billing", "sales"]}, "CES604"),
        (ROOT_AGENT, {"transferRules": [RULE]}, "CES604"),
        (ROOT_AGENT, {"child_agents": ["billing"]}, "CES608"),
        (SAYS, "Be kind.\n{@TOOL: lookup}\n", "CES605"),
        (SAYS, "Be kind.\n{@AGENT: sales}\n", "CES605"),
        (SAYS, "Be kind.\n{@TOOL: look_up}\n", "CES606"),
        ("app.json", {"globalInstruction": "Use {@TOOL: look_up}, and {@TOOL: lookup}."}, "CES605"),
        ("app.json", variable("STRING", default=3), "CES607"),
        ("app.json", variable("INTEGER", default=True), "CES607"),
        ("app.json", variable("BOOLEAN", default="false"), "CES607"),
        ("app.json", variable("TEXT", default="a"), "CES607"),
        (THIRD, {"displayName": "third", "childAgents": ["billing"]}, "CES609"),
        ("toolsets/Crm/Crm.json", {"mcpToolset": {"customHeaders": HEADERS}}, "CES610"),
    ],
)
def test_what_is_wrong_with_a_file_of_an_app_is_found_in_it(
    app: Path, path: str, changes: dict[str, Any] | str, code: str
) -> None:
    """A name that the app does not have, a default of another type, a second parent, a text as a header."""
    if isinstance(changes, str):
        write_files(app, {path: changes})
    else:
        change(app / path, **changes)

    assert [(found, where) for found, where, _ in codes(app)] == [(code, path)]


@pytest.mark.parametrize(
    "declared",
    [
        variable("STRING", default="a"),
        variable("NUMBER", default=1),
        variable("BOOLEAN", default=False),
        variable("object", default={}),
        {"variableDeclarations": [{"name": "root_agent", "schema": {"default": {"display_name": "a"}}}]},
    ],
)
def test_a_variable_has_a_default_of_its_type_and_any_name(app: Path, declared: dict[str, Any]) -> None:
    """One that is missing has any; names within a default are the app's own."""
    change(app / "app.json", **declared)

    assert codes(app) == []


def test_the_instruction_of_an_agent_with_a_space_in_its_name_is_in_its_file(tmp_path: Path) -> None:
    """As the configuration of an export names it; a sentence is no path."""
    path = "agents/Front Desk/instruction.txt"
    write_files(tmp_path, {path: "Be kind."})
    agents = {"Front Desk": {"instruction": path}, "b": {"instruction": "Read notes.txt"}}
    read = write_app(tmp_path, agents, root="b").agents

    assert [each.instruction for each in read] == ["Be kind.", "Read notes.txt"]
