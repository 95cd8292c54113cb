"""Read evaluations: conversations with what an app is expected to say and to call in each turn.

Three formats are read. Golden conversations::

    common_session_parameters: {tier: gold}
    conversations:
      - conversation: an order is looked up
        turns:
          - user: Where is order 12?
            tool_calls: [{action: lookup_order, args: {id: "12"}, output: {status: shipped}}]
            agent: Your order has shipped.

tests of turns, also with the names ``tests``, ``test_cases`` and ``name``::

    conversations:
      - conversation: it greets
        event: welcome
        expectations: [{type: contains, value: Welcome}, {type: no_tools_called}]

and the ``golden`` of an evaluation that the platform exports, in JSON.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from gcp_adk_store.ces.apps.files import last_of, member, typed
from gcp_adk_store.ces.guest.messages import TRANSFER
from gcp_adk_store.ces.testing.matching import match_type_fault
from gcp_adk_store.ces.testing.nodes import MalformedTestError, Nodes, line_of
from gcp_adk_store.ces.testing.outcomes import Case
from gcp_adk_store.ces.testing.turn_checks import TYPES, EvaluatedTurn, ExpectedCall

_CASES: Final = ("conversations", "tests", "test_cases")
_FILE: Final = frozenset({*_CASES, "common_session_parameters", "common_expectations", "config"})
_TURN: Final = frozenset(
    {"turn", "user", "event", "agent", "tool_calls", "variables", "expectations", "config"}
)
_CASE: Final = _TURN - {"turn"} | frozenset(
    {"conversation", "name", "description", "tags", "session_parameters", "turns", "turn_count"}
    | {"historical_contexts"}
)
_CALL: Final = frozenset({"action", "args", "output", "agent"})
_EXPECTATION: Final = frozenset({"type", "value"})
_START: Final = "<event>session start</event>"
_WELCOME: Final = "<event>welcome</event>"
_NOT_PLAYED: Final = ("audio", "blob", "dtmf", "image", "toolResponses")
"""What a user of the platform may give beside text, events and variables."""
_HISTORY: Final = ("its historical_contexts are on the platform",)
_IN_WORDS: Final = "in natural language, which only a model can judge: {}"
SILENT: Final = "# silent"
"""Marks a text of an agent that is not checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation(Case):
    """A conversation, from its begin."""

    tags: tuple[str, ...] = ()
    variables: Mapping[str, Any] = field(default_factory=dict)
    """Of the session, in place of declared defaults; None stands for the default."""
    turns: tuple[EvaluatedTurn, ...] = ()
    left_out: tuple[str, ...] = ()
    """What is not judged here: expectations in natural language, of turns first, or all of it; and why."""


def read_evaluations(path: Path) -> list[Evaluation]:
    """Return the evaluations of the file *path*; none of one with scenarios alone, which need a user.

    Raises:
        MalformedTestError: the file cannot be read, or an evaluation is malformed.
    """
    if path.suffix != ".json":
        reading = _Reading(path)
        return list(reading.evaluations(reading.root()))
    try:
        return list(_exported(path))
    except (OSError, ValueError, RecursionError) as exc:
        raise MalformedTestError(str(path), getattr(exc, "lineno", 1), str(exc)) from exc


def said_of(text: str | None, event: str | None) -> str:
    """Return what the app gets: a text, or an event as one; without both, the start of the session."""
    if text is None:
        text = f"<event>{event}</event>" if event else _START
    return _START if text.strip() == _WELCOME else text


