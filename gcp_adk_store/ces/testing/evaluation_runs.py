"""Run evaluations, and save a conversation as a golden one."""

import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from google.adk.events import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.sessions import InMemorySessionService, Session
from typing_extensions import override

from gcp_adk_store.ces.conversation.conversation import Conversation
from gcp_adk_store.ces.conversation.decisions import ConversationTurn, in_force
from gcp_adk_store.ces.conversation.models import SERVICE_ERRORS, Reply, ScriptedModel, ScriptError
from gcp_adk_store.ces.guest.messages import END_SESSION, TRANSFER
from gcp_adk_store.ces.host.session_context import visible
from gcp_adk_store.ces.host.settings import USER
from gcp_adk_store.ces.sandbox.interface import SandboxUnavailableError
from gcp_adk_store.ces.testing.evaluations import SILENT, Evaluation, read_evaluations
from gcp_adk_store.ces.testing.matching import expected_value
from gcp_adk_store.ces.testing.nodes import read_all
from gcp_adk_store.ces.testing.outcomes import Outcome, Status
from gcp_adk_store.ces.testing.tool_tests import Checks
from gcp_adk_store.ces.testing.turn_checks import EvaluatedTurn
from gcp_adk_store.ces.tools.declarations import MockConfig, MockedCall
from gcp_adk_store.errors import InvalidInputError, StoreError

_EVENT: Final = re.compile(r"<event>([^<>]+)</event>")
_MORE_EXPECTED: Final = "; add agent or tool_calls to the turn, or run it with --model or --script"


def golden_of(
    session: Session, variables: Mapping[str, Any], *, name: str | None = None, with_outputs: bool = False
) -> str:
    """Return the conversation of *session* as the YAML of one golden conversation.

    Args:
        session: With all its events; those that a rewind took back do not count.
        variables: The state at its begin.
        name: Of the golden; by default the id of the session.
        with_outputs: Whether the responses of tools answer in their place when the golden runs.

    Raises:
        InvalidInputError: nothing was said, a turn failed, or the user sent something else than text.
    """
    turns: dict[str, list[Event]] = {}
    for event in in_force(session.events):
        turns.setdefault(event.invocation_id, []).append(event)
    said = [events for events in turns.values() if _said(events)]
    if not said:
        raise InvalidInputError("nothing was said in this session, so it makes no golden")
    golden = {
        "conversation": name or session.id,
        "session_parameters": dict(visible(variables, shared=())),
        "turns": [
            _turn(events, number, with_outputs=with_outputs) for number, events in enumerate(said, start=1)
        ],
    }
    text: str = yaml.safe_dump({"conversations": [golden]}, sort_keys=False, allow_unicode=True, width=110)
    return text


def _said(events: Iterable[Event]) -> list[Event]:
    """Return what the user said, without the responses of asynchronous tools."""
    return [
        event
        for event in events
        if event.author == USER and event.content is not None and not event.get_function_responses()
    ]


def _turn(events: Sequence[Event], number: int, *, with_outputs: bool) -> dict[str, Any]:
    if failed := [event.error_code for event in events if event.error_code]:
        raise InvalidInputError(f"turn {number} failed with {failed[0]}, so it makes no golden")
    (user, *_) = _said(events)
    parts = (user.content.parts if user.content else None) or []
    if not all(part.text for part in parts):
        raise InvalidInputError(f"turn {number}: the user sent more than text, which a golden cannot have")
    text = "\n".join(str(part.text) for part in parts)
    named = _EVENT.fullmatch(text)
    turn: dict[str, Any] = {"event": named[1]} if named else {"user": text}
    if variables := visible(user.actions.state_delta, shared=()):
        turn["variables"] = dict(variables)
    answered = ConversationTurn(events=tuple(events), agent="", variables={}, ended=False)
    for use in answered.calls:
        made: dict[str, Any] = {"action": use.name, "args": use.args}
        if with_outputs and use.response is not None:
            made["output"] = dict(use.response)
        turn.setdefault("tool_calls", []).append(made)
    if SILENT in answered.text:
        why = "which marks a text that a golden does not check, so it makes no golden"
        raise InvalidInputError(f"turn {number}: an agent says {SILENT!r}, {why}")
    turn["agent"] = answered.text
    return turn


def expected_replies(turn: EvaluatedTurn) -> list[dict[str, Any]]:
    """Return the replies of a model that does what *turn* expects: its calls first, its text last.

    Each agent that is handed over to has a reply of its own. A text comes with a call that ends the session.
    """
    said = "\n".join(text for text in turn.says if text)
    replies: list[dict[str, Any]] = []
    before = TRANSFER
    for call in turn.calls or ():
        replies += [{"calls": []}] if before == TRANSFER else []
        replies[-1]["calls"].append({"name": call.name, "args": expected_value(call.args)})
        before = call.name
    if said and before != END_SESSION:
        replies.append({})
    if said:
        replies[-1]["text"] = said
    return replies


