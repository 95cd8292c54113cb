"""Responses of asynchronous tools come whenever they come."""

import asyncio
from pathlib import Path
from typing import Any

from google.adk.sessions import InMemorySessionService, Session

from gcp_adk_store.ces import MockTool
from tests.ces.conversation.apps import write_app
from tests.ces.conversation.conftest import Converse
from tests.ces.host.runs import Gate, stored


class Opening(InMemorySessionService):
    """Sessions in memory; a reading waits until others that began later have ended."""

    def __init__(self) -> None:
        super().__init__()
        self.gate: Gate | None = None
        self.was_read = asyncio.Event()

    async def get_session(self, **names: Any) -> Session | None:
        """Return the session, once the gate is open."""
        gate, self.gate = self.gate, None
        if gate is not None:
            await gate()
        self.was_read.set()
        return await super().get_session(**names)


async def test_a_response_that_comes_as_a_turn_begins_lets_its_callbacks_run(
    tmp_path: Path, converse: Converse
) -> None:
    """It waits for the turn, and the code of the turn does not wait for it."""
    slow, sessions, opens = Gate(42), Opening(), Gate()
    app = write_app(
        tmp_path,
        {"root": {"tools": ["work"], "callbacks": {"before_model": ["set_variable('n', 1)"]}}},
        tools={"work": "def work():\n    return tools.slow({}).json()"},
        asynchronous=("work",),
    )
    conversation = converse(
        app,
        [{"calls": [{"name": "work"}]}, "It is running.", "Not yet."],
        sessions=sessions,
        tools=[MockTool(name="slow", response=slow)],
    )
    key = await conversation.begin()
    await conversation.send("Work", key)

    sessions.gate, sessions.was_read = opens, asyncio.Event()
    turn = asyncio.create_task(conversation.send("And?", key))
    await opens.begun.wait()
    slow.opened.set()
    late = asyncio.create_task(conversation.close())
    await sessions.was_read.wait()  # by the response
    opens.opened.set()

    assert (await asyncio.wait_for(turn, 60)).text == "Not yet."
    await late
    last = (await stored(sessions, key)).events[-1]
    assert [each.response for each in last.get_function_responses()] == [{"result": 42}]
