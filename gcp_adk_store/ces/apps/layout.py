"""Hold what the folder of an agent app has."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gcp_adk_store.ces.apps.agents import (
    AgentSpec,
    GuardrailSpec,
    OtherTool,
    Toolset,
    last_of,
)
from gcp_adk_store.ces.apps.behaviour import (
    ErrorHandling,
)
from gcp_adk_store.ces.apps.findings import Finding
from gcp_adk_store.ces.guest.contract import Callback


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCode:
    """A tool that is Python."""

    name: str
    """What ``tools.X`` and models call it."""
    path: Path
    asynchronous: bool
    """Whether its answer comes on a later turn."""
    selected: bool = False
    """Whether the configuration names the function, and not its place in the file."""
    timeout_s: float | None = None
    """As the configuration has it."""
    fake: Path | None = None
    """The code that answers in its place where fakes do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackCode:
    """A callback of an agent or of a guardrail."""

    agent: str
    """The folder of the agent; empty for a guardrail's."""
    callback: Callback
    path: Path
    disabled: bool
    guardrail: str = ""
    """The folder of the guardrail; empty for an agent's."""


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

    @property
    def tool_names(self) -> frozenset[str]:
        """What ``tools.X`` may be."""
        operations = frozenset().union(*(each.tool_names for each in self.toolsets))
        others = frozenset(tool.name for tool in self.other_tools)
        return frozenset(tool.name for tool in self.tools) | operations | others

    @property
    def root(self) -> AgentSpec | None:
        """The agent that begins: the one that the app names, else the only one that is nobody's child."""
        if named := self.agent(self.root_agent):
            return named
        children = {name for agent in self.agents for name in agent.children}
        orphans = [agent for agent in self.agents if not agent.names & children]
        return orphans[0] if len(orphans) == 1 else None

    def agent(self, name: str) -> AgentSpec | None:
        """Return the agent of that display name, folder or resource name, or None."""
        wanted = last_of(name)
        return next((agent for agent in self.agents if wanted in agent.names), None)

    def shown(self, path: Path) -> str:
        """Return how *path* is named: from the app's folder."""
        return str(path.relative_to(self.folder)) if path.is_relative_to(self.folder) else str(path)
