"""Look over one file of a tool or a callback without running it."""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Self

from gcp_adk_store.ces.apps.findings import Finding, finding
from gcp_adk_store.ces.apps.names import undefined
from gcp_adk_store.ces.apps.platform_modules import GLOBALS, missing_module
from gcp_adk_store.ces.guest import guardrails
from gcp_adk_store.ces.guest.contract import GUARDRAILS, Callback
from gcp_adk_store.ces.guest.scanning import Scan, scan
from gcp_adk_store.ces.sandbox.interpreters import PLATFORM_VERSION

Function = ast.FunctionDef | ast.AsyncFunctionDef

CALLBACK_PARAMETERS: Final[Mapping[Callback, tuple[str, ...]]] = {
    "before_agent": ("callback_context",),
    "after_agent": ("callback_context",),
    "before_model": ("callback_context", "llm_request"),
    "after_model": ("callback_context", "llm_response"),
    "before_tool": ("tool", "input", "callback_context"),
    "after_tool": ("tool", "input", "callback_context", "tool_response"),
    "before_agent_guardrail": ("callback_context",),
    "after_agent_guardrail": ("callback_context",),
    "before_model_guardrail": ("callback_context", "llm_request"),
    "after_model_guardrail": ("callback_context", "llm_response"),
}
_ANNOTATIONS: Final = {
    "callback_context": "CallbackContext",
    "llm_request": "LlmRequest",
    "llm_response": "LlmResponse",
    "tool": "Tool",
    "input": "dict",
    "tool_response": "dict",
}
"""Of parameters that callbacks have; those of tools are any."""

