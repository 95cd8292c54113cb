"""Say where an app has its files, and load its tools and callbacks from there."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gcp_adk_store.ces.apps.agents import (
    ELSEWHERE,
    AgentSpec,
    Faked,
    GuardrailSpec,
    OtherTool,
    Toolset,
    by_names,
    stand_in,
)
from gcp_adk_store.ces.apps.files import Config, ErrorHandling, last_of
from gcp_adk_store.ces.apps.findings import Finding
from gcp_adk_store.ces.guest.contract import Callback
from gcp_adk_store.ces.tools.declarations import CodeFile, Execution, FakeTools, PythonTool, Tool
from gcp_adk_store.ces.tools.openapi import OpenApiTool
from gcp_adk_store.ces.tools.parameters import Authentication
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.kernel.operation import require_arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCode(Faked):
    """A tool that is Python."""

    path: Path
    execution: Execution = "SYNCHRONOUS"
    selected: bool = False
    """Whether the configuration names the function, and not its place in the file."""
    timeout_s: float | None = None
    """As the configuration has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackCode:
    """A callback of an agent or of a guardrail."""

    callback: Callback
    path: Path
    disabled: bool
    owner: str
    """The folder of the agent, or of the guardrail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentApp:
    """What a folder has."""

    folder: Path
    tools: tuple[ToolCode, ...] = ()
    """By name."""
    callbacks: tuple[CallbackCode, ...] = ()
    """By agent and kind, in the order in which they run."""
    toolsets: tuple[Toolset, ...] = ()
    other_tools: tuple[OtherTool, ...] = ()
    """Tools that are neither, such as searches, by name."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """Those that are declared, with their defaults."""
    agents: tuple[AgentSpec, ...] = ()
    """By the names of their folders."""
    root_agent: str = ""
    """As the configuration names it; empty where it names none."""
    name: str = ""
    """The display name."""
    model: str = ""
    """Of agents that name none."""
    global_instruction: str = ""
    """For all agents."""
    guardrails: tuple[GuardrailSpec, ...] = ()
    """By the names of their folders."""
    guards_all: tuple[str, ...] = ()
    """The guardrails of every agent, as the configuration names them."""
    allows_extra_calls: bool = False
    """Whether golden conversations may have calls that they do not list."""
    errors: ErrorHandling = field(default_factory=ErrorHandling)
    uses_fakes: bool = False
    """Whether golden conversations call fakes in place of the tools that have one."""
    unlike_platform: tuple[str, ...] = ()
    """What the app asks for that only the platform does, and what happens here instead."""
    problems: tuple[Finding, ...] = ()
    """What could not be read."""
    configs: Mapping[Path, Config] = field(default_factory=dict, repr=False)
    """Configuration files that the reader looked for, by their paths without the suffix."""

    @property
    def tool_names(self) -> frozenset[str]:
        """What ``tools.X`` may be."""
        own = frozenset(each.name for each in (*self.tools, *self.other_tools))
        return own.union(*(each.tool_names for each in self.toolsets))

    @property
    def root(self) -> AgentSpec | None:
        """The agent that begins: the one that the app names, else the only one that is nobody's child."""
        if named := self.agent(self.root_agent):
            return named
        children = {name for agent in self.agents for name in agent.children}
        orphans = [agent for agent in self.agents if not agent.names & children]
        return orphans[0] if len(orphans) == 1 else None

    @property
    def own_model(self) -> str:
        """The name of the model that the root agent has, or the app; empty where they name none."""
        return (self.root.model if self.root else "") or self.model

    def agent(self, name: str) -> AgentSpec | None:
        """Return the agent of that display name, folder or resource name, or None."""
        return by_names(self.agents).get(last_of(name))

    def tools_of(self, agent: AgentSpec) -> list[str]:
        """Return the names of the tools that the model of *agent* may call, system tools too, in order."""
        own = by_names((*self.tools, *self.other_tools))
        names = dict.fromkeys(own[name].name if name in own else name for name in agent.tools)
        toolsets = by_names(self.toolsets)
        for name, operations in agent.toolsets:
            toolset = toolsets.get(name)
            if operations:
                prefix = name if toolset is None else toolset.name
                names |= dict.fromkeys(f"{prefix}_{operation}" for operation in operations)
            elif toolset is not None:
                names |= dict.fromkeys(sorted(toolset.tool_names))
        return list(names)

    def guardrails_of(self, agent: AgentSpec) -> list[GuardrailSpec]:
        """Return the guardrails that guard *agent*, if enabled: those of every agent, then its own."""
        found = {
            each.folder: each
            for name in (*self.guards_all, *agent.guardrails)
            for each in self.guardrails
            if each.enabled and last_of(name) in each.names
        }
        return list(found.values())

    def shown(self, path: Path) -> str:
        """Return how *path* is named: from the app's folder."""
        return str(path.relative_to(self.folder)) if path.is_relative_to(self.folder) else str(path)


def load_tools(app: AgentApp, *, use_fakes: bool = False) -> list[Tool]:
    """Return the tools of *app*: those that are Python, operations of toolsets, and stand-ins for others.

    A stand-in answers what keeps the tool from being called here, unless a mock answers first.

    Args:
        app: The app.
        use_fakes: Whether the fakes that the app enables answer in place of their tools.

    Raises:
        InvalidInputError: the code of one cannot be read.
    """
    found: list[tuple[Path | None, Tool]] = []
    for each in app.tools:
        code, limit_s = load_code(each.path), each.timeout_s
        tool = PythonTool(name=each.name, code=code, execution=each.execution, timeout_s=limit_s)
        found.append((each.fake, tool))
    found += [(toolset.fake, tool) for toolset in app.toolsets for tool in _of_toolset(toolset)]
    found += [(each.fake, each.stand_in) for each in app.other_tools]
    if not use_fakes:
        return [tool for _, tool in found]
    return [tool if path is None else _faked(tool, load_code(path)) for path, tool in found]


def _faked(tool: Tool, code: CodeFile) -> Tool:
    return replace(tool, fake=FakeTools(source=code.source, filename=code.filename))


def load_code(path: Path) -> CodeFile:
    """Return the code of the file *path*, which tracebacks name by its path.

    Raises:
        InvalidInputError: it cannot be read, or is not a path.
    """
    require_arguments(load_code, locals())
    try:
        return CodeFile(path.read_text(encoding="utf-8-sig"), filename=str(path))
    except OSError as exc:
        raise InvalidInputError(f"{path} cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise InvalidInputError(f"{path} is not UTF-8; save it as UTF-8: {exc}") from exc


def _of_toolset(toolset: Toolset) -> list[Tool]:
    why = f"is a tool of the {toolset.kind} {toolset.name}, {ELSEWHERE}"
    try:
        if not toolset.kind:
            made = OpenApiTool.from_spec(
                toolset.spec,
                display_name=toolset.name,
                server=toolset.server or None,
                authentication=Authentication.of(toolset.authentication, toolset.name, toolset.credential),
            )
            return [made]
    except InvalidInputError as exc:  # such as a server that is filled in when the app is deployed
        why = f"cannot be called here: {exc}"
    return [stand_in(name, why) for name in sorted(toolset.tool_names)]
