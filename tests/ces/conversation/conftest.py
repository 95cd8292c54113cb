"""Hold conversations with apps whose code runs in this process."""

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import pytest
from google.adk.sessions import BaseSessionService, InMemorySessionService

from gcp_adk_store.ces import AgentApp, Conversation, ConversationTurn, ScriptedModel
from gcp_adk_store.ces.sandbox import InProcessSandbox

Converse = Callable[..., Conversation]


async def first_turn(conversation: Conversation, said: str) -> ConversationTurn:
    """Return what comes of *said* in a new session."""
    return await conversation.send(said, await conversation.begin())


@pytest.fixture
def sessions() -> BaseSessionService:
    """Sessions in memory."""
    return InMemorySessionService()


@pytest.fixture
async def converse(sessions: BaseSessionService) -> AsyncIterator[Converse]:
    """Make conversations with an app and a script of replies."""
    made: list[Conversation] = []

    def conversation(app: AgentApp, replies: Iterable[Any] = (), **options: Any) -> Conversation:
        model = options.pop("model", None) or ScriptedModel(replies)
        service = options.pop("sessions", sessions)
        made.append(Conversation(app, service, model=model, **{"sandbox": InProcessSandbox(), **options}))
        return made[-1]

    yield conversation
    for each in made:
        await each.close()
