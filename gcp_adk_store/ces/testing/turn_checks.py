"""Say what is wrong with a turn of a conversation; each check is pure."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from gcp_adk_store.ces.conversation.decisions import ConversationTurn, ToolUse
from gcp_adk_store.ces.guest.messages import TRANSFER
from gcp_adk_store.ces.testing.matching import SIMILAR, fits, has, is_equal, similarity, squeezed

_FUZZY: Final = 0.75
"""The similarity that ``fuzzy_match`` wants."""
_SHOWN: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How turns are compared with what is expected."""

    similar: float = SIMILAR
    """The similarity of words from which a text counts as the expected one."""
    allows_extra_calls: bool = False
    """Whether a golden turn may call tools that it does not list."""


class Check(Protocol):
    """Something that a turn has to be."""

    def failure(self, turn: ConversationTurn, rules: Rules) -> str | None:
        """Return what is wrong with *turn*, or None."""


@dataclass(frozen=True, slots=True)
class AgentSays:
    """What agents say: a text that has this one in it, or has about its words."""

    text: str

    def failure(self, turn: ConversationTurn, rules: Rules) -> str | None:
        """Return both texts if they are not similar enough."""
        found = similarity(turn.text, self.text)
        if found >= rules.similar or (self.text.strip() and _contains(turn, self.text)):
            return None
        return (
            f"the agent says {_shortly(turn.text)}, expected {_shortly(self.text)}: similarity {found:.2f}, "
            f"wanted {rules.similar:.2f}"
        )


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """A call of a tool."""

    name: str
    args: Mapping[str, Any]
    output: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """What answers it in place of the tool."""

    def fits(self, use: ToolUse, rules: Rules) -> bool:
        """Return whether *use* is this call."""
        return use.name == self.name and fits(use.args, self.args, similar=rules.similar)


@dataclass(frozen=True, slots=True)
class CallsTools:
    """The calls of a golden turn, in any order."""

    calls: tuple[ExpectedCall, ...]

    def failure(self, turn: ConversationTurn, rules: Rules) -> str | None:
        """Return the calls that are missing, and those that are not expected."""
        left = list(turn.calls)
        missing = []
        for call in self.calls:
            found = next((use for use in left if call.fits(use, rules)), None)
            if found is None:
                missing.append(f"{call.name} {_json(call.args)}")
            else:
                left.remove(found)
        extra = [use for use in left if use.name != TRANSFER and not rules.allows_extra_calls]
        wrong = [f"no call of {each}" for each in missing]
        wrong += [f"an unexpected call of {use.name} {_json(use.args)}" for use in extra]
        if not wrong:
            return None
        return f"{'; '.join(wrong)}; {_called(turn)}"


@dataclass(frozen=True, slots=True)
class VariablesAre:
    """Values of variables after the turn."""

    values: Mapping[str, Any]

    def failure(self, turn: ConversationTurn, rules: Rules) -> str | None:
        """Return the variables with another value."""
        del rules
        wrong = [
            f"{name} is {_json(turn.variables.get(name))}, expected {_json(value)}"
            for name, value in self.values.items()
            if not is_equal(turn.variables.get(name), value)
        ]
        return "; ".join(wrong) or None


@dataclass(frozen=True, slots=True)
class TurnExpectation:
    """An expectation of a test of turns."""

    kind: str
    """One of `TYPES`."""
    value: Any

    def failure(self, turn: ConversationTurn, rules: Rules) -> str | None:
        """Return what is expected and what is there."""
        del rules
        kind = TYPES[self.kind]
        if kind.holds(turn, self.value):
            return None
        expected = "" if self.value is None else f" {_shortly(self.value)}"
        return f"{self.kind}{expected}: {kind.shows(turn)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnType:
    """One kind of expectation about a turn."""

    holds: Callable[[ConversationTurn, Any], bool]
    shows: Callable[[ConversationTurn], str]
    """What is there instead."""
    takes: type | None = str
    """The type of its value; None for none."""

    def fault(self, value: Any) -> str | None:
        """Return what is wrong with *value*, or None."""
        if self.takes is None or isinstance(value, self.takes):
            return None
        return f"needs a value, {'an object' if self.takes is dict else 'a text'}"


def transfers_of(turn: ConversationTurn) -> list[str]:
    """Return the agents that *turn* handed over to, in order."""
    return [target for event in turn.events if (target := event.actions.transfer_to_agent)]


def _said(turn: ConversationTurn) -> str:
    return f"the agent says {_shortly(turn.text)}"


def _called(turn: ConversationTurn) -> str:
    uses = [f"{use.name} {_json(use.args)}" for use in turn.calls]
    return f"called: {', '.join(uses) or 'nothing'}"


def _answered(turn: ConversationTurn) -> str:
    return f"responses: {_shortly({use.name: use.response for use in turn.calls})}"


def _uses(turn: ConversationTurn) -> list[ToolUse]:
    """Return the calls of tools, without transfers to other agents."""
    return [use for use in turn.calls if use.name != TRANSFER]


def _contains(turn: ConversationTurn, value: Any) -> bool:
    return squeezed(value).casefold() in squeezed(turn.text).casefold()


def _was_called(turn: ConversationTurn, name: Any) -> bool:
    return any(use.name == name for use in turn.calls)


def _has_input(turn: ConversationTurn, value: Any) -> bool:
    """Return whether a call has these arguments, or that of each tool by name."""
    uses = _uses(turn)
    by_name = {use.name: dict(use.args) for use in reversed(uses)}
    return has(by_name, value) or any(has(dict(use.args), value) for use in uses)


def _has_output(turn: ConversationTurn, value: Any) -> bool:
    uses = [(use.name, dict(use.response or {})) for use in _uses(turn)]
    by_name = dict(reversed(uses))
    return has(by_name, value) or any(
        has(response, value) or has(response.get("result"), value) for _, response in uses
    )


TYPES: Final[Mapping[str, TurnType]] = {
    "contains": TurnType(holds=_contains, shows=_said),
    "not_contains": TurnType(holds=lambda turn, value: not _contains(turn, value), shows=_said),
    "equals": TurnType(holds=lambda turn, value: squeezed(turn.text) == squeezed(value), shows=_said),
    "fuzzy_match": TurnType(holds=lambda turn, value: similarity(turn.text, value) >= _FUZZY, shows=_said),
    "tool_called": TurnType(holds=_was_called, shows=_called),
    "tool_not_called": TurnType(holds=lambda turn, value: not _was_called(turn, value), shows=_called),
    "no_tools_called": TurnType(holds=lambda turn, _: not _uses(turn), shows=_called, takes=None),
    "tool_input": TurnType(holds=_has_input, shows=_called, takes=dict),
    "tool_output": TurnType(holds=_has_output, shows=_answered, takes=dict),
    "agent_transfer": TurnType(
        holds=lambda turn, value: value in transfers_of(turn),
        shows=lambda turn: f"transfers: {', '.join(transfers_of(turn)) or 'none'}",
    ),
}
"""By name, as in the platform's own tooling."""


def _json(value: Any) -> str:
    return _cut(json.dumps(value, ensure_ascii=False, default=str))


def _shortly(value: Any) -> str:
    return _cut(repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
