"""Look over how code uses the names of the runtime."""

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

import pydantic

from gcp_adk_store.ces.apps.findings import Finding, Function, Parsed
from gcp_adk_store.ces.guest.context import ToolContext
from gcp_adk_store.ces.guest.host_calls import ExternalResponse
from gcp_adk_store.ces.guest.namespace import CLASSES
from gcp_adk_store.ces.guest.scanning import bound_names

_METHODS: Final = frozenset({"get", "post", "put", "patch", "delete", "head", "options", "request"})
_REQUEST_METHODS: Final = _METHODS | {f"async_{name}" for name in _METHODS}
_REQUEST_KEYWORDS: Final = frozenset({"method", "url", "params", "headers", "data", "json"})
_OF_ANSWERS: Final = frozenset(
    {"json", "raise_for_status", "ok"} | {each.name for each in fields(ExternalResponse)}
)
_CONTEXTS: Final = ("context", "callback_context")
_VARIABLES: Final = frozenset({"state", "variables"})
_GETTERS: Final = frozenset({"get_variable", "get"})
_CHANGES: Final = frozenset(
    {"append", "clear", "extend", "insert", "pop", "popitem", "remove", "reverse", "setdefault", "sort"}
    | {"update"}
)
_SET: Final = frozenset(
    {
        *("BORG_CONTAINER_RUNTIME", "GPG_KEY", "LANG", "MPLCONFIGDIR", "PATH", "PYTHONPATH"),
        *("SANDBOX_INPUT_OUTPUT_DIRECTORY", "XBOX_PARALLEL_SOCKET"),
    }
)
"""Environment variables that were seen on the platform, beside those of ``PYTHON_``."""
_LONG_S: Final = 5
"""Seconds above which a tool must be asynchronous, by the platform's guide."""
_WRAPS: Final = frozenset({"result", "output", "error"})
"""Keys of a tool's response that are not the tool's own."""


def check_use(parsed: Parsed) -> Iterator[Finding]:
    """Yield what is wrong with how the code of a tool or a callback uses the runtime."""
    use = _Use(parsed)
    for node in use.nodes:
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="tools" | "async_tools" as owner), attr=method)
            ):
                if use.is_global(owner):
                    yield from _check_tool_call(use, node, owner, method)
            case ast.Attribute(value=ast.Name(id="ces_requests" | "requests" as owner)):
                if use.is_global(owner):
                    yield from _check_requests(use, node, owner)
            case (
                ast.Call(func=ast.Attribute() | ast.Name(id="get_variable"))
                | ast.Assign()
                | ast.AugAssign()
                | ast.Delete()
            ):
                yield from _check_variables(use, node)
        if isinstance(node, ast.Attribute):
            yield from _check_member(use, node)
            yield from _check_answer(use, node)
        if isinstance(node, ast.Subscript | ast.Call):
            yield from _check_environment(use, node)


def check_sleep(parsed: Parsed) -> Iterator[Finding]:
    """Yield long waits in the code of a synchronous tool."""
    for node in ast.walk(parsed.tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="time"), attr="sleep") | ast.Name(id="sleep"),
                args=[ast.Constant(value=int() | float() as seconds)],
            ) if seconds >= _LONG_S:
                says = f"the tool waits {seconds:g} s: the platform wants such tools to be ASYNCHRONOUS"
                yield parsed.found("CES410", says, 'set executionType to "ASYNCHRONOUS"', node)


def check_tool_response(parsed: Parsed, callback: Function) -> Iterator[Finding]:
    """Yield keys that an after_tool callback reads only beside ``result``."""
    if any(isinstance(node, ast.Constant) and node.value == "result" for node in ast.walk(parsed.tree)):
        return
    for node in ast.walk(callback):
        match node:
            case (
                ast.Subscript(
                    value=ast.Name(id="tool_response"), slice=ast.Constant(value=str() as key), ctx=ast.Load()
                )
                | ast.Call(
                    func=ast.Attribute(value=ast.Name(id="tool_response"), attr="get"),
                    args=[ast.Constant(value=str() as key), *_],
                )
            ) if key not in _WRAPS:
                says = f"tool_response has {key} within its key result, on some paths of the platform"
                fix = 'read it from tool_response.get("result", tool_response)'
                yield parsed.found("CES502", says, fix, node)


