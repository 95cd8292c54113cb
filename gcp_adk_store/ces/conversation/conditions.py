"""Decide the conditions of transfer rules on the variables of a session."""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from gcp_adk_store.errors import InvalidInputError

_TOKEN: Final = re.compile(
    r"""(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
    r"""|\{\s*(?P<braced>[A-Za-z_]\w*)\s*\}|(?P<symbol>&&|\|\||!(?!=))|(?P<word>\b(?:true|false|null)\b)"""
)
_PYTHON: Final = {"&&": " and ", "||": " or ", "!": " not ", "true": "True", "false": "False", "null": "None"}
_COMPARE: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda each, among: each in among,
    ast.NotIn: lambda each, among: each not in among,
}
_LONGEST: Final = 10_000


@dataclass(frozen=True, slots=True)
class Condition:
    """An expression about variables: comparisons, ``in``, and, or, not, as Python or CEL spell them."""

    tree: ast.expr

    @classmethod
    def of(cls, text: str) -> Self:
        """Return *text*, read. A variable is written ``name`` or ``{name}``.

        Raises:
            InvalidInputError: *text* has something else, such as a call.
        """
        try:
            tree = ast.parse(_TOKEN.sub(_as_python, text[:_LONGEST]).strip(), mode="eval").body
            _check(tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
            raise InvalidInputError(
                f"the condition {text[:100]!r} cannot be read: {getattr(exc, 'msg', None) or exc}; compare "
                "variables with ==, !=, <, <=, >, >= and in, joined by and, or, not (also &&, ||, !)"
            ) from exc
        return cls(tree)

    def holds(self, variables: Mapping[str, Any]) -> bool:
        """Return whether it holds; a missing variable is None, and what cannot be compared does not hold."""
        return bool(_value(self.tree, variables))


def _as_python(token: re.Match[str]) -> str:
    if token["text"] is not None:
        return token["text"]
    return token["braced"] or _PYTHON[token["symbol"] or token["word"]]


def _check(node: ast.expr) -> None:
    match node:
        case ast.Constant() | ast.Name():
            return
        case ast.BoolOp(values=below) | ast.List(elts=below) | ast.Tuple(elts=below):
            pass
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            below = [operand]
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _COMPARE for op in ops):
            below = [left, *others]
        case ast.Attribute(value=value):
            below = [value]
        case ast.Subscript(value=value, slice=ast.Constant()):
            below = [value]
        case _:
            raise ValueError(f"it has {ast.unparse(node)[:40]!r}")
    for each in below:
        _check(each)


def _value(node: ast.expr, variables: Mapping[str, Any]) -> Any:  # noqa: C901, PLR0911  # one for each kind
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return variables.get(name)
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_value(each, variables) for each in values)
        case ast.BoolOp(values=values):
            return any(_value(each, variables) for each in values)
        case ast.UnaryOp(op=op, operand=operand):
            value = _value(operand, variables)
            if isinstance(op, ast.Not):
                return not value
            return -value if isinstance(value, int | float) else None
        case ast.Compare(left=left, ops=ops, comparators=others):
            values = [_value(each, variables) for each in (left, *others)]
            return all(
                _compared(op, first, second)
                for op, first, second in zip(ops, values[:-1], values[1:], strict=True)
            )
        case ast.List(elts=each) | ast.Tuple(elts=each):
            return [_value(item, variables) for item in each]
        case ast.Attribute(value=holder, attr=name):
            return _member(_value(holder, variables), name)
        case ast.Subscript(value=holder, slice=ast.Constant(value=key)):
            return _member(_value(holder, variables), key)
        case _:
            raise AssertionError("unreachable")


def _compared(op: ast.cmpop, first: Any, second: Any) -> bool:
    try:
        return bool(_COMPARE[type(op)](first, second))
    except TypeError:
        return False


def _member(holder: Any, key: Any) -> Any:
    try:
        return holder[key]
    except (TypeError, KeyError, IndexError):
        return None
