"""Run evaluations: each as a conversation of its own in memory."""

import json
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pydantic
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions import InMemorySessionService
from google.genai import types
from google.genai.errors import APIError
from typing_extensions import override

from gcp_adk_store.ces.apps.layout import AgentApp
from gcp_adk_store.ces.conversation.conversation import Conversation
from gcp_adk_store.ces.conversation.models import ScriptError
from gcp_adk_store.ces.conversation.results import ConversationTurn
from gcp_adk_store.ces.sandbox.interface import SandboxUnavailableError
from gcp_adk_store.ces.testing.evaluations import EvaluatedTurn, Evaluation
from gcp_adk_store.ces.testing.matching import expected_value
from gcp_adk_store.ces.testing.outcomes import Outcome, Status
from gcp_adk_store.ces.testing.turn_checks import AgentSays, CallsTools, Rules
from gcp_adk_store.ces.tools.declarations import MockConfig, MockedCall
from gcp_adk_store.errors import StoreError


class ExpectedModel(BaseLlm):
    """Makes the calls of a golden turn in its first reply, and says the text in its second one."""

    model: str = "expected"
    _replies: list[list[types.Part]] = pydantic.PrivateAttr(default_factory=list)

    def begin(self, turn: EvaluatedTurn) -> None:
        """Reply as *turn* expects from now on; replies that nobody asked for are dropped."""
        calls = [
            types.Part(function_call=types.FunctionCall(name=call.name, args=_args(call.args)))
            for check in turn.checks
            if isinstance(check, CallsTools)
            for call in check.calls
        ]
        texts = [check.text for check in turn.checks if isinstance(check, AgentSays)]
        said = [types.Part(text=text) for text in texts if text]
        self._replies = [each for each in (calls, said) if each]

    @override
    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        if not self._replies:
            raise ScriptError("the turn expects no further reply of a model")
        yield LlmResponse(content=types.Content(role="model", parts=self._replies.pop(0)))


def _args(expected: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments that fit *expected*, without those that are ignored."""
    found = {name: expected_value(value) for name, value in expected.items()}
    return {name: value for name, value in found.items() if value is not None}


_NOT_JUDGED: Final = "in natural language, which only a model can judge: "


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRuns:
    """What evaluations are run on."""

    app: AgentApp
    model_for: Callable[[Evaluation], BaseLlm]
    """The model that answers in an evaluation."""
    options: Mapping[str, Any]
    """Of each :class:`Conversation`, such as ``sandbox`` and ``mocks``."""
    variables: Mapping[str, Any]
    """In place of declared defaults, or beside them."""
    rules: Rules

    async def run(self, evaluation: Evaluation) -> Outcome:
        """Return what becomes of *evaluation*.

        Raises:
            SandboxUnavailableError: no code can be run here.
        """
        return await _Run(self, evaluation, [], []).outcome()


@dataclass(slots=True)
class _Run:
    """One evaluation, while it runs."""

    runs: EvaluationRuns
    evaluation: Evaluation
    transcript: list[str]
    wrong: list[str]

    async def outcome(self) -> Outcome:
        """Return what becomes of it.

        Raises:
            SandboxUnavailableError: no code can be run here.
        """
        began = time.perf_counter()
        if self.evaluation.needs:
            return self._outcome("skipped", (self.evaluation.needs,), began)
        try:
            await self._converse()
        except SandboxUnavailableError:
            raise
        except (StoreError, APIError, ValueError) as exc:  # also what models raise
            return self._outcome("error", (*self.wrong, f"{type(exc).__name__}: {str(exc)[:500]}"), began)
        told = tuple(f"{_NOT_JUDGED}{each}" for each in self._not_judged())
        if self.wrong:
            return self._outcome("failed", (*self.wrong, *told), began)
        has_checks = any(turn.checks for turn in self.evaluation.turns)
        return self._outcome("passed" if has_checks else "skipped", told, began)

    async def _converse(self) -> None:
        """Hold the conversation, and note what is wrong."""
        runs = self.runs
        model = runs.model_for(self.evaluation)
        conversation = Conversation(runs.app, InMemorySessionService(), model=model, **runs.options)
        async with conversation:
            given = _given(self.evaluation.variables)
            key = await conversation.begin(variables={**runs.variables, **given})
            ended = False
            for turn in self.evaluation.turns:
                if ended:
                    self.wrong.append(f"{turn.name}: an agent ended the session before it")
                    break
                if isinstance(model, ExpectedModel):
                    model.begin(turn)
                came = await conversation.send(
                    turn.said, key, variables=_given(turn.variables), mocks=_mocks(turn)
                )
                self.transcript += _lines(turn.said, came)
                if came.error is not None:
                    self.wrong.append(f"{turn.name}: the turn failed: {came.error}")
                    break
                ended = came.ended
                failures = (check.failure(came, runs.rules) for check in turn.checks)
                self.wrong += [f"{turn.name}: {failure}" for failure in failures if failure]

    def _not_judged(self) -> list[str]:
        """Return the expectations in natural language, those of turns first."""
        turns = self.evaluation.turns
        return [f"{turn.name}: {each}" for turn in turns for each in turn.judged] + [*self.evaluation.judged]

    def _outcome(self, status: Status, says: tuple[str, ...], began: float) -> Outcome:
        evaluation = self.evaluation
        return Outcome(
            path=evaluation.path,
            line=evaluation.line,
            name=evaluation.name,
            subject=evaluation.subject,
            status=status,
            says=says,
            stdout="\n".join(self.transcript) if status in {"failed", "error"} else "",
            duration_s=time.perf_counter() - began,
        )


def _given(variables: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in variables.items() if value is not None}


def _mocks(turn: EvaluatedTurn) -> MockConfig | None:
    """Return the answers to the calls of *turn* that have one."""
    if not turn.outputs:
        return None
    return MockConfig(calls=[MockedCall(tool=call.name, response=call.output or {}) for call in turn.outputs])


def _lines(said: str, turn: ConversationTurn) -> list[str]:
    """Return *turn* as a transcript shows it."""
    lines = [f"user: {said}"]
    lines += [
        f"{use.agent} calls {use.name} {_json(use.args)} -> {_json(use.response)}" for use in turn.calls
    ]
    lines += [line for log in turn.logs for line in log.text.splitlines()]
    return [*lines, *(f"{author}: {text}" for author, text in turn.said)]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