@dataclass
class _Use:
    """A file, and what its names are."""

    parsed: Parsed

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return [*ast.walk(self.parsed.tree)]

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        return {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    @cached_property
    def stored(self) -> set[str]:
        """Names that the code binds; parameters apart, and what it imports from the runtime."""
        others = (node for node in self.nodes if not isinstance(node, ast.arg))
        return set(bound_names(others, of_runtime=False))

    @cached_property
    def parameters(self) -> set[str]:
        return {node.arg for node in self.nodes if isinstance(node, ast.arg)}

    @cached_property
    def answers(self) -> set[str]:
        """Names that are bound to nothing but answers of tools and servers."""
        found: set[str] = set()
        others: set[str] = set(self.parameters)
        for node in self.nodes:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if self.is_answer(value):
                    found.add(name)
                case ast.Name(id=name, ctx=ast.Store()):
                    parent = self.parents[node]
                    if not (isinstance(parent, ast.Assign) and self.is_answer(parent.value)):
                        others.add(name)
        return found - others

    @cached_property
    def asked_for(self) -> set[str]:
        """Attributes that the code asks for before it reads them, by ``hasattr``."""
        found: set[str] = set()
        for node in self.nodes:
            match node:
                case ast.Call(func=ast.Name(id="hasattr"), args=[_, ast.Constant(value=str() as name)]):
                    found.add(name)
        return found

    def is_global(self, name: str) -> bool:
        """Whether *name* is the runtime's; code that binds it itself hides it."""
        return name not in self.stored and name not in self.parameters

    def is_answer(self, node: ast.AST) -> bool:
        """Whether *node* is a call that returns an ExternalResponse."""
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="tools"))):
                return self.is_global("tools")
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="ces_requests" | "requests" as owner), attr=method)
            ):
                return self.is_global(owner) and method in _METHODS
            case _:
                return False

    def found(self, code: str, says: str, fix: str, node: ast.AST) -> Finding:
        return self.parsed.found(code, says, fix, node)


def _check_tool_call(use: _Use, call: ast.Call, owner: str, method: str) -> Iterator[Finding]:
    if call.keywords or len(call.args) > 1:
        says = f"{owner}.{method}(...) takes its arguments as one dict"
        yield use.found("CES402", says, f'write: {owner}.{method}({{"name": value}})', call)
    if owner == "async_tools":
        yield from _check_collected(use, call, f"{owner}.{method}(...)")


def _check_collected(use: _Use, call: ast.Call, what: str) -> Iterator[Finding]:
    """Yield a background call whose answer the code does not wait for."""
    if isinstance(use.parents[call], ast.Expr | ast.Attribute):
        says = f"{what} returns a function, and only its call waits for the answer"
        yield use.found("CES405", says, "keep the function, and call it: waits = ...; answer = waits()", call)


def _check_requests(use: _Use, node: ast.Attribute, owner: str) -> Iterator[Finding]:
    method = node.attr
    if method not in _REQUEST_METHODS:
        fix = f"there are {', '.join(sorted(_METHODS))}, and each with async_ before it"
        says = f"{owner}.{method} does not exist: it raises AttributeError"
        yield use.found("CES406", says, fix, node)
        return
    call = use.parents[node]
    if not isinstance(call, ast.Call) or call.func is not node:
        return
    if method.startswith("async_"):
        yield from _check_collected(use, call, f"{owner}.{method}(...)")
    for keyword in call.keywords:
        if keyword.arg is not None and keyword.arg not in _REQUEST_KEYWORDS:
            says = f"{owner}.{method}() has no keyword {keyword.arg}: it raises TypeError"
            yield use.found("CES403", says, "there are params, headers, data and json", keyword)
        elif keyword.arg == "data" and _is_bytes(keyword.value):
            says = "data= of ces_requests cannot be bytes: it raises TypeError"
            yield use.found("CES407", says, "give text, or json=", keyword)
    position = method.removeprefix("async_") == "request"
    given = [each.value for each in call.keywords if each.arg == "url"] or call.args[position : position + 1]
    for url in given:
        if isinstance(url, ast.Constant) and isinstance(url.value, str) and _is_private(url.value):
            says = f"{url.value[:100]} is not public: the platform answers with the status 0"
            yield use.found("CES408", says, "use an address that everybody reaches", url)


def _is_bytes(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=bytes()) | ast.Call(func=ast.Name(id="bytes")):
            return True
        case ast.Call(func=ast.Attribute(attr="encode")):
            return True
        case _:
            return False