_ALLOWS: Final = re.compile(r"#\s*noqa:\s*(?:CES\d{3}[\s,]*)+")
_CODE: Final = re.compile(r"CES\d{3}")
_CATCH_IMPORTS: Final = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
_REQUEST_METHODS: Final = frozenset({"get", "post", "put", "patch", "delete", "head", "options", "request"})
_REQUEST_KEYWORDS: Final = frozenset({"method", "url", "params", "headers", "data", "json"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A file of user code."""

    path: str
    """As findings name it."""
    tree: ast.Module
    scanned: Scan
    allowed: Mapping[int, frozenset[str]]
    """Codes that a comment ``# noqa: CES104`` lets pass, by line."""

    @classmethod
    def of(cls, source: str, path: str) -> Self | Finding:
        """Return *source*, parsed; or what is wrong with it.

        Args:
            source: The text of the file.
            path: As findings name it.
        """
        try:
            tree = ast.parse(source, path)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
            line, column = getattr(exc, "lineno", None) or 1, getattr(exc, "offset", None) or 1
            reader = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
            says = f"{reader} cannot read it: {getattr(exc, 'msg', None) or str(exc) or type(exc).__name__}"
            fix = "the platform drops the tool or callback: mend the syntax"
            if sys.version_info < PLATFORM_VERSION:
                fix += "; if it is of Python 3.12, run lint with that"
            return finding("CES002", says, fix, path=path, line=line, column=column)
        return cls(path=path, tree=tree, scanned=scan(tree), allowed=dict(_allowed(source)))

    @property
    def functions(self) -> list[Function]:
        """Those of the module, in order."""
        return [node for node in self.tree.body if isinstance(node, Function)]

    def found(self, code: str, says: str, fix: str, node: ast.AST | None = None) -> Finding:
        """Return a finding at *node*."""
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1
        return finding(code, says, fix, path=self.path, line=line, column=column)


def _allowed(source: str) -> Iterator[tuple[int, frozenset[str]]]:
    for number, line in enumerate(source.split("\n"), start=1):
        if comment := _ALLOWS.search(line):
            yield number, frozenset(_CODE.findall(comment[0]))


def check_tool(parsed: Parsed, name: str) -> Iterator[Finding]:
    """Yield what is wrong with the code of the tool *name*; names of tools apart."""
    functions = parsed.functions
    if not functions:
        yield parsed.found(
            "CES101", f"the tool {name} defines no function", f"define: def {name}(...) -> dict:"
        )
        return
    first = functions[0]
    if first.name != name:
        fix = f"put def {name} first, or call the tool {first.name}"
        says = f"the platform calls this tool {first.name}, after its first function"
        yield parsed.found("CES102", says, fix, first)
    entry = next((function for function in functions if function.name == name), first)
    if not ast.get_docstring(entry):
        fix = "say in a docstring what it does, when to call it, and what each parameter is"
        yield parsed.found("CES104", f"{entry.name} has no docstring, by which models choose it", fix, entry)
    yield from _check_async(parsed, entry)
    yield from _check_parameters(parsed, entry)
    yield from _check_annotations(parsed, "CES201", "the platform refuses the code")
    yield from _check_code(parsed)


def check_callback(parsed: Parsed, callback: Callback) -> Iterator[Finding]:
    """Yield what is wrong with the code of a callback; names of tools apart."""
    name, wanted = f"{callback}_callback", CALLBACK_PARAMETERS[callback]
    signature = f"def {name}({', '.join(wanted)}):"
    names = (name, name.replace("_guardrail", ""))  # a guardrail's function may be called as an agent's
    found = next((each for name in names for each in parsed.functions if each.name == name), None)
    if found is None:
        yield parsed.found("CES101", f"the function {name} is missing", f"define: {signature}")
        return
    arguments = found.args
    given = [each.arg for each in (*arguments.args, *arguments.kwonlyargs)]
    required = given[: len(arguments.args) - len(arguments.defaults)]
    accepts = set(given) >= set(wanted) or arguments.kwarg is not None
    if not accepts or not set(required) <= set(wanted) or arguments.posonlyargs:
        says = f"{name}({', '.join(given)}) is called with {', '.join(wanted)}, by these names"
        yield parsed.found("CES106", says, f"name them: {signature}", found)
    yield from _check_async(parsed, found)
    yield from _check_annotations(parsed, "CES205", "the platform refuses such tools")
    yield from _check_code(parsed, frozenset(guardrails.GLOBALS) if callback in GUARDRAILS else frozenset())


def check_tool_names(parsed: Parsed, known: frozenset[str]) -> Iterator[Finding]:
    """Yield the unknown tools that the code names.

    Args:
        parsed: The code.
        known: Names of all tools of the app.
    """
    for named in parsed.scanned.tools:
        if named.name not in known and not named.name.startswith("_"):
            yield finding(
                "CES401",
                f"{named.owner}.{named.name}: the app has no tool of that name",
                f"call one of: {', '.join(sorted(known)) or 'the app has no tools'}",
                path=parsed.path,
                line=named.line,
            )


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
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: list[tuple[ast.arg, ast.expr | None]] = [
        *zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    for argument, default in defaults:
        if isinstance(default, ast.Constant) and default.value is None:
            says = (
                f"{argument.arg} of {entry.name} is None by default: the platform refuses or drops the tool"
            )
            yield parsed.found("CES202", says, 'take a default of its type, such as "", 0 or []', argument)
    for argument in (*positional, *arguments.kwonlyargs):
        if argument.arg == "context":
            says = f"{entry.name} has a parameter context, which the model would be asked for"
            yield parsed.found("CES204", says, "take it out: context is a global", argument)


def _check_code(parsed: Parsed, more: frozenset[str] = frozenset()) -> Iterator[Finding]:
    """Yield what may be wrong with any code; *more* are names that it finds beside those of all code."""
    yield from _check_imports(parsed)
    for name, line in parsed.scanned.missing_imports:
        says = f"{name} is not imported: the platform may say that the name is not defined"
        fix = f"write: from typing import {name}"
        yield finding("CES302", says, fix, path=parsed.path, line=line)
    for node in undefined(parsed.tree):
        if node.id in more:
            continue
        fix = (
            f"write: import {node.id}"
            if missing_module(node.id) is None
            else "define it, or mend its spelling"
        )
        yield parsed.found("CES303", f"nothing defines {node.id}: it raises NameError", fix, node)
    yield from _check_calls(parsed)


def _check_annotations(parsed: Parsed, code: str, consequence: str) -> Iterator[Finding]:
    for function in parsed.functions:
        arguments = function.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if argument.annotation is None:
                says = f"{argument.arg} of {function.name} has no type: {consequence}"
                annotation = _ANNOTATIONS.get(argument.arg, "str")
                yield parsed.found(code, says, f"annotate it: {argument.arg}: {annotation}", argument)


def _check_imports(parsed: Parsed) -> Iterator[Finding]:
    tried = set(_tried(parsed.tree))
    for node in ast.walk(parsed.tree):
        if node in tried:
            continue
        missing: list[str | None] = []
        if isinstance(node, ast.Import):
            missing = [missing_module(alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            members = tuple(alias.name for alias in node.names)
            missing = [missing_module(node.module, members) if not node.level and node.module else "."]
        for name in filter(None, missing):
            if name in GLOBALS:
                fix = "take the import out: it is a global"
            elif name == "requests":
                fix = "use the global ces_requests"
            elif name == ".":
                fix = "put what is imported into this file: files cannot import each other"
            else:
                fix = "there are the standard library of Python 3.12, pydantic, numpy and protobuf"
            yield parsed.found("CES301", f"the platform has no module {name}", fix, node)


def _tried(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield what is in a ``try`` that catches a missing module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and any(map(_catches_imports, node.handlers)):
            for statement in node.body:
                yield from ast.walk(statement)


def _catches_imports(handler: ast.ExceptHandler) -> bool:
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(each is None or (isinstance(each, ast.Name) and each.id in _CATCH_IMPORTS) for each in caught)


def _check_calls(parsed: Parsed) -> Iterator[Finding]:
    bound = {
        node.arg if isinstance(node, ast.arg) else node.id
        for node in ast.walk(parsed.tree)
        if isinstance(node, ast.arg) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    }
    for node in ast.walk(parsed.tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner, method = node.func.value, node.func.attr
        if not isinstance(owner, ast.Name) or owner.id in bound:
            continue
        if owner.id == "ces_requests" and method.removeprefix("async_") in _REQUEST_METHODS:
            for keyword in node.keywords:
                if keyword.arg is not None and keyword.arg not in _REQUEST_KEYWORDS:
                    says = f"ces_requests.{method}() has no keyword {keyword.arg}: it raises TypeError"
                    yield parsed.found("CES403", says, "there are params, headers, data and json", keyword)
        elif owner.id in {"tools", "async_tools"} and (node.keywords or len(node.args) > 1):
            says = f"{owner.id}.{method}(...) takes its arguments as one dict"
            yield parsed.found("CES402", says, f'write: {owner.id}.{method}({{"name": value}})', node)
