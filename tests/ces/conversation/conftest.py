"""Hold conversations with apps whose code runs in this process."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions import InMemorySessionService, Session
from google.genai import types
from typing_extensions import override

from gcp_adk_store.ces import AgentApp, Conversation, ConversationTurn, ScriptedModel, SessionKey
from gcp_adk_store.ces.sandbox import InProcessSandbox
from tests.ces.conversation.apps import write_app
from tests.ces.host.runs import stored


class Talk(Conversation):
    """A conversation in one session, which begins with the first message."""

    key: SessionKey

    async def say(self, said: str | types.Content, **more: Any) -> ConversationTurn:
        """Return what comes of *said*."""
        if not hasattr(self, "key"):
            self.key = await self.begin()
        return await self.send(said, self.key, **more)

    async def stored(self) -> Session:
        """Return the session as others see it."""
        return await stored(self._sessions, self.key)


class Converse:
    """Makes conversations with an app and a script of replies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.folder = folder
        """Of the latest app."""
        self.sessions = InMemorySessionService()
        self.made: list[Talk] = []

    def app(self, agents: Mapping[str, Mapping[str, Any]], **more: Any) -> AgentApp:
        """Write an app into a folder of its own, as `write_app` does."""
        return write_app(self.new_folder(), agents, **more)

    def new_folder(self) -> Path:
        """Return a folder for another app."""
        self.folder = self._folder / f"{len(list(self._folder.iterdir()))}"
        self.folder.mkdir()
        return self.folder

    def __call__(self, app: AgentApp, replies: Iterable[Any] = (), **options: Any) -> Talk:
        """Return a conversation with *options*."""
        model = options.pop("model", None) or ScriptedModel(replies)
        service = options.pop("sessions", self.sessions)
        options = {"sandbox": InProcessSandbox(), **options}
        self.made.append(Talk(app, service, model=model, **options))
        return self.made[-1]


class Answering(BaseLlm):
    """A model whose answer to a request is what a coroutine function returns, or raises."""

    model: str = "answering"
    answer: Any

    @override
    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        parts = [await self.answer(llm_request)]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def offered(model: ScriptedModel, number: int = 0) -> types.FunctionDeclaration:
    """Return the only function that a request offers."""
    (tool,) = model.requests[number].config.tools or []
    assert isinstance(tool, types.Tool)
    (function,) = tool.function_declarations or []
    return function


@pytest.fixture
async def converse(tmp_path: Path) -> AsyncIterator[Converse]:
    """Make conversations."""
    made = Converse(tmp_path)
    yield made
    for each in made.made:
        await each.close()