def _is_private(url: str) -> bool:
    """Whether no server of the internet has the host of *url*."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    try:
        return not ip_address(host).is_global
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".local", ".internal"))


def _check_member(use: _Use, node: ast.Attribute) -> Iterator[Finding]:
    """Yield attributes, and keywords of methods, that a class of the runtime does not have."""
    if not isinstance(node.value, ast.Name) or node.attr.startswith("_"):
        return
    name = node.value.id
    if name in _CONTEXTS and name not in use.stored and (name != "context" or name not in use.parameters):
        of_class: type = ToolContext
    elif name in CLASSES and use.is_global(name):
        of_class = CLASSES[name]
    else:
        return
    is_field = issubclass(of_class, pydantic.BaseModel) and node.attr in of_class.model_fields
    if not (is_field or hasattr(of_class, node.attr)):
        says = f"{name}.{node.attr} does not exist in the platform's reference: it raises AttributeError"
        yield use.found("CES409", says, "mend the name, or read what the reference has instead", node)
        return
    call = use.parents[node]
    if not isinstance(call, ast.Call) or call.func is not node or not node.attr.startswith("from_"):
        return
    known = inspect.signature(getattr(of_class, node.attr)).parameters
    for keyword in call.keywords:
        if keyword.arg is not None and keyword.arg not in known:
            says = f"{name}.{node.attr}() has no keyword {keyword.arg} in the platform's reference"
            yield use.found("CES409", says, f"it has: {', '.join(known)}", keyword)


def _check_answer(use: _Use, node: ast.Attribute) -> Iterator[Finding]:
    """Yield attributes that an ExternalResponse does not have."""
    is_answer = use.is_answer(node.value) or (
        isinstance(node.value, ast.Name) and node.value.id in use.answers
    )
    if is_answer and node.attr not in _OF_ANSWERS | use.asked_for:
        says = f"an ExternalResponse has no attribute {node.attr}"
        fix = (
            f"there are {', '.join(sorted(_OF_ANSWERS))}; json() returns what the tool or the server answered"
        )
        yield use.found("CES404", says, fix, node)


def _check_environment(use: _Use, node: ast.Subscript | ast.Call) -> Iterator[Finding]:
    match node:
        case ast.Subscript(
            value=ast.Attribute(value=ast.Name(id="os"), attr="environ"),
            slice=ast.Constant(value=str() as name),
            ctx=ast.Load(),
        ):
            pass
        case ast.Call(
            func=(
                ast.Attribute(value=ast.Name(id="os"), attr="getenv")
                | ast.Attribute(value=ast.Attribute(value=ast.Name(id="os"), attr="environ"), attr="get")
            ),
            args=[ast.Constant(value=str() as name), *_],
        ):
            pass
        case _:
            return
    if name not in _SET and not name.startswith("PYTHON_"):
        says = f"the platform sets no environment variable {name[:100]}"
        yield use.found("CES306", says, "declare a variable of the app, and read it by get_variable", node)


def _check_variables(use: _Use, node: ast.AST) -> Iterator[Finding]:
    """Yield changes inside a variable, which the platform may miss."""
    inside: list[ast.expr] = []
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in _CHANGES:
            inside = [owner]
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            inside = [each.value for each in targets if isinstance(each, ast.Subscript)]
        case ast.AugAssign(target=ast.Subscript(value=owner)):
            inside = [owner]
    for owner in inside:
        if _is_within_variable(use, owner):
            says = "a change inside a variable: the platform may miss it"
            yield use.found("CES501", says, "change a copy, and set the variable to it", node)


def _is_within_variable(use: _Use, node: ast.expr) -> bool:
    """Whether *node* is the value of a variable, or something in it."""
    match node:
        case ast.Subscript(value=owner):
            return _is_variables(use, owner) or _is_within_variable(use, owner)
        case ast.Call(func=ast.Name(id="get_variable")):
            return use.is_global("get_variable")
        case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in _GETTERS:
            return (
                _is_variables(use, owner)
                or (isinstance(owner, ast.Name) and owner.id in _CONTEXTS and method == "get_variable")
                or _is_within_variable(use, owner)
            )
        case _:
            return False


def _is_variables(use: _Use, node: ast.expr) -> bool:
    """Whether *node* is ``context.state`` or the like."""
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            return name in _CONTEXTS and name not in use.stored and attribute in _VARIABLES
        case _:
            return False
