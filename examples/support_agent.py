"""A support agent with two tools and a scripted model: no key, no network."""

from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import Field

APP = "support"
USER = "ada"
SESSION = "ticket-7"
REPORT = "report.txt"

INSTRUCTION = "You help {user:name?}. The report so far: {artifact.report.txt?} Mood: {temp:mood?}"


def remember(key: str, value: str, tool_context: ToolContext) -> dict[str, Any]:
    """Keep a value in the agent's state."""
    tool_context.state[key] = value
    return {"kept": key}


async def write_report(text: str, tool_context: ToolContext) -> dict[str, Any]:
    """Save a new version of the report, and note its length."""
    version = await tool_context.save_artifact(REPORT, types.Part(text=text))
    tool_context.state["reports"] = [*tool_context.state.get("reports", []), len(text)]
    return {"version": version}


class ScriptedModel(BaseLlm):
    """Answers each turn from a script; what it was asked is kept for the demo to check."""

    model: str = "scripted"
    script: list[list[types.Part]]
    """One list of parts for each call of the model, in order."""
    instructions: list[str] = Field(default_factory=list)
    """The system instruction of each call."""

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: ARG002, FBT001, FBT002  # ADK's signature
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the next answer of the script."""
        instruction = llm_request.config.system_instruction
        self.instructions.append(str(instruction))
        parts = self.script.pop(0)
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def call(tool: str, **arguments: str) -> types.Part:
    """Return a model's call of a tool."""
    return types.Part(function_call=types.FunctionCall(name=tool, args=arguments))


def say(text: str) -> types.Part:
    """Return a model's words."""
    return types.Part(text=text)


FIRST_TURNS: list[tuple[str, list[list[types.Part]]]] = [
    (
        "Hello, I am Ada.",
        [
            [call("remember", key="user:name", value="Ada"), call("remember", key="topic", value="invoices")],
            [say("Hello Ada.")],
        ],
    ),
    (
        "Please start a report.",
        [
            [call("write_report", text="Draft: two invoices are open.")],
            [
                call("remember", key="app:last_customer", value="Ada"),
                call("remember", key="temp:mood", value="busy"),
            ],
            [say("The draft is saved.")],
        ],
    ),
    (
        "One of them is paid now.",
        [[call("write_report", text="One invoice is open.")], [say("The report is up to date.")]],
    ),
]
"""What the first process does: the user's words, and the model's answers to them."""

LAST_TURN: tuple[str, list[list[types.Part]]] = (
    "Close the ticket.",
    [
        [call("write_report", text="All invoices are paid.")],
        [call("remember", key="topic", value="closed")],
        [say("Closed. Goodbye, Ada.")],
    ],
)
"""What the second process does."""


def agent(model: ScriptedModel) -> LlmAgent:
    """Return the agent that *model* speaks for."""
    return LlmAgent(
        name="support_agent",
        model=model,
        instruction=INSTRUCTION,
        tools=[remember, write_report],
    )
