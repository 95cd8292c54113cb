"""Stand in for a model."""

from collections.abc import AsyncGenerator

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types


class StandInModel(BaseLlm):
    """A model whose answer a subclass makes of the request."""

    model: str = "stand-in"

    def answer(self, request: LlmRequest) -> types.Part:
        """Return the answer: a text, or a call of a tool."""
        raise NotImplementedError

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: FBT001, FBT002  # ADK's signature
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer once."""
        assert stream in (True, False)
        yield LlmResponse(content=types.Content(role="model", parts=[self.answer(llm_request)]))


class RepeatingModel(StandInModel):
    """A model that answers with its instruction."""

    def answer(self, request: LlmRequest) -> types.Part:
        """Repeat the instruction."""
        return types.Part(text=str(request.config.system_instruction))
