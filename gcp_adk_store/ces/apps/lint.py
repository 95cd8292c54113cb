"""Look over an agent app without running it: what its platform would refuse, drop or fail on."""

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Final

from gcp_adk_store.ces.apps.agents import Toolset
from gcp_adk_store.ces.apps.findings import (
    GLOBALS,
    NOT_MEASURED,
    Finding,
    Parsed,
    catches,
    finding,
    missing_module,
)
from gcp_adk_store.ces.apps.layout import AgentApp, CallbackCode, ToolCode, load_code
from gcp_adk_store.ces.apps.rules import SYSTEM_TOOLS, check_configuration, check_use
from gcp_adk_store.ces.guest.callbacks import GUARDRAIL_GLOBALS, OVERRIDES
from gcp_adk_store.ces.guest.contract import GUARDRAILS, Callback, parameters_of
from gcp_adk_store.ces.guest.namespace import CLASSES
from gcp_adk_store.ces.guest.scanning import Function, bound_names
from gcp_adk_store.ces.tools.declarations import with_defaults
from gcp_adk_store.ces.tools.openapi import OpenApiTool
from gcp_adk_store.ces.tools.session_fields import is_marked
from gcp_adk_store.errors import InvalidInputError

_ANNOTATIONS: Final = {
    "callback_context": "CallbackContext",
    "llm_request": "LlmRequest",
    "llm_response": "LlmResponse",
    "tool": "Tool",
    "input": "dict",
    "tool_response": "dict",
}
"""Of parameters that callbacks have; those of tools are any."""

_SNAKE: Final = re.compile(r"[a-z_][a-z0-9_]*")
_CATCH_IMPORTS: Final = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


def check_tool(parsed: Parsed, name: str, *, selected: bool = False) -> Iterator[Finding]:
    """Yield what is wrong with the code of the tool *name*; names of tools apart.

    Where the configuration has *selected* the function, by the API's reference another one may be the first;
    measurements and the platform's own linter say that none may.
    """
    functions = parsed.scanned.functions
    if not functions:
        says = f"the tool {name} defines no function"
        yield parsed.found("CES101", says, f"define: def {name}(...) -> dict:")
        return
    first = functions[0]
    entry = next((function for function in functions if function.name == name), first)
    if first.name != name:
        fix = f"put def {name} first, or call the tool {first.name}"
        certain = not selected or entry is first
        verb = "calls" if certain else "may call"
        says = f"the platform {verb} this tool {first.name}, after its first function"
        yield parsed.found("CES102", says, fix, first, certain=certain)
    if not _SNAKE.fullmatch(entry.name):
        says = f"{entry.name} is not snake_case, as names of tools are on the platform"
        yield parsed.found("CES108", says, "write it in lower case, with _ between words", entry)
    if not ast.get_docstring(entry):
        fix = "say in a docstring what it does, when to call it, and what each parameter is"
        yield parsed.found("CES104", f"{entry.name} has no docstring, by which models choose it", fix, entry)
    yield from _check_async(parsed, entry)
    yield from _check_parameters(parsed, entry)
    yield from _check_annotations(parsed, "CES201", "the platform refuses the code")
    yield from _check_measured(parsed)
    yield from _check_code(parsed)


def check_callback(parsed: Parsed, callback: Callback) -> Iterator[Finding]:
    """Yield what is wrong with the code of a callback; names of tools apart."""
    name, wanted = f"{callback}_callback", parameters_of(callback)
    signature = f"def {name}({', '.join(wanted)}):"
    names = (name, name.replace("_guardrail", ""))  # a guardrail's function may be called as an agent's
    found = next((each for name in names for each in parsed.scanned.functions if each.name == name), None)
    if found is None:
        yield parsed.found("CES101", f"the function {name} is missing", f"define: {signature}")
        return
    arguments = found.args
    given = [each.arg for each in (*arguments.args, *arguments.kwonlyargs)]
    required = [argument.arg for argument, default in with_defaults(arguments) if default is None]
    accepts = set(given) >= set(wanted) or arguments.kwarg is not None
    if not accepts or not set(required) <= set(wanted) or arguments.posonlyargs:
        says = f"{name}({', '.join(given)}) is called with {', '.join(wanted)}, by these names"
        yield parsed.found("CES106", says, f"name them: {signature}", found)
    yield from _check_async(parsed, found)
    yield from _check_returns(parsed, found, callback)
    yield from _check_annotations(parsed, "CES205", "the platform refuses such tools")
    yield from _check_code(parsed, frozenset(GUARDRAIL_GLOBALS) if callback in GUARDRAILS else frozenset())


