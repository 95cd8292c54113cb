"""Say what is wrong with a turn of a conversation; each check is pure."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gcp_adk_store.ces.conversation.decisions import ConversationTurn, ToolUse
from gcp_adk_store.ces.guest.messages import TRANSFER
from gcp_adk_store.ces.testing.matching import fits, has, shortly, similarity, squeezed
from gcp_adk_store.model.json_values import is_equal

_FUZZY: Final = 0.75
"""The similarity that ``fuzzy_match`` wants."""


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """A call of a tool."""

    name: str
    args: Mapping[str, Any]
    output: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """What answers it in place of the tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedTurn:
    """What the user says, and what has to come of it."""

    name: str
    """For display."""
    said: str
    variables: Mapping[str, Any] = field(default_factory=dict)
    """Those that are set before it."""
    says: tuple[str, ...] = ()
    """What agents say has each of these in it, or about its words."""
    calls: tuple[ExpectedCall, ...] | None = None
    """In any order; None for any calls."""
    after: Mapping[str, Any] = field(default_factory=dict)
    """Values of variables after the turn."""
    others: tuple[tuple[str, Any], ...] = ()
    """Expectations of a test of turns: one of `TYPES` each, and its value."""

    @property
    def can_fail(self) -> bool:
        """Whether it expects something."""
        return self.calls is not None or bool(self.says or self.after or self.others)

    def failures(
        self, turn: ConversationTurn, *, similar: float, allows_extra_calls: bool = False
    ) -> Iterator[str]:
        """Yield what is wrong with *turn*.

        Args:
            turn: What came.
            similar: The similarity of words from which a text counts as the expected one.
            allows_extra_calls: Whether a golden turn may call tools that it does not list.
        """
        for text in self.says:
            found = similarity(turn.text, text)
            if found < similar and not (text.strip() and _contains(turn, text)):
                expected = f"expected {_shortly(text)}: similarity {found:.2f}, wanted {similar:.2f}"
                yield f"the agent says {_shortly(turn.text)}, {expected}"
        wrong = self._wrong_calls(turn, similar=similar, allows_extra_calls=allows_extra_calls)
        if self.calls is not None and (says := "; ".join(wrong)):
            yield f"{says}; {_called(turn)}"
        for name, value in self.after.items():
            if not is_equal(turn.variables.get(name), value):
                yield f"{name} is {_json(turn.variables.get(name))}, expected {_json(value)}"
        for name, value in self.others:
            if not TYPES[name].holds(turn, value):
                wanted = "" if value is None else f" {_shortly(value)}"
                yield f"{name}{wanted}: {TYPES[name].shows(turn)}"

    def _wrong_calls(
        self, turn: ConversationTurn, *, similar: float, allows_extra_calls: bool
    ) -> Iterator[str]:
        calls, uses = self.calls or (), turn.calls

        def fitting(call: ExpectedCall) -> list[int]:
            named = (number for number, use in enumerate(uses) if use.name == call.name)
            return [number for number in named if fits(uses[number].args, call.args, similar=similar)]

        owners = _owners([fitting(call) for call in calls])
        for number, call in enumerate(calls):
            if number not in owners.values():
                yield f"no call of {call.name} {_json(call.args)}"
        for number, use in enumerate(uses):
            if number not in owners and use.name != TRANSFER and not allows_extra_calls:
                yield f"an unexpected call of {use.name} {_json(use.args)}"


def _owners(fitting: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return the expected call of each made one, for the most that have one.

    *fitting* has the numbers of the made calls that fit each expected call. One that has none takes that of
    another, if the other finds a new one.
    """
    owners: dict[int, int] = {}

    def find(call: int, asked: set[int]) -> bool:
        for made in fitting[call]:
            if made in asked:
                continue
            asked.add(made)
            if made not in owners or find(owners[made], asked):
                owners[made] = call
                return True
        return False

    for call in range(len(fitting)):
        find(call, set())
    return owners


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
    return shortly(json.dumps(value, ensure_ascii=False, default=str))


def _shortly(value: Any) -> str:
    return shortly(repr(value))
