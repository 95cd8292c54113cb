"""Find undefined names in code: missing imports and misspelled names."""

import ast
import builtins
from collections.abc import Iterator
from typing import Final

from gcp_adk_store.ces.apps.platform_modules import GLOBALS
from gcp_adk_store.ces.guest.scanning import TYPING_NAMES

_KNOWN: Final = (
    frozenset(dir(builtins))
    | GLOBALS
    | TYPING_NAMES  # a rule of its own says that they are not imported
    | {"__annotations__", "__builtins__", "__class__", "__file__", "__module__", "__qualname__"}
    | {"ces_internal", "ces_public", "importlib", "requests"}
)
_WRITE_GLOBALS: Final = frozenset({"exec", "globals", "vars", "setattr"})


def undefined(tree: ast.Module) -> list[ast.Name]:
    """Return the first use of each name that neither *tree* nor the platform defines.

    Empty if the code may define names in other ways (``from x import *``, ``globals()``), or catches
    NameError: each finding must be certain.
    """
    nodes = list(ast.walk(tree))
    if any(map(_may_define_any, nodes)):
        return []
    known = _KNOWN | set(_bound(nodes))
    found: dict[str, ast.Name] = {}
    for node in nodes:
        if isinstance(node, ast.Name) and node.id not in known:
            first = found.setdefault(node.id, node)
            if (node.lineno, node.col_offset) < (first.lineno, first.col_offset):
                found[node.id] = node
    return list(found.values())


def bound_names(tree: ast.Module) -> frozenset[str]:
    """Return every name that *tree* binds anywhere, in whichever scope."""
    return frozenset(_bound([*ast.walk(tree)]))


def _may_define_any(node: ast.AST) -> bool:
    match node:
        case ast.ImportFrom(names=[ast.alias(name="*")]):
            return True
        case ast.Name(id=name, ctx=ast.Load()):
            return name in _WRITE_GLOBALS
        case ast.ExceptHandler(type=caught):
            names = caught.elts if isinstance(caught, ast.Tuple) else [caught]
            return any(isinstance(each, ast.Name) and each.id == "NameError" for each in names)
        case _:
            return False


def _bound(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield every name that is bound anywhere, in whichever scope."""
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.alias(name=name, asname=asname):
                yield asname or name.partition(".")[0]
            case ast.ExceptHandler(name=str() as name) | ast.MatchMapping(rest=str() as name):
                yield name
            case ast.MatchAs(name=str() as name) | ast.MatchStar(name=str() as name):
                yield name
            case ast.AST() if type(node).__name__ in {"TypeVar", "ParamSpec", "TypeVarTuple"}:
                yield getattr(node, "name", "")  # since Python 3.12
            case _:
                pass
