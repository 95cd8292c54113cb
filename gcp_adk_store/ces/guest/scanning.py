"""Read user code without running it, and know what it may import."""

import ast
import builtins
import io
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

UNREADABLE: Final = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What Python raises if a text is not code, or nests too deep."""


def import_gate(importable: Sequence[str]) -> Callable[..., Any]:
    """Return an ``__import__`` for the standard library, and for *importable* and what is below, alone.

    It says of everything else what Python says of a module that is not installed. It keeps honest code
    honest; what must not be reached has to be absent.
    """

    def find(
        name: str,
        globals: Any = None,  # noqa: A002  # as Python calls it
        locals: Any = None,  # noqa: A002  # likewise
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        members, standard = fromlist or (), sys.stdlib_module_names
        missing = missing_module(name, members, importable=importable, standard=standard)
        if level or missing is None:
            return builtins.__import__(name, globals, locals, members, level)
        if missing.startswith(f"{name}."):
            member = missing.removeprefix(f"{name}.")
            raise ImportError(f"cannot import name {member!r} from {name!r}", name=name)
        raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)

    return find


def missing_module(
    name: str, members: Sequence[str], *, importable: Sequence[str], standard: Collection[str]
) -> str | None:
    """Return what ``import name``, or ``from name import members``, does not find; None if it finds all.

    There are the *standard* modules, by their top names, and *importable* ones with what is below them.
    """

    def is_within(name: str) -> bool:
        return any(name == known or name.startswith(f"{known}.") for known in importable)

    def leads(name: str) -> bool:
        return any(known.startswith(f"{name}.") for known in importable)

    top = name.partition(".")[0]
    if top in standard or is_within(name):
        return None
    if not leads(name):
        return name if leads(top) else top
    found = (f"{name}.{member}" for member in members)
    return next((each for each in found if not is_within(each) and not leads(each)), None)


TYPING_NAMES: Final = frozenset(
    {
        *("Any", "Callable", "Dict", "Iterable", "Iterator", "List", "Literal", "Mapping", "Optional"),
        *("Sequence", "Set", "Tuple", "Type", "Union"),
    }
)
"""What samples of the platform use without an import, and their like."""

Function = ast.FunctionDef | ast.AsyncFunctionDef

OWNERS: Final = ("tools", "async_tools")
_MODULES: Final = ("ces_public", "ces_internal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What one file of user code says of itself."""

    functions: tuple[Function, ...]
    """Those of the module, in order."""
    tools: tuple[ast.Attribute, ...]
    """Where it names tools, in order: attributes of ``tools`` and ``async_tools``."""
    missing_imports: tuple[tuple[str, int], ...]
    """Names of typing that are used and never bound, with the first line that does."""


def lines_of(source: str) -> list[str]:
    """Return the lines of *source* as Python counts them, each with its end.

    Form feeds and the separators of Unicode end no line, which ``str.splitlines`` takes for ends; the last
    line has an end too, for so does the cache of lines that tracebacks are made from.
    """
    lines = io.StringIO(source, newline=None).readlines()
    return [line if line.endswith("\n") else f"{line}\n" for line in lines]


def scan(tree: ast.Module) -> Scan:
    """Return what the code of *tree* names."""
    bound = set(bound_names(ast.walk(tree), of_runtime=False))
    functions = [node for node in tree.body if isinstance(node, Function)]
    used: dict[str, int] = {}
    tools = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _has_tools(node.value, bound):
            tools.append(node)
        elif isinstance(node, ast.Name) and node.id in TYPING_NAMES - bound:
            used[node.id] = min(node.lineno, used.get(node.id, node.lineno))
    tools.sort(key=attrgetter("lineno"))
    return Scan(functions=tuple(functions), tools=tuple(tools), missing_imports=tuple(sorted(used.items())))


def _has_tools(node: ast.expr, bound: set[str]) -> bool:
    """Return whether *node* is one of the two globals; code that binds the name itself hides it."""
    match node:
        case ast.Name(id=name):
            return name in OWNERS and name not in bound
        case ast.Attribute(value=ast.Name(id=module), attr=name):
            return name in OWNERS and module in _MODULES
        case _:
            return False


def bound_names(nodes: Iterable[ast.AST], *, of_runtime: bool = True) -> Iterator[str]:
    """Yield every name that code binds anywhere; imports of the runtime's own names only if *of_runtime*."""
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Import() | ast.ImportFrom():
                yield from _imported(node, of_runtime=of_runtime)
            case ast.ExceptHandler(name=str() as name) | ast.MatchMapping(rest=str() as name):
                yield name
            case ast.MatchAs(name=str() as name) | ast.MatchStar(name=str() as name):
                yield name
            case ast.AST() if type(node).__name__ in {"TypeVar", "ParamSpec", "TypeVarTuple"}:
                yield getattr(node, "name", "")  # since Python 3.12


def _imported(node: ast.Import | ast.ImportFrom, *, of_runtime: bool) -> Iterator[str]:
    is_ours = isinstance(node, ast.ImportFrom) and node.module in _MODULES and not of_runtime
    for alias in node.names:
        name = alias.asname or alias.name.partition(".")[0]
        if not (is_ours and name == alias.name):
            yield name
        if alias.name == "*" and not is_ours:
            yield from TYPING_NAMES  # the star may import any of them
