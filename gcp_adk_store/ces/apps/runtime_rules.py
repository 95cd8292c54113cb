"""Look over how code uses the names of the runtime."""

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Final

import pydantic

from gcp_adk_store.ces.apps.findings import Finding, Parsed
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
        if isinstance(node, ast.Attribute):
            yield from _check_member(use, node)
            yield from _check_answer(use, node)


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


def _is_bytes(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=bytes()) | ast.Call(func=ast.Name(id="bytes")):
            return True
        case ast.Call(func=ast.Attribute(attr="encode")):
            return True
        case _:
            return False


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