class _Reading(Nodes):
    """A file of golden conversations, or of tests of turns."""

    ignores_nulls = True

    def evaluations(self, root: yaml.Node) -> Iterator[Evaluation]:
        members = self.members(root, known=_FILE)
        listed = [members[name] for name in _CASES if name in members]
        if len(listed) != 1 or not self.items(listed[0], _CASES[0]):
            raise self.wrong(root, "it has no conversations")
        common = self.variables(members.get("common_session_parameters"))
        judged = self._texts(members.get("common_expectations"), "common_expectations")
        for each in self.items(listed[0], _CASES[0]):
            yield self._case(each, common, judged)

    def _case(self, node: yaml.Node, common: Mapping[str, Any], judged: tuple[str, ...]) -> Evaluation:
        members = self.members(node, "a conversation", _CASE)
        name = self.text(node, members, "conversation" if "conversation" in members else "name")
        parameters = self.variables(members.get("session_parameters"))
        whole: tuple[str, ...] = ()
        of_turns: list[str] = []
        if "turns" in members:
            if members.keys() & {"user", "event", "agent", "tool_calls"}:
                raise self.wrong(node, f"{name} has turns and is one: put what it says into turns")
            others, whole = self._expectations(members.get("expectations"))
            if others:
                raise self.wrong(members["expectations"], "expectations with a type belong to a turn")
            parameters |= self.variables(members.get("variables"))
            listed = self.items(members["turns"], "turns")
            turns = tuple(
                self._turn(each, self.members(each, "a turn", _TURN), number, of_turns)
                for number, each in enumerate(listed, start=1)
            )
        else:
            turns = (self._turn(node, members, 1, of_turns),)
        judged = (*of_turns, *judged, *whole)
        if not (judged or any(turn.can_fail for turn in turns)):
            raise self.wrong(node, f"{name} expects nothing, so it cannot fail: add agent or expectations")
        return Evaluation(
            path=str(self.path),
            line=line_of(node),
            name=name,
            subject=self.path.stem,
            tags=self._texts(members.get("tags"), "tags"),
            variables={**common, **parameters},
            turns=() if "historical_contexts" in members else turns,
            left_out=_HISTORY if "historical_contexts" in members else tuple(map(_IN_WORDS.format, judged)),
        )

    def _turn(
        self, node: yaml.Node, members: Mapping[str, yaml.Node], number: int, judged: list[str]
    ) -> EvaluatedTurn:
        """Return a turn; *judged* gets its expectations in natural language."""
        given = {name: self._scalar_text(members.get(name), name) for name in ("turn", "user", "event")}
        if given["user"] is not None and given["event"] is not None:
            raise self.wrong(node, "a turn has user or event, not both")
        name = given["turn"] or f"turn {number}"
        others, in_words = self._expectations(members.get("expectations"))
        judged += (f"{name}: {each}" for each in in_words)
        is_golden = "agent" in members or "tool_calls" in members
        calls = tuple(self._calls(members.get("tool_calls"))) if is_golden else None
        return EvaluatedTurn(
            name=name,
            said=said_of(given["user"], given["event"]),
            variables=self.variables(members.get("variables")),
            says=self._says(members.get("agent")),
            calls=calls,
            others=others,
        )

    def _says(self, node: yaml.Node | None) -> tuple[str, ...]:
        if node is None:
            return ()
        listed = node.value if isinstance(node, yaml.SequenceNode) else [node]
        texts = [self._scalar_text(each, "agent") or "" for each in listed]
        checked = tuple(text for text in texts if SILENT not in text)
        return ("\n".join(texts),) if len(checked) == len(texts) else checked

    def _calls(self, node: yaml.Node | None) -> Iterator[ExpectedCall]:
        for each in self.items(node, "tool_calls"):
            members = self.members(each, "a call", _CALL)
            args = self.object(members.get("args"), "args")
            if fault := match_type_fault(args):
                raise self.wrong(members["args"], fault)
            name = self.text(each, members, "action")
            agent = self._scalar_text(members.get("agent"), "agent")
            if name == TRANSFER and (target := args.pop("agent", None) or agent):
                args["agent_name"] = target
            output = self.value(members.get("output"))
            is_object = output is None or isinstance(output, dict)
            yield ExpectedCall(name, args, output=output if is_object else {"result": output})

    def _expectations(self, node: yaml.Node | None) -> tuple[tuple[tuple[str, Any], ...], tuple[str, ...]]:
        """Return those with a type, and those in natural language."""
        others: list[tuple[str, Any]] = []
        judged: list[str] = []
        for each in self.items(node, "expectations"):
            if isinstance(each, yaml.ScalarNode):
                judged.append(str(each.value))
                continue
            members = self.members(each, "an expectation", _EXPECTATION)
            kind = self.text(each, members, "type").lower()
            if kind not in TYPES:
                raise self.wrong(members["type"], f"unknown type {kind}; known: {', '.join(TYPES)}")
            value = self.value(members.get("value"))
            if fault := TYPES[kind].fault(value):
                raise self.wrong(each, f"{kind} {fault}")
            others.append((kind, value))
        return tuple(others), tuple(judged)

    def _texts(self, node: yaml.Node | None, what: str) -> tuple[str, ...]:
        return tuple(str(self.value(each)) for each in self.items(node, what))

    def _scalar_text(self, node: yaml.Node | None, what: str) -> str | None:
        if node is None:
            return None
        if not isinstance(node, yaml.ScalarNode):
            raise self.wrong(node, f"{what} must be text")
        return str(node.value)


