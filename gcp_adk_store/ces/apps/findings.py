"""Say what is wrong with a file of an agent app, where, and how to fix it."""

import ast
import builtins
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, Self

from gcp_adk_store.ces.guest.context import ToolContext
from gcp_adk_store.ces.guest.contract import IMPORTABLE
from gcp_adk_store.ces.guest.host_calls import AsyncTools, ExternalResponse, Requests, Tools
from gcp_adk_store.ces.guest.namespace import CLASSES
from gcp_adk_store.ces.guest.scanning import TYPING_NAMES, UNREADABLE, Scan, bound_names, scan
from gcp_adk_store.ces.guest.scanning import missing_module as guest_missing_module
from gcp_adk_store.ces.sandbox.environment import PLATFORM_VERSION

# CPython 3.12 beside the releases that this runs on.
_GONE_IN_3_12: Final = frozenset({"asynchat", "asyncore", "distutils", "imp", "smtpd"})
_GONE_AFTER_3_12: Final = frozenset(
    {"aifc", "audioop", "cgi", "cgitb", "chunk", "crypt", "imghdr", "lib2to3", "mailcap", "msilib", "nis"}
    | {"nntplib", "ossaudiodev", "pipes", "sndhdr", "spwd", "sunau", "telnetlib", "uu", "xdrlib"}
)
_NEW_AFTER_3_12: Final = frozenset({"annotationlib", "compression"})

STANDARD: Final = (sys.stdlib_module_names - _GONE_IN_3_12 - _NEW_AFTER_3_12) | _GONE_AFTER_3_12
"""Top-level modules of the standard library of CPython 3.12."""

GLOBALS: Final = frozenset(
    {*CLASSES, "async_tools", "ces_requests", "context", "get_variable", "remove_variable", "set_variable"}
    | {"tools"}
)
"""Names that are there without an import."""
NOT_MEASURED: Final = frozenset(
    {"AsyncTools", "Event", "EventActions", "FunctionDeclaration", "Requests", "ToolContext"}
    | {"ToolDeclaration", "Tools"}
)
"""Documented classes that were missing among the globals of a tool on the platform."""


def missing_module(name: str, members: tuple[str, ...] = ()) -> str | None:
    """Return what of ``import name`` or ``from name import members`` the platform does not have."""
    return guest_missing_module(name, members, importable=IMPORTABLE, standard=STANDARD)


_KNOWN: Final = (
    frozenset(dir(builtins))
    | GLOBALS
    | TYPING_NAMES  # a rule of its own says that they are not imported
    | {"__annotations__", "__builtins__", "__class__", "__file__", "__module__", "__qualname__"}
    | {"ces_internal", "ces_public", "importlib", "requests"}
)
_WRITE_GLOBALS: Final = frozenset({"exec", "globals", "vars", "setattr"})


def _may_define_any(node: ast.AST) -> bool:
    match node:
        case ast.ImportFrom(names=[ast.alias(name="*")]):
            return True
        case ast.Name(id=name, ctx=ast.Load()):
            return name in _WRITE_GLOBALS
        case ast.ExceptHandler():
            return catches(node, {"NameError"})
        case _:
            return False


def catches(handler: ast.ExceptHandler, names: Collection[str]) -> bool:
    """Return whether *handler* catches everything, or exceptions of these *names*."""
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(each is None or (isinstance(each, ast.Name) and each.id in names) for each in caught)


Severity = Literal["error", "warning"]


ERRORS: Final = frozenset(
    {
        *("CES001", "CES002"),
        *("CES101", "CES102", "CES103", "CES105", "CES106", "CES107"),
        *("CES201", "CES202", "CES203", "CES301", "CES303"),
        *("CES401", "CES403", "CES406", "CES407"),
        *("CES602", "CES603", "CES604", "CES605", "CES608", "CES609", "CES610"),
    }
)
"""Codes of rules where the platform refuses the code or the code fails."""
WARNINGS: Final = frozenset(
    {
        *("CES104", "CES108", "CES109"),
        *("CES204", "CES205", "CES206", "CES302", "CES304", "CES305"),
        *("CES402", "CES404", "CES405", "CES409"),
        *("CES601", "CES606", "CES607"),
    }
)
"""Codes of rules where it may. docs/ces-commands.md says what each looks for; a code keeps its meaning for
ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong."""

    path: str
    """Of the file, from the app's folder."""
    line: int
    """Counted from 1."""
    column: int
    """Counted from 1."""
    code: str
    severity: Severity
    says: str
    fix: str


def finding(
    code: str, says: str, fix: str, *, path: str, line: int = 1, column: int = 1, certain: bool = True
) -> Finding:
    """Return what was found by the rule of *code*; a warning where it is not *certain*."""
    severity: Severity = "error" if certain and code in ERRORS else "warning"
    return Finding(path=path, line=line, column=column, code=code, severity=severity, says=says, fix=fix)


