"""Decide what comes next in a conversation, from its events and the configuration of its agents."""

import ast
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from google.adk.events import Event
from google.genai import types

from gcp_adk_store.ces.apps.agents import AgentSpec, TransferRule
from gcp_adk_store.ces.apps.layout import AgentApp
from gcp_adk_store.ces.guest.messages import END_SESSION
from gcp_adk_store.ces.host.results import Run
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


USER: Final = "user"
MODEL: Final = "model"


def in_force(events: Sequence[Event]) -> list[Event]:
    """Return *events* without those that ADK's rewinds took back."""
    kept: list[Event] = []
    for event in events:
        target = event.actions.rewind_before_invocation_id
        if target is None:
            kept.append(event)
            continue
        first = next((number for number, each in enumerate(kept) if each.invocation_id == target), len(kept))
        del kept[first:]
    return kept


def active_agent(events: Sequence[Event], app: AgentApp) -> AgentSpec:
    """Return the agent that answers next: the target of the last transfer, or who spoke last, or the root.

    Raises:
        InvalidInputError: the app has no root agent.
    """
    for event in reversed(events):
        named = event.actions.transfer_to_agent or (event.author if event.author != USER else None)
        if named and (agent := app.agent(named)):
            return agent
    if app.root is None:
        raise InvalidInputError(
            f"{app.folder} names no root agent; write rootAgent in app.json, and agents/ beside it"
        )
    return app.root


def has_ended(events: Iterable[Event]) -> bool:
    """Return whether an agent ended the session; a call that an agent answered was refused."""
    of_agents = [event for event in events if event.author != USER]
    refused = {response.id for event in of_agents for response in event.get_function_responses()} - {None}
    return any(
        call.name == END_SESSION and call.id not in refused
        for event in of_agents
        for call in calls_of(event.content)
    )


def turn_index(events: Iterable[Event], invocation_id: str) -> int:
    """Return how many turns were before that of *invocation_id*."""
    return len({event.invocation_id for event in events if event.author == USER} - {invocation_id})


def calls_of(content: types.Content | None) -> list[types.FunctionCall]:
    """Return the calls in *content*, in order."""
    parts = (content.parts if content else None) or []
    return [part.function_call for part in parts if part.function_call is not None]


def parent_of(agent: AgentSpec, app: AgentApp) -> AgentSpec | None:
    """Return the agent whose child *agent* is, or None."""
    return next((each for each in app.agents if agent.names & set(each.children)), None)


def targets(agent: AgentSpec, app: AgentApp) -> list[AgentSpec]:
    """Return the agents that a model may transfer to: children and parent."""
    children = [found for name in agent.children if (found := app.agent(name))]
    parent = parent_of(agent, app)
    return [*children, *([] if parent is None or parent in children else [parent])]


def rules_from(agent: AgentSpec, app: AgentApp) -> list[tuple[TransferRule, AgentSpec]]:
    """Return the rules about transfers that begin at *agent*, each with its target, in order.

    A rule stands at the parent or at the child; either names the child.
    """
    parent = parent_of(agent, app)
    down = [
        (rule, child)
        for rule in agent.rules
        if rule.to_child and (child := app.agent(rule.child)) is not None
    ]
    if parent is None:
        return down
    back = [rule for rule in (*agent.rules, *parent.rules) if not rule.to_child and rule.child in agent.names]
    return [*down, *((rule, parent) for rule in back)]


def tool_names(agent: AgentSpec, app: AgentApp) -> list[str]:
    """Return the names of the tools that the model of *agent* may call, system tools too, in order."""
    names = dict.fromkeys(agent.tools)
    for use in agent.toolsets:
        toolset = next((each for each in app.toolsets if use.toolset in each.names), None)
        if use.operations:
            prefix = use.toolset if toolset is None else toolset.name
            names |= dict.fromkeys(f"{prefix}_{operation}" for operation in use.operations)
        elif toolset is not None:
            names |= dict.fromkeys(sorted(toolset.tool_names))
    return list(names)


FAILED_PRECONDITION: Final = "FAILED_PRECONDITION"
CALLBACK_FAILED: Final = "CALLBACK_FAILED"
GUARDRAIL_TRIGGERED: Final = "GUARDRAIL_TRIGGERED"
TURN_TOO_LONG: Final = "TURN_TOO_LONG"
_TOO_LARGE: Final = "VariableTooLargeError"


class TurnFailedError(Exception):
    """What ends a turn, and is told by its last event."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def require_fitting(ran: Run) -> None:
    """Raise what the platform ends the turn with if a variable is too large."""
    if ran.error is not None and ran.error.type == _TOO_LARGE:
        raise TurnFailedError(FAILED_PRECONDITION, ran.error.message)


def require_success(ran: Run, what: str) -> None:
    """Raise what ends the turn if the code of a callback failed; *what* it is.

    Raises:
        TurnFailedError: it failed, or a variable is too large.
    """
    require_fitting(ran)
    if ran.error is not None:
        raise TurnFailedError(CALLBACK_FAILED, f"{what}: {ran.error}")
