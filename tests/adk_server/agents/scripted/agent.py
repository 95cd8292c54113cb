"""An agent whose model answers at once, or never, and in live conversations repeats what it hears."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.base_llm_connection import BaseLlmConnection
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types


def _says(text: str) -> types.Content:
    return types.Content(role="model", parts=[types.Part(text=text)])


class Repeating(BaseLlmConnection):
    """Repeats each text."""

    def __init__(self) -> None:
        self._heard: asyncio.Queue[str] = asyncio.Queue()

    async def send_history(self, history: list[types.Content]) -> None:
        """Remember nothing."""

    async def send_content(self, content: types.Content) -> None:
        """Hear a text."""
        await self._heard.put((content.parts or [types.Part()])[0].text or "")

    async def send_realtime(self, blob: types.Blob) -> None:
        """Hear no sound."""

    async def receive(self) -> AsyncGenerator[LlmResponse, None]:
        """Say what was heard."""
        while True:
            yield LlmResponse(content=_says(f"heard {await self._heard.get()}"))
            yield LlmResponse(turn_complete=True)

    async def close(self) -> None:
        """Nothing is open."""


class Scripted(BaseLlm):
    """Never answers "wait"."""

    model: str = "scripted"

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: ARG002, FBT001, FBT002  # ADK's signature
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer unless the user says to wait."""
        asked = (llm_request.contents[-1].parts or [types.Part()])[0].text
        if asked == "wait":
            await asyncio.Event().wait()
        yield LlmResponse(content=_says(f"answers {asked}"))

    @asynccontextmanager
    async def connect(self, llm_request: LlmRequest) -> AsyncIterator[BaseLlmConnection]:
        """Begin a live conversation."""
        del llm_request
        yield Repeating()


root_agent = LlmAgent(name="scripted", model=Scripted())