def check_tool_names(parsed: Parsed, known: frozenset[str]) -> Iterator[Finding]:
    """Yield the tools that the code names and that are not among those *known*."""
    for named in parsed.scanned.tools:
        if named.attr not in known and not named.attr.startswith("_"):
            others = f"call one of: {', '.join(sorted(known)) or 'the app has no tools'}"
            system = SYSTEM_TOOLS.get(named.attr)
            fix = others if system is None else f"return {system} from a callback: models call this tool"
            says = f"{ast.unparse(named)}: the app has no tool of that name"
            yield parsed.found("CES401", says, fix, named)


def _check_async(parsed: Parsed, function: Function) -> Iterator[Finding]:
    if isinstance(function, ast.AsyncFunctionDef):
        fix = "write def; async_tools and ces_requests.async_get run side by side without it"
        yield parsed.found("CES105", f"{function.name} is an async def", fix, function)


def _check_parameters(parsed: Parsed, entry: Function) -> Iterator[Finding]:
    """Yield what is wrong with the parameters by which a model calls *entry*."""
    arguments = entry.args
    for star, each in (("*", arguments.vararg), ("**", arguments.kwarg)):
        if each is not None:
            says = f"{entry.name} takes {star}{each.arg}: the platform drops the tool without a word"
            yield parsed.found("CES203", says, "name each parameter", each)
    for argument, default in with_defaults(arguments):
        if isinstance(default, ast.Constant) and default.value is None:
            optional = _is_optional(argument)
            code, verb = ("CES206", "may refuse or drop") if optional else ("CES202", "refuses or drops")
            says = f"{argument.arg} of {entry.name} is None by default: the platform {verb} the tool"
            yield parsed.found(code, says, 'take a default of its type, such as "", 0 or []', argument)
        if argument.arg == "context":
            says = f"{entry.name} has a parameter context, which the model would be asked for"
            yield parsed.found("CES204", says, "take it out: context is a global", argument)


def _is_optional(argument: ast.arg) -> bool:
    """Whether the annotation says that None is a value; examples of the platform have such parameters."""
    text = "" if argument.annotation is None else ast.unparse(argument.annotation).strip("'")
    return text.removeprefix("typing.").startswith("Optional[") or text.endswith("| None")


def _check_measured(parsed: Parsed) -> Iterator[Finding]:
    """Yield documented names that were missing among the globals of a tool."""
    for name in sorted(NOT_MEASURED.difference(bound_names(parsed.nodes)) & parsed.first_uses.keys()):
        says = f"{name} is documented, and was missing among the globals of a tool on the platform"
        fix = f"write: from ces_public import {name}, in a try, or do without it"
        yield parsed.found("CES305", says, fix, parsed.first_uses[name])


def _check_returns(parsed: Parsed, callback: Function, kind: Callback) -> Iterator[Finding]:
    """Yield what *callback* returns that is of another type than its kind may return."""
    if kind in GUARDRAILS:  # which have results of their own
        return
    wanted = OVERRIDES[kind].__name__
    waiting: list[ast.AST] = [*callback.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Function | ast.Lambda | ast.ClassDef):
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Return) and node.value is not None:
            found = _type_of(node.value)
            if found not in {None, wanted}:
                says = f"{callback.name} returns {found}; the platform takes {wanted} or None"
                yield parsed.found("CES109", says, f"return {wanted}", node)


def _type_of(node: ast.expr) -> str | None:
    """Return the name of the type of *node*, or None if only a run shows it, or if it is None."""
    match node:
        case ast.Constant(value=value):
            return None if value is None else type(value).__name__
        case ast.Call(func=ast.Attribute(value=ast.Name(id="LlmResponse" | "Part" as name))):
            return name
        case ast.Call(func=ast.Name(id=name)):
            return name if name in CLASSES else None
        case ast.Dict() | ast.DictComp() | ast.List() | ast.ListComp():
            return type(node).__name__.removesuffix("Comp").lower()
        case ast.JoinedStr():
            return "str"
        case _:
            return None


def _check_code(parsed: Parsed, more: frozenset[str] = frozenset()) -> Iterator[Finding]:
    """Yield what may be wrong with any code; *more* are names that it finds beside those of all code."""
    yield from _check_imports(parsed)
    for name, line in parsed.scanned.missing_imports:
        says = f"{name} is not imported: the platform may say that the name is not defined"
        fix = f"write: from typing import {name}"
        yield finding("CES302", says, fix, path=parsed.path, line=line)
    for node in parsed.undefined:
        if node.id in more:
            continue
        code, says = "CES303", f"nothing defines {node.id}: it raises NameError"
        fix = "define it, or fix its spelling"
        if node.id == "logger":
            why = "the platform's examples use it, and it was missing among the globals"
            code, says = "CES304", f"logger is not imported: {why}"
            fix = "write: import logging; logger = logging.getLogger(__name__), or print"
        elif missing_module(node.id) is None:
            fix = f"write: import {node.id}"
        yield parsed.found(code, says, fix, node)
    yield from check_use(parsed)


