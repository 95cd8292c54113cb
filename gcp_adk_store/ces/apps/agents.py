"""Read the agents, guardrails and toolsets of an app from its configuration."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from gcp_adk_store.ces.apps.files import last_of, member, typed
from gcp_adk_store.ces.tools.declarations import MockTool
from gcp_adk_store.ces.tools.openapi import operation_names

MENTION: Final = re.compile(r"\{@(TOOL|AGENT):\s*([^{}]+?)\s*\}")
"""What an instruction says of a tool or an agent."""
_DIRECTIONS: Final = ("PARENT_TO_CHILD", "CHILD_TO_PARENT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Something that configurations name."""

    name: str
    """The display name, or of a tool what models and code call it."""
    folder: str = ""
    """The name of its folder; empty without one."""

    @property
    def names(self) -> frozenset[str]:
        """What configurations may call it."""
        return frozenset({self.name, self.folder}) - {""}


N = TypeVar("N", bound=Named)


def by_names(listed: Sequence[N]) -> dict[str, N]:
    """Return those *listed* by all their names; display names go before those of folders."""
    by_folder = {each.folder: each for each in reversed(listed) if each.folder}
    return by_folder | {each.name: each for each in reversed(listed)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Faked(Named):
    """A tool, or tools, that a fake may answer for."""

    fake: Path | None = None
    """The code that answers where fakes do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRule:
    """A condition that forces or forbids a transfer between an agent and its child."""

    child: str
    """The child, as the configuration names it."""
    to_child: bool
    """Whether it is about the way from the parent to the child, and not the way back."""
    forbids: bool
    """Whether the model may not choose the transfer while the condition holds; else it is forced then."""
    condition: str
    filename: str
    """Of the condition, which is Python then; empty for an expression."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec(Named):
    """An agent of an app, as its configuration has it."""

    description: str = ""
    instruction: str = ""
    path: Path = field(default_factory=Path)
    """The file that has the instruction."""
    model: str = ""
    """Of its own model settings; empty for those of the app."""
    temperature: float | None = None
    tools: tuple[str, ...] = ()
    """System tools such as ``end_session`` too."""
    toolsets: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Those that it may call, each with the ids of the operations; without ids all."""
    children: tuple[str, ...] = ()
    """As the configuration names them."""
    rules: tuple[TransferRule, ...] = ()
    guardrails: tuple[str, ...] = ()
    """Beside those of the app, as the configuration names them."""


def named(listed: Any) -> tuple[str, ...]:
    """Return the names in *listed* as texts; a wrong value becomes a name that nothing has."""
    return tuple(map(str, listed if isinstance(listed, list) else () if listed is None else [listed]))


def toolsets_of(config: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the toolsets that the agent of *config* may call; what is malformed is left out."""
    for each in typed(list, config, "toolsets"):
        toolset = each if isinstance(each, str) else member(each, "toolset")
        if isinstance(toolset, str):
            yield last_of(toolset), named(member(each, "toolIds"))


def rule_of(config: Any) -> TransferRule | None:
    """Return the transfer rule of an agent that *config* is; None if the platform does not know it as one."""
    forced = member(config, "deterministicTransfer")
    condition = member(config, "disablePlannerTransfer") if forced is None else forced
    child, direction = member(config, "childAgent"), member(config, "direction")
    expression = member(condition, "expressionCondition", "expression")
    is_code = not isinstance(expression, str)
    says = member(condition, "pythonCodeCondition", "pythonCode") if is_code else expression
    if not (isinstance(child, str) and direction in _DIRECTIONS and isinstance(says, str)):
        return None
    return TransferRule(
        child=last_of(child),
        to_child=direction == _DIRECTIONS[0],
        forbids=forced is None,
        condition=says,
        filename="transfer_rule.py" if is_code else "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailSpec(Named):
    """A guardrail, as its configuration has it."""

    enabled: bool = True
    responses: tuple[str, ...] = ()
    """Texts to answer with; empty for another action."""
    transfer_to: str = ""
    """The agent to hand over to, as the configuration names it; empty for another action."""
    prompt: str | None = None
    """What a model gets as an answer; None for another action."""


_KINDS: Final = (
    *("agentTool", "clientFunction", "connectorTool", "dataStoreTool", "fileSearchTool", "googleSearchTool"),
    *("mcpTool", "openApiTool", "remoteAgentTool", "systemTool", "widgetTool"),
)
"""Members of the configuration of a tool that say what it is."""
TOOLSETS: Final = ("mcpToolset", "connectorToolset")
"""Members of the configuration of a toolset without a document."""
ELSEWHERE: Final = "and runs on the platform alone"
_TYPES: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTool(Faked):
    """A tool that is not Python: only the platform or its client has it."""

    stand_in: MockTool
    """What answers in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolset(Faked):
    """Tools that an OpenAPI document describes, or that another server lists.

    The names of its tools begin with its own.
    """

    spec: Mapping[str, Any] = field(default_factory=dict)
    """The document; empty without one."""
    path: Path = field(default_factory=Path)
    """The file that has the document."""
    kind: str = ""
    """The member of its configuration that it has instead of a document; empty with one."""
    listed: frozenset[str] = frozenset()
    """Names of tools that agents and code give, without a document."""
    server: str = ""
    """Where its operations answer, in place of the document's servers."""
    authentication: Mapping[str, Any] = field(default_factory=dict)
    """``apiAuthentication`` of its configuration."""
    credential: str | None = field(default=None, repr=False)
    """The key or token to send, which the configuration does not have."""

    @property
    def tool_names(self) -> frozenset[str]:
        """How code calls its operations: ``{name}_{operationId}``, else by method and path."""
        return self.listed | {f"{self.name}_{each}" for each in operation_names(self.spec)}


def merged(config: Any, environment: Any) -> dict[str, Any]:
    """Return *config* with the values of *environment*, member by member: what ``environment.json`` adds."""
    found = dict(config)
    for name, value in environment.items():
        before = found.get(name)
        both = isinstance(before, Mapping) and isinstance(value, Mapping)
        found[name] = merged(before, value) if both else value
    return found


def other_tool(config: Mapping[str, Any], folder: str, fake: Path | None) -> OtherTool:
    """Return the tool that *config* declares: by its own name, its display name, or that of its *folder*."""
    kind = next((each for each in _KINDS if isinstance(config.get(each), Mapping)), "")
    fields = config[kind] if kind else {}
    named = [config.get("displayName"), fields.get("name"), folder]
    name = next(each for each in named if isinstance(each, str) and each)
    parameters = fields.get("parameters", fields.get("inputSchema"))
    answers = stand_in(
        name,
        f"is declared as {kind or 'no known kind of tool'}, {ELSEWHERE}",
        description=str(fields.get("description") or config.get("description") or ""),
        parameters=_json_schema(parameters) if isinstance(parameters, Mapping) else None,
    )
    return OtherTool(name=name, folder=folder, fake=fake, stand_in=answers)


def stand_in(name: str, why: str, **declared: Any) -> MockTool:
    """Return what answers in place of the tool *name*, which is not called here: *why*, as an error."""
    error = f"{name} {why}; give it a mock"
    return MockTool(name=name, response={"error": error}, status_code=501, reason=error, **declared)


def _json_schema(schema: Any) -> Any:
    """Return a schema of the platform, whose types are capitals, as JSON has it: dates of YAML as texts."""
    if isinstance(schema, list):
        return [_json_schema(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema if isinstance(schema, str | int | float | None) else str(schema)
    made = {str(name): _json_schema(value) for name, value in schema.items()}
    if isinstance(made.get("type"), str) and made["type"].lower() in _TYPES:
        made["type"] = made["type"].lower()
    return made
