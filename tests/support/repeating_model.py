"""Stand in for a model."""

from collections.abc import AsyncGenerator

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types


class StandInModel(BaseLlm):
    """A model whose answer a subclass makes of the request."""

    model: str = "stand-in"

    def answer(self, request: LlmRequest) -> str:
        """Return the text of the answer."""
        raise NotImplementedError

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: FBT001, FBT002  # ADK's signature
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer once."""
        assert stream in (True, False)
        part = types.Part(text=self.answer(llm_request))
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


class RepeatingModel(StandInModel):
    """A model that answers with its instruction."""

    def answer(self, request: LlmRequest) -> str:
        """Repeat the instruction."""
        return str(request.config.system_instruction)
