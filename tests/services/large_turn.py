"""Take a turn with a large picture in a process of its own, and print what it took."""

import os
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.genai import types

from gcp_adk_store import Store
from tests.services.conftest import APP, SESSION, USER, WHO
from tests.services.peak_memory import Peak

SMALL = 100_000


class Looks(BaseLlm):
    """A model that says how large the last picture is."""

    model: str = "looks"

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: FBT001, FBT002  # ADK's signature
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer with its size in bytes."""
        assert stream in (True, False)
        parts = llm_request.contents[-1].parts or []
        size = len(parts[0].inline_data.data or b"") if parts and parts[0].inline_data else 0
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=f"{size} bytes")]))


async def take_turn(runner: Runner, data: bytes) -> str:
    """Send a picture and return the answer."""
    blob = types.Blob(data=data, mime_type="image/png")
    message = types.Content(role="user", parts=[types.Part(inline_data=blob)])
    answer = ""
    async for event in runner.run_async(user_id=USER, session_id=SESSION, new_message=message):
        if event.content and event.content.parts:
            answer = event.content.parts[0].text or ""
    return answer


async def take_large_turn(size: int, bucket: str | None) -> dict[str, Any]:
    """Take a small turn first, so that only what the size costs is measured."""
    async with Store.connect(project=f"demo-large-{os.getpid()}", bucket=bucket) as store:
        agent = LlmAgent(name="agent", model=Looks())
        runner = Runner(app_name=APP, agent=agent, session_service=store.sessions)
        await store.sessions.create_session(**WHO)
        await take_turn(runner, os.urandom(SMALL))
        await store.sessions.get_session(**WHO)
        data = os.urandom(size)
        with Peak() as turn:
            answer = await take_turn(runner, data)
        with Peak() as read:
            found = await store.sessions.get_session(**WHO)
        content = found.events[2].content if found else None
        blob = content.parts[0].inline_data if content and content.parts else None
        return {
            "answer": answer,
            "equal": blob is not None and blob.data == data,
            "turn": turn.bytes / size,
            "read": read.bytes / size,
        }
