"""Hold the tools that code, or a model, may call."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from gcp_adk_store.ces.guest.contract import Code
from gcp_adk_store.ces.http.fetching import Outgoing
from gcp_adk_store.ces.tools.injection import Authentication, SessionValues
from gcp_adk_store.ces.tools.openapi import OpenApiTool, Operation
from gcp_adk_store.errors import InvalidInputError

Execution: TypeAlias = Literal["SYNCHRONOUS", "ASYNCHRONOUS"]


@dataclass(frozen=True, slots=True)
class CodeFile:
    """A file of user code."""

    source: str
    filename: str = ""
    """As tracebacks show it; need not exist. By default made of the name of the function."""
    name: str | None = None
    """The function to call; by default that of the tool, or of the callback's kind."""

    @classmethod
    def of(cls, code: "str | CodeFile", *, filename: str | None = None) -> "CodeFile":
        """Return *code* as a file, called *filename* where that is given."""
        file = CodeFile(code) if isinstance(code, str) else code
        return file if filename is None else CodeFile(file.source, filename, file.name)

    def wire(self, *, function: str | None, filename: str) -> Code:
        """Return it as a request holds it; *function* and *filename* are the defaults of its names."""
        code: Code = {"source": self.source, "filename": self.filename or filename}
        if name := self.name or function:
            code["name"] = name
        return code


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonTool:
    """A tool that is Python code."""

    name: str
    code: str | CodeFile
    description: str = ""
    execution: Execution = "SYNCHRONOUS"
    """An asynchronous one answers a model with a placeholder first; called by another tool it is awaited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MockTool:
    """A tool with fixed answers."""

    name: str
    response: Any
    """What the answer's ``json()`` is; or a function of the arguments that returns it, or awaits it."""
    status_code: int = 200
    """Of the answer. From 400 on, ``raise_for_status()`` raises in code, and a model gets an error."""
    reason: str = ""
    """Of an answer that is an error."""
    description: str = ""
    parameters: Mapping[str, Any] | None = None
    """The JSON schema of its arguments, for models; by default any object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationTool:
    """One operation of an OpenAPI document."""

    name: str
    operation: Operation
    headers: Mapping[str, str] = field(repr=False)
    authentication: Authentication | None = None

    @property
    def description(self) -> str:
        """What the document says of it."""
        return self.operation.description

    def request(self, args: Mapping[str, Any], session: SessionValues) -> Outgoing:
        """Return the request for *args*, with what its toolset authenticates itself by.

        Raises:
            ArgumentsError: an argument is missing, unknown, or does not fit its place.
            CredentialMissingError: the credential is missing.
        """
        if self.authentication is None:
            return self.operation.request(args, self.headers, session)
        headers, params = self.authentication.sent(session)
        outgoing = self.operation.request(args, {**self.headers, **headers}, session)
        return replace(outgoing, params=[*(outgoing.params or ()), *params] or None)


Tool: TypeAlias = PythonTool | OpenApiTool | MockTool
Callee: TypeAlias = PythonTool | OperationTool | MockTool


def by_name(tools: Mapping[str, Tool | str] | Iterable[Tool]) -> dict[str, Callee]:
    """Return what can be called, by the name that code calls it by; a text is the code of a Python tool.

    Raises:
        InvalidInputError: two have one name, or a name is not the tool's.
    """
    found: dict[str, Callee] = {}
    pairs = tools.items() if isinstance(tools, Mapping) else ((None, tool) for tool in tools)
    for key, given in pairs:
        for callee in _callees(key, given):
            if callee.name in found:
                raise InvalidInputError(f"two tools have the name {callee.name!r}; rename one")
            found[callee.name] = callee
    return found


def _callees(key: str | None, tool: Tool | str) -> list[Callee]:
    match tool:
        case str() if key is not None:
            return [PythonTool(name=key, code=tool)]
        case OpenApiTool():
            return [
                OperationTool(
                    name=name, operation=operation, headers=tool.headers, authentication=tool.authentication
                )
                for name, operation in tool.operations.items()
            ]
        case PythonTool() | MockTool():
            if key not in {None, tool.name}:
                raise InvalidInputError(
                    f"the tool {tool.name!r} is given under the name {key!r}; use one name"
                )
            return [tool]
        case _:
            raise InvalidInputError(
                f"{type(tool).__name__} is not a tool: give a PythonTool, an OpenApiTool or a MockTool"
            )
