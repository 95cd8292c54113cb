"""Hold the tools that code or a model may call, what answers in their place, and how models see them."""

import ast
import inspect
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Self, TypeAlias

import pydantic
from pydantic.alias_generators import to_camel

from gcp_adk_store.ces.guest.contract import Code
from gcp_adk_store.ces.guest.models import fault_of
from gcp_adk_store.ces.guest.scanning import UNREADABLE, scan
from gcp_adk_store.ces.tools.openapi import OpenApiTool
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.kernel.operation import require_members


@dataclass(frozen=True, slots=True, kw_only=True)
class MockedCall:
    """One answer of a `MockConfig`.

    Raises:
        InvalidInputError: a member is of another kind, or the response is not JSON.
    """

    tool: str
    response: Mapping[str, Any]
    """What the answer's ``json()`` is, ``result`` included where the tool's own answer has one."""
    expected_args: Mapping[str, Any] = field(default_factory=dict)
    """What the arguments must have, at any depth; others may be there too."""

    def __post_init__(self) -> None:
        require_members(self)
        try:
            json.dumps(self.response, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as exc:
            raise InvalidInputError(f"the response of a mock of {self.tool} is not JSON: {exc}") from exc


@dataclass(frozen=True, slots=True, kw_only=True)
class MockConfig:
    """Answers to the calls that the code makes of tools: the first one that fits.

    Raises:
        InvalidInputError: a member is of another kind.
    """

    calls: Sequence[MockedCall] = ()
    unmatched: Literal["PASS_THROUGH", "FAIL"] = "PASS_THROUGH"
    """Whether a call by code that none fits goes to the tool, or ends the run; a model's goes to the tool."""

    def __post_init__(self) -> None:
        require_members(self)

    @classmethod
    def from_json(cls, config: Mapping[str, Any]) -> Self:
        """Return the ``mockConfig`` of the platform's API.

        Raises:
            InvalidInputError: *config* is not a mockConfig.
        """
        try:
            read = _MockConfig.model_validate(config)
        except pydantic.ValidationError as exc:
            raise InvalidInputError(f"the mockConfig is not valid: {fault_of(exc)}") from exc
        calls = (
            MockedCall(
                tool=each.name(),
                response=each.mock_response or {},
                expected_args=each.expected_args_pattern or {},
            )
            for each in read.mocked_tool_calls or ()
        )
        fails = read.unmatched_tool_call_behavior == "FAIL"
        return cls(calls=tuple(calls), unmatched="FAIL" if fails else "PASS_THROUGH")

    def find(self, tool: str, args: Mapping[str, Any]) -> MockedCall | None:
        """Return the first answer that fits a call of *tool*, or None."""
        fitting = (each for each in self.calls if each.tool == tool and _has(args, each.expected_args))
        return next(fitting, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeTools:
    """Python code that answers tool calls: ``fake_{tool}``, or ``fake_tool_call`` for all of them.

    Each is called with ``tool``, ``input`` and ``callback_context``; None lets the tool itself answer.

    Raises:
        InvalidInputError: the source is not valid Python, or a member is of another kind.
    """

    source: str
    filename: str = "fakes.py"
    functions: frozenset[str] = field(init=False, default=frozenset())

    def __post_init__(self) -> None:
        require_members(self)
        try:
            found = scan(ast.parse(self.source)).functions
        except UNREADABLE as exc:
            raise InvalidInputError(f"{self.filename}: {exc}") from exc
        object.__setattr__(self, "functions", frozenset(each.name for each in found))

    def function_for(self, tool: str) -> str | None:
        """Return the name of the function that answers calls of *tool*, or None."""
        return next((name for name in (f"fake_{tool}", "fake_tool_call") if name in self.functions), None)


class _OfApi(pydantic.BaseModel, extra="forbid", alias_generator=to_camel):
    """What the platform's API has; a member that is misspelt is refused, or the tool itself would run."""


class _ToolsetTool(_OfApi):
    toolset: str
    tool_id: str


class _MockedToolCall(_OfApi):
    tool_id: str | None = None
    tool: str | None = None
    toolset: _ToolsetTool | str | None = None
    toolset_tool: _ToolsetTool | str | None = None
    expected_args_pattern: dict[str, Any] | None = None
    mock_response: dict[str, Any] | None = None

    def name(self) -> str:
        """Return the name that code calls the tool by; resource names end with it."""
        named = self.toolset or self.toolset_tool
        if isinstance(named, _ToolsetTool):
            toolset, tool = named.toolset, named.tool_id
        else:
            toolset, tool = named or "", self.tool_id or self.tool or ""
        if not tool:
            raise InvalidInputError("a mocked tool call must name its tool, in toolId, tool or toolset")
        return "_".join(each.rpartition("/")[2] for each in (toolset, tool) if each)


class _MockConfig(_OfApi):
    mocked_tool_calls: list[_MockedToolCall] | None = None
    unmatched_tool_call_behavior: (
        Literal["PASS_THROUGH", "FAIL", "UNMATCHED_TOOL_CALL_BEHAVIOR_UNSPECIFIED"] | None
    ) = None


def _has(value: Any, pattern: Any) -> bool:
    if isinstance(pattern, Mapping):
        return isinstance(value, Mapping) and all(
            name in value and _has(value[name], below) for name, below in pattern.items()
        )
    if isinstance(pattern, list):
        return isinstance(value, list) and len(value) == len(pattern) and all(map(_has, value, pattern))
    return bool(value == pattern) and isinstance(value, bool) == isinstance(pattern, bool)  # 1 == True


Execution: TypeAlias = Literal["SYNCHRONOUS", "ASYNCHRONOUS"]


@dataclass(frozen=True, slots=True)
class CodeFile:
    """A file of user code."""

    source: str
    filename: str = ""
    """As tracebacks show it; need not exist. By default made of the name of the function."""
    name: str | None = None
    """The function to call; by default that of the tool, or of the callback's kind."""

    def __post_init__(self) -> None:
        require_members(self)

    @classmethod
    def of(cls, code: "str | CodeFile") -> "CodeFile":
        """Return *code* as a file.

        Raises:
            InvalidInputError: it is neither.
        """
        return code if isinstance(code, CodeFile) else CodeFile(code)

    def wire(self, *, function: str | None, filename: str) -> Code:
        """Return it as a request holds it; *function* and *filename* are the defaults of its names."""
        code: Code = {"source": self.source, "filename": self.filename or filename}
        if name := self.name or function:
            code["name"] = name
        return code


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonTool:
    """A tool that is Python code.

    Raises:
        InvalidInputError: the name or the code is not a text, the execution is unknown, or the timeout is no
            number.
    """

    name: str
    code: str | CodeFile
    description: str = ""
    execution: Execution = "SYNCHRONOUS"
    """An asynchronous one answers a model with a placeholder first; called by another tool it is awaited."""
    timeout_s: float | None = None
    """Seconds of a run, unless ``RuntimeSettings.limits`` are given; 300 at most. None takes the platform's:
    30, and 60 of an asynchronous one."""
    fake: FakeTools | None = field(default=None, repr=False)
    """Code that answers in its place if no mock does."""

    def __post_init__(self) -> None:
        require_members(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class MockTool:
    """A tool with fixed answers; raises an InvalidInputError if a member is of another kind."""

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
    fake: FakeTools | None = field(default=None, repr=False)
    """As of a `PythonTool`."""

    def __post_init__(self) -> None:
        require_members(self)


Tool: TypeAlias = PythonTool | OpenApiTool | MockTool


def by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    """Return *tools* by the names that code calls them by; one of a document has many.

    Raises:
        InvalidInputError: two have one name, or one is not a tool.
    """
    found: dict[str, Tool] = {}
    for tool in tools:
        if not isinstance(tool, Tool):
            raise InvalidInputError(
                f"{type(tool).__name__} is not a tool: give a PythonTool, an OpenApiTool or a MockTool"
            )
        for name in tool.operations if isinstance(tool, OpenApiTool) else [tool.name]:
            if name in found:
                raise InvalidInputError(f"two tools have the name {name!r}; rename one")
            found[name] = tool
    return found


def without(tools: Iterable[Tool], names: Collection[str]) -> Iterator[Tool]:
    """Yield *tools* without those of *names*; one of a document keeps its other operations."""
    for tool in tools:
        if isinstance(tool, OpenApiTool):
            kept = {name: each for name, each in tool.operations.items() if name not in names}
            if kept:
                yield replace(tool, operations=kept)
        elif tool.name not in names:
            yield tool


_OBJECT: Final = {"type": "object"}
_LIST: Final = {"type": "array", "items": {}}
_KINDS: Final[dict[str, dict[str, Any]]] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    **dict.fromkeys(("dict", "Dict", "Mapping"), _OBJECT),
    **dict.fromkeys(("list", "List", "tuple", "Tuple", "set", "Set", "Sequence", "Iterable"), _LIST),
}
"""Of types by their names."""


def declaration_of(name: str, tool: Tool) -> dict[str, Any]:
    """Return *tool*, called *name*, as JSON: ``name``, ``description`` and ``parametersJsonSchema``.

    A Python tool is declared by its signature and docstring, as on the platform; a mock takes any arguments.
    Code that cannot be read is declared without parameters: a call of it says what is wrong.
    """
    match tool:
        case PythonTool():
            return _of_python(tool)
        case OpenApiTool():
            operation = tool.operations[name]
            shown = [each for each in operation.parameters if not each.of_session.expression]
            properties: dict[str, Any] = {each.name: {} for each in shown}
            required = [*dict.fromkeys(each.name for each in shown if each.required)]
            of_session = operation.body_of_session
            if operation.body is not None and not of_session.expression:
                properties["body"] = dict(_OBJECT) if of_session or operation.takes_json else {}
                required += ["body"] if operation.body_required else []
            return declared(name, operation.description, properties, required)
        case MockTool():
            made = declared(name, tool.description, {}, [])
            return made if tool.parameters is None else {**made, "parametersJsonSchema": tool.parameters}


def declared(name: str, description: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    """Return the declaration of a function whose parameters are *properties* of an object."""
    schema: dict[str, Any] = {**_OBJECT, "properties": properties}
    if required:
        schema["required"] = required
    return {"name": name, "description": description, "parametersJsonSchema": schema}


def _of_python(tool: PythonTool) -> dict[str, Any]:
    code = CodeFile.of(tool.code)
    try:
        functions = scan(ast.parse(code.source)).functions
    except UNREADABLE:
        functions = ()
    wanted = code.name or tool.name
    found = next((each for each in functions if each.name == wanted), next(iter(functions), None))
    if found is None:
        return declared(tool.name, tool.description, {}, [])
    arguments = [*with_defaults(found.args)]
    properties = {argument.arg: _schema(argument.annotation) for argument, _ in arguments}
    required = [argument.arg for argument, default in arguments if default is None]
    described = ast.get_docstring(found, clean=False)
    return declared(tool.name, tool.description or inspect.cleandoc(described or ""), properties, required)


def with_defaults(arguments: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """Yield each parameter but ``*args`` and ``**kwargs``, and its default; None for none."""
    positional = [*arguments.posonlyargs, *arguments.args]
    without = [None] * (len(positional) - len(arguments.defaults))
    yield from zip(positional, [*without, *arguments.defaults], strict=True)
    yield from zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)


def _schema(annotation: ast.expr | None) -> dict[str, Any]:
    """Return the JSON schema of *annotation*; empty for what is not known."""
    match annotation:
        case ast.Constant(value=str() as text):
            try:
                return _schema(ast.parse(text, mode="eval").body)
            except UNREADABLE:
                return {}
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return dict(_KINDS.get(name, {}))
        case ast.BinOp(op=ast.BitOr()):
            parts = []
            while isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
                parts.append(annotation.right)
                annotation = annotation.left
            return _any_of([annotation, *reversed(parts)])
        case ast.Subscript(value=ast.Attribute(attr=name) | ast.Name(id=name), slice=inner):
            return _of_generic(name, inner.elts if isinstance(inner, ast.Tuple) else [inner])
        case _:
            return {}


def _of_generic(name: str, items: list[ast.expr]) -> dict[str, Any]:
    kind = _KINDS.get(name, {})
    match name:
        case _ if not items:
            return dict(kind)
        case "Optional" | "Annotated":
            return _schema(items[0])
        case "Union":
            return _any_of(items)
        case "Literal":
            return _enum(items)
        case _:
            return {**kind, "items": _schema(items[0])} if kind is _LIST else dict(kind)


def _enum(items: list[ast.expr]) -> dict[str, Any]:
    """Return the schema of a Literal; empty if JSON has no such value."""
    try:
        values = [ast.literal_eval(each) for each in items]
    except ValueError:  # such as a member of an enumeration
        return {}
    return {"enum": values} if all(isinstance(each, str | int | None) for each in values) else {}


def _any_of(annotations: list[ast.expr]) -> dict[str, Any]:
    """Return the schema of a union; a part that is None makes it no other type."""
    kinds = [each for each in annotations if not (isinstance(each, ast.Constant) and each.value is None)]
    schemas = [_schema(each) for each in kinds] or [{}]
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
