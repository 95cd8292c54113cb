"""An agent that keeps notes, with a model that needs no key: put a real one in its place."""

from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.tool_context import ToolContext
from google.genai import types


async def take_note(text: str, tool_context: ToolContext) -> dict[str, Any]:
    """Add a note to the session's state, and save all of them as an artifact."""
    notes = [*tool_context.state.get("notes", []), text]
    tool_context.state["notes"] = notes
    version = await tool_context.save_artifact("notes.txt", types.Part(text="\n".join(notes)))
    return {"notes": len(notes), "version": version}


class NoteTaker(BaseLlm):
    """Takes a note of whatever the user says; decides by the request alone, so any process can go on."""

    model: str = "note-taker"

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: ARG002, FBT001, FBT002  # ADK's signature
    ) -> AsyncGenerator[LlmResponse, None]:
        """Call the tool for words, and say what came of it for the tool's answer."""
        asked = (llm_request.contents[-1].parts or [types.Part()])[0]
        if asked.function_response:
            answer = types.Part(text=f"Noted. {(asked.function_response.response or {})['notes']} in all.")
        else:
            arguments = {"text": asked.text or ""}
            answer = types.Part(function_call=types.FunctionCall(name="take_note", args=arguments))
        yield LlmResponse(content=types.Content(role="model", parts=[answer]))


root_agent = LlmAgent(
    name="notes",
    model=NoteTaker(),
    instruction="Take a note of what the user says.",
    tools=[take_note],
)
