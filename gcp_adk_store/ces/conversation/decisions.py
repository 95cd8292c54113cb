"""Decide what a turn does next, and what it leads to."""

import ast
import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any, Final, Self

from google.adk.events import Event
from google.genai import types

from gcp_adk_store.ces.apps.agents import AgentSpec, GuardrailSpec, TransferRule
from gcp_adk_store.ces.apps.files import ErrorHandling
from gcp_adk_store.ces.apps.layout import AgentApp
from gcp_adk_store.ces.guest.messages import END_SESSION
from gcp_adk_store.ces.guest.scanning import UNREADABLE
from gcp_adk_store.ces.host.results import Run, RunLog, logs_of
from gcp_adk_store.ces.host.settings import USER
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
MODEL: Final = "model"


@dataclass(frozen=True, slots=True)
class Condition:
    """An expression about variables: comparisons, ``in``, and, or, not, as Python or CEL write them."""

    node: ast.expr

    @classmethod
    def of(cls, text: str) -> Self:
        """Return *text*, read. A variable is written ``name`` or ``{name}``.

        Raises:
            InvalidInputError: *text* has something else, such as a call.
        """
        try:
            if len(text) > _LONGEST:
                raise ValueError(f"it has more than {_LONGEST:,} characters")
            node = ast.parse(_TOKEN.sub(_as_python, text).strip(), mode="eval").body
            _value(node, {})
        except UNREADABLE as exc:
            raise InvalidInputError(
                f"the condition {text[:100]!r} cannot be read: {getattr(exc, 'msg', None) or exc}; compare "
                "variables with ==, !=, <, <=, >, >= and in, joined by and, or, not (also &&, ||, !)"
            ) from exc
        return cls(node)

    def holds(self, variables: Mapping[str, Any]) -> bool:
        """Return whether it holds; a missing variable is None, and what cannot be compared does not hold."""
        return bool(_value(self.node, variables))


def _as_python(token: re.Match[str]) -> str:
    if token["text"] is not None:
        return token["text"]
    return token["braced"] or _PYTHON[token["symbol"] or token["word"]]


def _value(node: ast.expr, variables: Mapping[str, Any]) -> Any:  # noqa: C901, PLR0911  # one for each kind
    """Return the value of *node*, of which every part is computed; raise a ValueError for no condition."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return variables.get(name)
        case ast.BoolOp(op=op, values=values):
            return (all if isinstance(op, ast.And) else any)([_value(each, variables) for each in values])
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, variables)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = _value(operand, variables)
            return -value if isinstance(value, int | float) else None
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _COMPARE for op in ops):
            values = [_value(each, variables) for each in (left, *others)]
            try:
                return all(_COMPARE[type(op)](*pair) for op, pair in zip(ops, pairwise(values), strict=True))
            except TypeError:
                return False
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_value(each, variables) for each in elements]
        case (
            ast.Attribute(value=holder, attr=key) | ast.Subscript(value=holder, slice=ast.Constant(value=key))
        ):
            try:
                return _value(holder, variables)[key]
            except (TypeError, KeyError, IndexError):
                return None
        case _:
            raise ValueError(f"it has {ast.unparse(node)[:40]!r}")


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
        says = f"{app.folder} names no root agent; write rootAgent in app.json, and agents/ beside it"
        raise InvalidInputError(says)
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


def is_said(event: Event | None, agent: str) -> bool:
    """Return whether *event* is what *agent* said, without calls."""
    content = None if event is None or event.author != agent else event.content
    return content is not None and content.role == MODEL and not calls_of(content)


def parent_of(agent: AgentSpec, app: AgentApp) -> AgentSpec | None:
    """Return the agent whose child *agent* is, or None."""
    return next((each for each in app.agents if agent.names & set(each.children)), None)


def targets(agent: AgentSpec, app: AgentApp) -> list[AgentSpec]:
    """Return the agents that a model may transfer to: children and parent."""
    found = [*map(app.agent, agent.children), parent_of(agent, app)]
    return list(dict.fromkeys(filter(None, found)))


def rules_from(agent: AgentSpec, app: AgentApp) -> list[tuple[TransferRule, AgentSpec]]:
    """Return the rules about transfers that begin at *agent*, each with its target, in order.

    A rule stands at the parent or at the child; either names the child.
    """
    parent = parent_of(agent, app)
    found = [(rule, app.agent(rule.child)) for rule in agent.rules if rule.to_child]
    back = (*agent.rules, *(parent.rules if parent else ()))
    found += [(rule, parent) for rule in back if not rule.to_child and rule.child in agent.names]
    return [(rule, target) for rule, target in found if target is not None]


class TurnFailedError(Exception):
    """What ends a turn, and is in its last event."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class ModelFailedError(TurnFailedError):
    """A model gave no answer; the app may say what follows."""


