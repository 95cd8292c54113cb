"""Play an agent whose model needs no network: it answers at once, or calls a tool first."""

import uuid
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService
from google.adk.tools.tool_context import ToolContext
from google.genai import types


class StubModel(BaseLlm):
    """A model that calls ``note`` some times, then answers."""

    model: str = "stub"
    calls: int
    """How many answers to its calls it wants to see in the conversation before it speaks."""

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: ARG002, FBT001, FBT002  # ADK's signature
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield a call, or words."""
        answered = sum(
            part.function_response is not None
            for content in llm_request.contents
            for part in content.parts or []
        )
        part = (
            types.Part(function_call=types.FunctionCall(name="note", args={"text": f"{answered}"}))
            if answered < self.calls
            else types.Part(text="lorem ipsum " * 20)
        )
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def note(text: str, tool_context: ToolContext) -> dict[str, Any]:
    """Keep a text in the agent's state."""
    tool_context.state["note"] = text
    return {"kept": text}


def runner(service: BaseSessionService, *, app: str, calls: int) -> Runner:
    """Return ADK's runner of the agent: a turn in a new session has 2 events, and 2 for each call."""
    agent = LlmAgent(name="stub", model=StubModel(calls=calls), instruction="You help.", tools=[note])
    return Runner(app_name=app, agent=agent, session_service=service)


def message() -> types.Content:
    """Return what a user says, each time something else."""
    return types.Content(role="user", parts=[types.Part(text=f"{uuid.uuid4()} " * 6)])


async def take_turn(runner: Runner, *, user: str, session: str) -> int:
    """Say something; return how many events came back."""
    events = runner.run_async(user_id=user, session_id=session, new_message=message())
    return len([event async for event in events])