def _exported(path: Path) -> Iterator[Evaluation]:
    """Yield the evaluation that the platform exports to *path*, if it has a golden."""
    read = json.loads(path.read_text(encoding="utf-8-sig"))
    if member(read, "golden") is None:
        return
    listed = typed(list, read, "golden", "turns")
    turns = tuple(_exported_turn(each, f"turn {number}") for number, each in enumerate(listed, start=1))
    if not any(turn.can_fail for turn in turns):
        raise ValueError("its golden expects nothing, so it cannot fail: add expectations")
    yield Evaluation(
        path=str(path),
        line=1,
        name=str(read.get("displayName") or path.stem),
        subject=path.stem,
        tags=tuple(map(str, typed(list, read, "tags"))),
        turns=turns,
    )


def _exported_turn(turn: Any, name: str) -> EvaluatedTurn:
    text: str | None = None
    event: str | None = None
    variables: dict[str, Any] = {}
    after: dict[str, Any] = {}
    says: list[str] = []
    calls: list[ExpectedCall] = []
    for step in typed(list, turn, "steps"):
        given, expected = typed(dict, step, "userInput"), typed(dict, step, "expectation")
        if fault := match_type_fault(member(expected, "toolCall", "args")):
            raise ValueError(f"{name}: {fault}")
        if other := next((kind for kind in _NOT_PLAYED if kind in given), None):
            raise ValueError(f"{name}: the user gives {other}; only text, events and variables are played")
        variables |= typed(dict, given, "variables")
        text = text if given.get("text") is None else str(given["text"])
        event = str(member(given, "event", "event") or "") or event
        chunks = [member(one, "text") for one in typed(list, expected, "agentResponse", "chunks")]
        texts = [str(said) for said in chunks if said is not None]
        says += ["\n".join(texts)] if texts else []
        after |= typed(dict, expected, "updatedVariables")
        calls += _calls(expected, calls)
    is_checked = bool(says or after or calls)
    return EvaluatedTurn(
        name=name,
        said=said_of(text, event),
        variables=variables,
        says=tuple(says),
        calls=tuple(calls) if is_checked else None,
        after=after,
    )


def _calls(expected: Mapping[str, Any], before: list[ExpectedCall]) -> Iterator[ExpectedCall]:
    """Yield the call that a step expects; a mock of one goes into the calls *before* it."""
    if call := typed(dict, expected, "toolCall"):
        yield ExpectedCall(_tool(call), typed(dict, call, "args"))
    if transfer := typed(dict, expected, "agentTransfer"):
        target = str(transfer.get("displayName") or last_of(str(transfer.get("targetAgent", ""))))
        yield ExpectedCall(TRANSFER, {"agent_name": target})
    if mocked := typed(dict, expected, "mockToolResponse"):
        name, response = _tool(mocked), typed(dict, mocked, "response")
        for number, each in enumerate(before):
            if each.name == name and each.output is None:
                before[number] = ExpectedCall(name, each.args, output=response)
                return
        yield ExpectedCall(name, {}, output=response)


def _tool(reference: Mapping[str, Any]) -> str:
    return str(reference.get("displayName") or last_of(str(reference.get("tool", ""))))