class GuardrailTriggeredError(TurnFailedError):
    """A guardrail stops the agent; the turn fails if the guardrail has no action."""

    def __init__(self, guardrail: GuardrailSpec, reason: str) -> None:
        super().__init__("GUARDRAIL_TRIGGERED", f"{guardrail.name}: {reason}")
        self.guardrail = guardrail


def fallback_of(handling: ErrorHandling, events: Sequence[Event]) -> types.Content | None:
    """Return what an agent answers in place of its model, which failed; None if the app does not say it.

    Answers of agents in *events* that have an error are fallbacks.
    """
    answers = [event for event in reversed(events) if event.author != USER and event.content is not None]
    before = len([*takewhile(lambda event: event.error_code is not None, answers)])
    if handling.says and not 0 < handling.most_fallbacks <= before:
        return types.Content(role=MODEL, parts=[types.Part(text=handling.says)])
    if not (handling.says or handling.ends):
        return None
    args = {"reason": "the model failed", "session_escalated": handling.escalates}
    call = types.FunctionCall(name=END_SESSION, args=args)
    return types.Content(role=MODEL, parts=[types.Part(function_call=call)])


def require_fitting(ran: Run) -> None:
    """Raise what the platform ends the turn with if a variable is too large."""
    if ran.error is not None and ran.error.type == "VariableTooLargeError":
        raise TurnFailedError("FAILED_PRECONDITION", ran.error.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """A call of a function in a turn, and its response."""

    agent: str
    name: str
    args: Mapping[str, Any]
    response: Mapping[str, Any] | None
    """None for a call without a response, such as that of ``end_session``."""

    @property
    def text(self) -> str:
        """All of it in a line, for people."""
        args, response = (json.dumps(e, ensure_ascii=False, default=str) for e in (self.args, self.response))
        return f"{self.agent} calls {self.name} {args} -> {response}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationTurn:
    """What came of a message."""

    events: tuple[Event, ...]
    """Of ADK, as they are stored, without the user's."""
    agent: str
    """Who answers next."""
    variables: Mapping[str, Any]
    """After the turn."""
    ended: bool
    """Whether an agent ended the session."""

    @property
    def text(self) -> str:
        """What agents said, one line for each part."""
        return "\n".join(part.text for _, part in self._parts() if part.text)

    @property
    def said(self) -> tuple[tuple[str, str], ...]:
        """What the client gets, in order: who says it, and the text, or a payload's type and text."""
        shown = []
        for author, part in self._parts():
            if part.inline_data is not None:
                data = (part.inline_data.data or b"").decode("utf-8", "replace")
                shown.append((author, f"[{part.inline_data.mime_type}] {data}"))
            elif part.text:
                shown.append((author, part.text))
        return tuple(shown)

    @property
    def payloads(self) -> tuple[types.Blob, ...]:
        """Inline data for the client, such as that of ``Part.from_json``."""
        return tuple(part.inline_data for _, part in self._parts() if part.inline_data is not None)

    @property
    def calls(self) -> tuple[ToolUse, ...]:
        """The calls of functions, in order; transfers and ends of the session too."""
        responses = {
            response.id: response.response
            for event in self.events
            if event.author != USER
            for response in event.get_function_responses()
        }
        return tuple(
            ToolUse(
                agent=event.author,
                name=str(call.name),
                args=dict(call.args or {}),
                response=responses.get(call.id),
            )
            for event in self.events
            for call in calls_of(event.content)
        )

    @property
    def logs(self) -> tuple[RunLog, ...]:
        """What code printed and warned of, as far as ``RuntimeSettings.stored_log_characters`` allow."""
        return tuple(log for event in self.events for log in logs_of(event))

    @property
    def error(self) -> str | None:
        """Why the turn failed: the code and the message of its last event; None on success."""
        failed = next((event for event in reversed(self.events) if event.error_code), None)
        return None if failed is None else f"{failed.error_code}: {failed.error_message}"

    def _parts(self) -> list[tuple[str, types.Part]]:
        """Return what agents say, without thoughts, each part with its author."""
        return [
            (event.author, part)
            for event in self.events
            if event.author != USER and event.content and event.content.role == MODEL
            for part in event.content.parts or ()
            if not part.thought
        ]
