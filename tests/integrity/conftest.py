"""An agent with one tool, whose calls ADK's ToolCallIntegrityPlugin stamps, and stores that it runs on."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.events import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, Session
from google.adk.tools.function_tool import FunctionTool
from google.genai import types

from gcp_adk_store import SessionLimits, Store
from tests.support.lengths import at_length
from tests.support.repeating_model import StandInModel
from tests.support.stores import STORES

APP = "bank"
WHO: dict[str, Any] = {"app_name": APP, "user_id": "ada", "session_id": "s"}
STAMPS = "__adk_internal_fc_hmac"
RESTORED = "__adk_internal_restored_event"
LIMITS = SessionLimits(seal_tail_bytes=3000, inline_bytes=100, state_value_bytes=100, event_text_bytes=4000)


class Model(StandInModel):
    """Calls the tool for each message of the user, with its text as the note, and a secret for "card"."""

    def answer(self, request: LlmRequest) -> types.Part:
        """Pay, or say that it was paid."""
        last = (request.contents[-1].parts or [types.Part()])[-1]
        if last.function_response is not None:
            return types.Part(text="paid")
        args = {
            "amount": 5,
            "note": "secret" if last.text == "card" else last.text or "",
            "rate": 2.0,
            "to": {"name": "b\u00f6b", "tags": [None, True]},
        }
        return types.Part(function_call=types.FunctionCall(name="pay", args=args))


def bank_agent(paid: list[str], *, confirms: bool = False) -> LlmAgent:
    """Return an agent with a tool that adds the note of each payment to *paid*."""

    def pay(amount: int, note: str, rate: float, to: dict[str, Any]) -> str:
        """Pay."""
        del amount, rate, to
        paid.append(note)
        return "ok"

    return LlmAgent(name="agent", model=Model(), tools=[FunctionTool(pay, require_confirmation=confirms)])


class Bank:
    """An agent that pays, with plugins, on a session service."""

    def __init__(self, sessions: BaseSessionService, *plugins: BasePlugin, confirms: bool = False) -> None:
        self.paid: list[str] = []
        agent = bank_agent(self.paid, confirms=confirms)
        app = App(name=APP, root_agent=agent, plugins=[*plugins])
        self.runner = Runner(app=app, session_service=sessions)

    async def turn(self, session: Session, said: str | types.Part) -> list[Event]:
        """Run a turn of the session as it is stored."""
        part = types.Part(text=said) if isinstance(said, str) else said
        message = types.Content(role="user", parts=[part])
        run = self.runner.run_async(user_id=session.user_id, session_id=session.id, new_message=message)
        return [event async for event in run]


@pytest.fixture(params=at_length(["folder"], STORES))
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """A store that seals often and spills early; the plugin looks above both kinds of documents."""
    if request.param == "folder":
        store = Store.local(tmp_path / "store", session_limits=LIMITS)
    else:
        bucket: str = request.getfixturevalue("adk_store_bucket")
        project: str = request.getfixturevalue("project")
        store = Store.connect(project=project, bucket=bucket, session_limits=LIMITS)
    async with store:
        yield store


async def read(store: Store, **who: Any) -> Session:
    """Return a session as another caller reads it."""
    found = await store.sessions.get_session(**{**WHO, **who})
    assert found is not None
    return found


def metadata(session: Session) -> list[set[str]]:
    """Return the keys of the metadata of each event with a tool call."""
    return [{*(event.custom_metadata or {})} for event in session.events if event.get_function_calls()]