def _check_annotations(parsed: Parsed, code: str, consequence: str) -> Iterator[Finding]:
    for function in parsed.scanned.functions:
        for argument, _ in with_defaults(function.args):
            if argument.annotation is None:
                says = f"{argument.arg} of {function.name} has no type: {consequence}"
                annotation = _ANNOTATIONS.get(argument.arg, "str")
                yield parsed.found(code, says, f"annotate it: {argument.arg}: {annotation}", argument)


_IMPORTS: Final = {
    **dict.fromkeys(GLOBALS, "take the import out: it is a global"),
    "requests": "use the global ces_requests",
    ".": "put what is imported into this file: files cannot import each other",
}
"""What to do about an import, by the module that is missing."""
_THERE: Final = "there are the standard library of Python 3.12, pydantic, numpy and protobuf"


def _check_imports(parsed: Parsed) -> Iterator[Finding]:
    tried = set(_tried(parsed))
    for node in parsed.nodes:
        if node in tried:
            continue
        missing: list[str | None] = []
        if isinstance(node, ast.Import):
            missing = [missing_module(alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            members = tuple(alias.name for alias in node.names)
            missing = [missing_module(node.module, members) if not node.level and node.module else "."]
        for name in filter(None, missing):
            says = f"the platform has no module {name}"
            yield parsed.found("CES301", says, _IMPORTS.get(name, _THERE), node)


def _tried(parsed: Parsed) -> Iterator[ast.AST]:
    """Yield what is in a ``try`` that catches a missing module."""
    for node in parsed.nodes:
        if isinstance(node, ast.Try) and any(catches(each, _CATCH_IMPORTS) for each in node.handlers):
            for statement in node.body:
                yield from ast.walk(statement)


def lint_app(app: AgentApp) -> list[Finding]:
    """Return what is wrong with *app*, by file and line; not what ``# noqa: CES...`` on a line allows."""
    found = [*app.problems]
    allowed: dict[str, Mapping[int, frozenset[str]]] = {}
    parsed_tools: list[tuple[ToolCode, Parsed]] = []
    codes: tuple[ToolCode | CallbackCode, ...] = (*app.tools, *app.callbacks)
    for code in codes:
        path = app.shown(code.path)
        try:
            parsed = Parsed.of(load_code(code.path).source, path)
        except InvalidInputError as exc:
            parsed = finding("CES001", str(exc), "put a file there that can be read", path=path)
        if isinstance(parsed, Finding):
            found.append(parsed)
            continue
        allowed[parsed.path] = parsed.allowed
        if isinstance(code, ToolCode):
            parsed_tools.append((code, parsed))
            found += check_tool(parsed, code.name, selected=code.selected)
        else:
            found += check_callback(parsed, code.callback)
        found += check_tool_names(parsed, app.tool_names)
    found += _duplicates(parsed_tools)
    found += [each for toolset in app.toolsets for each in _marks(app, toolset)]
    found += check_configuration(app)
    # Agents may share the file of a callback.
    wrong = (each for each in set(found) if each.code not in allowed.get(each.path, {}).get(each.line, ()))
    return sorted(wrong, key=lambda each: (each.path, each.line, each.column, each.code, each.says))


def _marks(app: AgentApp, toolset: Toolset) -> Iterator[Finding]:
    """Yield the operations of *toolset* that are not called, because the session cannot give a value."""
    if not is_marked(toolset.spec):
        return
    fix = "mark fields of JSON objects and lists, or a parameter"
    try:
        # Operations are read, and not called.
        server = "https://server.invalid"
        tool = OpenApiTool.from_spec(toolset.spec, display_name=toolset.name, server=server)
        unfillable = {name: each.unfillable for name, each in tool.operations.items() if each.unfillable}
        wrong = [f"{name} is not called: {why}" for name, why in unfillable.items()]
    except InvalidInputError as exc:
        wrong = [f"no operation of {toolset.name} is called: {exc}"]
    for says in wrong:
        yield finding("CES601", says, fix, path=app.shown(toolset.path))


def _duplicates(tools: list[tuple[ToolCode, Parsed]]) -> Iterator[Finding]:
    """Yield functions whose name an earlier tool has: the platform wants each once."""
    owners: dict[str, ToolCode] = {}
    for tool, parsed in tools:
        for function in parsed.scanned.functions:
            owner = owners.setdefault(function.name, tool)
            if owner is not tool:
                certain = not tool.selected
                verb = "refuses" if certain else "may refuse"
                says = f"{function.name} is in the tool {owner.name} too: the platform {verb} the second"
                fix = f"rename it, for instance to _{tool.name}_{function.name.strip('_')}"
                yield parsed.found("CES103", says, fix, function, certain=certain)
