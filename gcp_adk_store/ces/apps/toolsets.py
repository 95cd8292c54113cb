"""Read toolsets, and tools that are not Python: what they are called, and where they answer."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gcp_adk_store.ces.tools.openapi import identifier

_METHODS: Final = frozenset({"get", "put", "post", "delete", "patch", "head", "options"})
_KINDS: Final = {
    "agentTool": "another agent",
    "clientFunction": "a function of the client",
    "connectorTool": "a connector",
    "dataStoreTool": "a search of a data store",
    "fileSearchTool": "a search of files",
    "googleSearchTool": "a search of Google's",
    "mcpTool": "a tool of an MCP server",
    "openApiTool": "an operation of an API",
    "remoteAgentTool": "a remote agent",
    "systemTool": "a tool of the platform",
    "widgetTool": "a widget of the client",
}
"""What tools are, by the member of their configuration that says so."""
_TOOLSETS: Final = {"mcpToolset": "tools of an MCP server", "connectorToolset": "tools of a connector"}
_TYPES: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTool:
    """A tool that is not Python: only the platform or its client has it."""

    name: str
    kind: str
    """For messages."""
    description: str = ""
    parameters: Mapping[str, Any] | None = None
    """The JSON schema of its arguments, where the configuration has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolset:
    """Tools that an OpenAPI document describes, or that another server lists."""

    name: str
    """What the names of its tools begin with."""
    folder: str = ""
    spec: Mapping[str, Any] = field(default_factory=dict)
    """The document; empty without one."""
    path: Path = field(default_factory=Path)
    """The file that has the document."""
    kind: str = ""
    """What it has instead of a document, for messages; empty with one."""
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
        paths = self.spec.get("paths")
        described = frozenset(
            f"{self.name}_{identifier(named)}"
            for path, operations in (paths.items() if isinstance(paths, dict) else ())
            for method, operation in (operations.items() if isinstance(operations, dict) else ())
            if method in _METHODS and isinstance(operation, dict)
            for named in (str(operation.get("operationId") or f"{method}_{identifier(str(path))}"),)
        )
        return described | self.listed

    @property
    def names(self) -> frozenset[str]:
        """What configurations may call it."""
        return frozenset({self.name, self.folder}) - {""}


def merged(config: Mapping[str, Any], environment: Any) -> dict[str, Any]:
    """Return *config* with the values of *environment*, member by member: what ``environment.json`` adds."""
    found = dict(config)
    for name, value in environment.items() if isinstance(environment, Mapping) else ():
        before = found.get(name)
        found[name] = (
            merged(before, value) if isinstance(before, Mapping) and isinstance(value, Mapping) else value
        )
    return found


def other_tool(config: Mapping[str, Any], folder: str) -> OtherTool:
    """Return the tool that *config* declares: by its own name, its display name, or that of its *folder*."""
    kind = next((each for each in _KINDS if isinstance(config.get(each), Mapping)), "")
    told = config[kind] if kind else {}
    named = [config.get("displayName"), told.get("name"), folder]
    parameters = told.get("parameters", told.get("inputSchema"))
    return OtherTool(
        name=next(each for each in named if isinstance(each, str) and each),
        kind=_KINDS.get(kind, "of a kind that is not known"),
        description=str(told.get("description") or config.get("description") or ""),
        parameters=_json_schema(parameters) if isinstance(parameters, Mapping) else None,
    )


def other_toolset(config: Mapping[str, Any], name: str, folder: str) -> Toolset | None:
    """Return the toolset that *config* declares without a document; None for no toolset."""
    kind = next((each for each in _TOOLSETS if isinstance(config.get(each), Mapping)), None)
    return None if kind is None else Toolset(name=name, folder=folder, kind=_TOOLSETS[kind])


def names_of(toolset: Toolset, chosen: Iterable[str], called: Iterable[str]) -> frozenset[str]:
    """Return the names of tools of *toolset*, which has no document.

    Args:
        toolset: The toolset.
        chosen: Tools that agents choose of it.
        called: Names of tools that code calls.
    """
    prefix = f"{toolset.name}_"
    return frozenset(
        {f"{prefix}{each}" for each in chosen} | {each for each in called if each.startswith(prefix)}
    )


def _json_schema(schema: Any) -> Any:
    """Return a schema of the platform, whose types are capitals, as JSON has it."""
    if isinstance(schema, list):
        return [_json_schema(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    made = {name: _json_schema(value) for name, value in schema.items()}
    if isinstance(made.get("type"), str) and made["type"].lower() in _TYPES:
        made["type"] = made["type"].lower()
    return made
