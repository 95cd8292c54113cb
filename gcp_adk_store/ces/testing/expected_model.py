"""Reply as golden turns expect, to see what callbacks, tools and guardrails make of it."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any

import pydantic
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from typing_extensions import override

from gcp_adk_store.ces.conversation.models import ScriptError
from gcp_adk_store.ces.testing.evaluations import EvaluatedTurn
from gcp_adk_store.ces.testing.matching import expected_value
from gcp_adk_store.ces.testing.turn_checks import AgentSays, CallsTools


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