def selected(
    files: Iterable[Path], *, names: Collection[str], tags: Collection[str]
) -> list[Evaluation | Outcome]:
    """Return the evaluations in *files* with one of the *names* and *tags*, if any; and what is malformed."""
    return [
        each
        for each in read_all(files, read_evaluations)
        if isinstance(each, Outcome)
        or ((not names or each.name in names) and (not tags or set(tags) & set(each.tags)))
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRuns(Checks):
    """What evaluations are run on; the options are those of each :class:`Conversation`, such as ``mocks``."""

    model: BaseLlm | None = None
    """What answers; without it and *scripts*, the replies are those that each turn expects."""
    scripts: Mapping[str, Sequence[Reply]] | None = None
    """The replies of each evaluation, by its name."""
    similar: float
    """The similarity of words from which a text counts as the expected one."""

    async def run_all(self, found: Iterable[Evaluation | Outcome]) -> list[Outcome]:
        """Return what becomes of each evaluation.

        Raises:
            SandboxUnavailableError: no code can be run here.
        """
        return [each if isinstance(each, Outcome) else await self._run(each) for each in found]

    async def _run(self, evaluation: Evaluation) -> Outcome:
        began = time.perf_counter()
        transcript: list[str] = []
        wrong: list[str] = []
        try:
            await self._converse(evaluation, transcript, wrong)
        except SandboxUnavailableError:
            raise
        except (StoreError, *SERVICE_ERRORS, ValueError) as exc:  # also what models raise
            wrong.append(f"{type(exc).__name__}: {str(exc)[:500]}")
            status: Status = "error"
        else:
            can_fail = any(turn.can_fail for turn in evaluation.turns)
            status = "failed" if wrong else "passed" if can_fail else "skipped"
            wrong += evaluation.left_out
        shown = "\n".join(transcript) if status in {"failed", "error"} else ""
        return evaluation.ended(status, wrong, stdout=shown, began=began)

    async def _converse(self, evaluation: Evaluation, transcript: list[str], wrong: list[str]) -> None:
        """Hold the conversation, and note what is said and what is wrong."""
        scripted = ScriptedModel((self.scripts or {}).get(evaluation.name, ()))
        replies_as_expected = self.model is None and self.scripts is None
        model = self.model or scripted
        conversation = Conversation(self.app, InMemorySessionService(), model=model, **self.options)
        async with conversation:
            variables = {**self.variables, **_given(evaluation.variables)}
            key = await conversation.begin(variables=variables)
            ended = False
            for turn in evaluation.turns:
                if ended:
                    wrong.append(f"{turn.name}: an agent ended the session before it")
                    break
                if replies_as_expected:
                    scripted.script(expected_replies(turn))
                given = _given(turn.variables)
                try:
                    came = await conversation.send(turn.said, key, variables=given, mocks=_mocks(turn))
                except ScriptError as exc:
                    more = _MORE_EXPECTED if replies_as_expected else ""
                    raise ScriptError(f"{turn.name}: {exc}{more}") from exc
                transcript += _lines(turn.said, came)
                if came.error is not None:
                    wrong.append(f"{turn.name}: the turn failed: {came.error}")
                    break
                ended = came.ended
                extra = self.app.allows_extra_calls
                failures = turn.failures(came, similar=self.similar, allows_extra_calls=extra)
                wrong += [f"{turn.name}: {failure}" for failure in failures]


def _given(variables: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in variables.items() if value is not None}


def _mocks(turn: EvaluatedTurn) -> MockConfig | None:
    """Return the answers to the calls of *turn* that have one."""
    calls = []
    for call in turn.calls or ():
        if call.output is not None:
            certain = {name: each for name, each in call.args.items() if expected_value(each) == each}
            calls.append(MockedCall(tool=call.name, response=call.output, expected_args=certain))
    calls.sort(key=lambda mock: -len(mock.expected_args))
    return _Outputs(calls=calls) if calls else None


class _Outputs(MockConfig):
    """The outputs of the calls of one turn: by their arguments, else by the tool alone.

    Calls that are the same have theirs in order.
    """

    @override
    def find(self, tool: str, args: Mapping[str, Any]) -> MockedCall | None:
        of_tool = (each for each in self.calls if each.tool == tool)
        found = super().find(tool, args) or next(of_tool, None)
        if found is None:
            return None
        wanted = (found.tool, found.expected_args)
        same = [number for number, each in enumerate(self.calls) if (each.tool, each.expected_args) == wanted]
        if len(same) > 1:  # the next one takes its place, for calls may fit others too
            calls: list[MockedCall] = self.calls  # type: ignore[assignment]  # the list that `_mocks` made
            calls[same[0]] = calls.pop(same[1])
        return found


def _lines(said: str, turn: ConversationTurn) -> list[str]:
    """Return *turn* as a transcript shows it."""
    lines = [f"user: {said}"]
    lines += [use.text for use in turn.calls]
    lines += [line for log in turn.logs for line in log.text.splitlines()]
    return [*lines, *(f"{author}: {text}" for author, text in turn.said)]