_ALLOWS: Final = re.compile(r"#\s*noqa:\s*(?:CES\d{3}[\s,]*)+")
_CODE: Final = re.compile(r"CES\d{3}")


_OF_GLOBALS: Final[dict[str, type]] = {
    **CLASSES,
    "async_tools": AsyncTools,
    "callback_context": ToolContext,
    "ces_requests": Requests,
    "context": ToolContext,
    "requests": Requests,
    "tools": Tools,
}
"""Classes whose members names of the runtime have; that of a callback's parameter, too."""


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """A file of user code, and what its names are."""

    path: str
    """As findings name it."""
    tree: ast.Module
    scanned: Scan
    allowed: Mapping[int, frozenset[str]]
    """Codes that a comment ``# noqa: CES104`` lets pass, by line."""

    @classmethod
    def of(cls, source: str, path: str) -> Self | Finding:
        """Return *source*, parsed; or what is wrong with it. Findings name it by *path*."""
        try:
            tree = ast.parse(source, path)
        except UNREADABLE as exc:
            line, column = getattr(exc, "lineno", None) or 1, getattr(exc, "offset", None) or 1
            reader = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
            says = f"{reader} cannot read it: {getattr(exc, 'msg', None) or str(exc) or type(exc).__name__}"
            fix = "the platform drops the tool or callback: fix the syntax"
            if sys.version_info < PLATFORM_VERSION:
                fix += "; if it is of Python 3.12, run lint with that"
            return finding("CES002", says, fix, path=path, line=line, column=column)
        return cls(path=path, tree=tree, scanned=scan(tree), allowed=dict(_allowed(source)))

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All of the file."""
        return [*ast.walk(self.tree)]

    @cached_property
    def first_uses(self) -> dict[str, ast.Name]:
        """The first use of each name."""
        names = [node for node in self.nodes if isinstance(node, ast.Name)]
        names.sort(key=lambda node: (node.lineno, node.col_offset), reverse=True)
        return {node.id: node for node in names}

    @property
    def undefined(self) -> list[ast.Name]:
        """The first use of each name that neither the code nor the platform defines.

        Empty if the code may define names in other ways (``from x import *``, ``globals()``), or catches
        NameError: each finding must be certain.
        """
        if any(map(_may_define_any, self.nodes)):
            return []
        known = _KNOWN | set(bound_names(self.nodes))
        return [node for name, node in self.first_uses.items() if name not in known]

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """What each node stands in."""
        return {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    @cached_property
    def own(self) -> set[str]:
        """Names that the code binds, without ``callback_context`` and what it imports from the runtime."""
        others = (node for node in self.nodes if getattr(node, "arg", "") != "callback_context")
        return set(bound_names(others, of_runtime=False))

    @cached_property
    def answers(self) -> set[str]:
        """Names that are bound to nothing but answers of tools and servers."""
        found: dict[str, bool] = {}
        for node in self.nodes:
            match node:
                case ast.arg(arg=name):
                    found[name] = False
                case ast.Name(id=name, ctx=ast.Store()):
                    parent = self.parents[node]
                    is_answer = isinstance(parent, ast.Assign) and self._is_answer(parent.value)
                    found[name] = is_answer and found.get(name, True)
        return {name for name, is_answer in found.items() if is_answer}

    @cached_property
    def asked_for(self) -> set[str]:
        """Attributes that the code looks for by ``hasattr`` before it reads them."""
        found: set[str] = set()
        for node in self.nodes:
            match node:
                case ast.Call(func=ast.Name(id="hasattr"), args=[_, ast.Constant(value=str() as name)]):
                    found.add(name)
        return found

    def class_of(self, node: ast.expr) -> type | None:
        """Return the class of the runtime whose members *node* has, as far as the code says it."""
        if self._is_answer(node) or (isinstance(node, ast.Name) and node.id in self.answers):
            return ExternalResponse
        return self._class_of_global(node)

    def _class_of_global(self, node: ast.expr) -> type | None:
        """Return the class of a name of the runtime; code that binds the name itself hides it."""
        if not isinstance(node, ast.Name) or node.id in self.own:
            return None
        return _OF_GLOBALS.get(node.id)

    def _is_answer(self, node: ast.expr) -> bool:
        """Whether *node* is a call that returns an ExternalResponse."""
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr=method)):
                of_class = self._class_of_global(owner)
                is_request = of_class is Requests and not method.startswith("async_")
                return of_class is Tools or (is_request and hasattr(Requests, method))
            case _:
                return False

    def found(
        self, code: str, says: str, fix: str, node: ast.AST | None = None, *, certain: bool = True
    ) -> Finding:
        """Return a finding at *node*."""
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1
        return finding(code, says, fix, path=self.path, line=line, column=column, certain=certain)


def _allowed(source: str) -> Iterator[tuple[int, frozenset[str]]]:
    for number, line in enumerate(source.split("\n"), start=1):
        if comment := _ALLOWS.search(line):
            yield number, frozenset(_CODE.findall(comment[0]))
