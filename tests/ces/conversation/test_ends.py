"""What a turn did stays done if it fails or is cancelled; late responses come whenever they come."""

import asyncio
import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.genai import types
from google.genai.errors import ServerError

from gcp_adk_store.ces import MockTool, ScriptedModel
from tests.ces.conversation.apps import write_app
from tests.ces.conversation.conftest import Answering, Converse
from tests.ces.conversation.test_behaviour import OVERLOADED, REAL
from tests.ces.host.runs import Gate

PAY = 'def pay() -> str:\n    """Pay."""\n    set_variable("paid", True)\n    return "done"\n'


def pays_and_fails(begun: asyncio.Event | None) -> Answering:
    """Return a model whose service fails when it has called a tool; with *begun* it sets that, and hangs."""

    async def answer(request: LlmRequest) -> types.Part:
        if (request.contents[-1].parts or [])[0].function_response is not None:
            if begun is None:
                raise OVERLOADED
            begun.set()
            await asyncio.Event().wait()
        if len(request.contents) == 1:
            return types.Part(function_call=types.FunctionCall(name="pay"))
        return types.Part(text="Paid.")

    return Answering(answer=answer)


@pytest.mark.parametrize("cancelled", [False, True])
async def test_what_tools_did_is_stored_before_a_model_fails_or_its_turn_is_cancelled(
    converse: Converse,
    cancelled: bool,  # noqa: FBT001  # what is tested
) -> None:
    """Else they would do it twice: the next request has the response, and the state the changes."""
    app = converse.app({"root": {"tools": ["pay"]}}, tools={"pay": PAY})
    begun = asyncio.Event()
    conversation = converse(app, model=pays_and_fails(begun if cancelled else None))

    turn = asyncio.create_task(conversation.say("Pay"))
    if cancelled:
        await begun.wait()
        turn.cancel()
    with pytest.raises((ServerError, asyncio.CancelledError)):
        await turn

    session = await conversation.stored()
    assert [each.response for each in session.events[-1].get_function_responses()] == [{"result": "done"}]
    assert (await conversation.variables(conversation.key)) == {"paid": True}
    assert (await conversation.say("And?")).text == "Paid."


async def test_what_a_tool_did_is_stored_if_a_later_call_ends_the_turn(converse: Converse) -> None:
    """The next request has the first call alone. What failing code may replace is not said."""
    calls = {"calls": [{"name": "pay", "args": {}}, {"name": "look_up", "args": {}}]}
    agent = {"tools": ["pay", "look_up"], "callbacks": {"before_tool": ["assert tool.name == 'pay'"]}}
    model = ScriptedModel([calls, "Paid."])
    app = converse.app({"root": agent}, tools={"pay": PAY, "look_up": REAL})
    conversation = converse(app, model=model)

    failed = await conversation.say("Pay")
    await conversation.say("And?")

    assert str(failed.error).startswith("CALLBACK_FAILED: before_tool of root: AssertionError")
    parts = [part for content in model.requests[1].contents for part in content.parts or ()]
    assert [part.function_call.name for part in parts if part.function_call] == ["pay"]
    assert [part.function_response.name for part in parts if part.function_response] == ["pay"]

    callbacks = {"after_agent": ["1 / 0"]}
    turn = await converse(converse.app({"root": {"callbacks": callbacks}}), ["Secret"]).say("Hi")

    assert (turn.text, turn.error) == (
        "",
        "CALLBACK_FAILED: after_agent of root: ZeroDivisionError: division by zero",
    )


@pytest.mark.parametrize(
    ("kind", "statement", "said", "response"),
    [
        ("after_model", "llm_response.content = None", "", None),
        ("after_model", "return LlmResponse()", "", None),
        ("after_tool", "tool_response.clear()", "Found.", {}),
        ("before_tool", "input.clear()", "Found.", {"result": "of nothing"}),
    ],
)
async def test_what_a_callback_empties_is_empty(
    converse: Converse, kind: str, statement: str, said: str, response: Any
) -> None:
    """And not what it was: a callback may take out all that nobody is to see."""
    code = 'def look_up(of: str = "nothing") -> str:\n    """Look it up."""\n    return "of " + of\n'
    agent = {"tools": ["look_up"], "callbacks": {kind: [statement]}}
    app = converse.app({"root": agent}, tools={"look_up": code})
    calls = {"calls": [{"name": "look_up", "args": {"of": "a secret"}}]}
    turn = await converse(app, [calls, "Found."]).say("Hi")

    assert (turn.text, turn.error) == (said, None)
    assert [use.response for use in turn.calls] == ([] if response is None else [response])


@pytest.mark.parametrize(
    ("first", "error"),
    [
        ({"name": "transfer_to_agent", "args": {"agent_name": "billing"}}, None),
        ({"name": "look_up", "args": {}}, "CALLBACK_FAILED"),
    ],
)
async def test_an_end_that_is_not_reached_ends_no_session(
    converse: Converse, first: dict[str, Any], error: str | None
) -> None:
    """After a transfer nothing is carried out, and nothing after a failure."""
    root = {"tools": ["look_up", "end_session"], "childAgents": ["billing"]}
    agents = {"root": {**root, "callbacks": {"before_tool": ["1 / 0"]}}, "billing": {}}
    app = converse.app(agents, tools={"look_up": REAL})
    calls = {"calls": [first, {"name": "end_session", "args": {"reason": "done"}}]}
    conversation = converse(app, [calls, "Yes?", "Yes."])

    turn = await conversation.say("Hi")
    after = await conversation.say("And?")

    assert (turn.ended, turn.error and turn.error.partition(":")[0]) == (False, error)
    assert (after.ended, after.error) == (False, None)


async def test_an_agent_keeps_nothing_of_a_turn_that_is_over(converse: Converse) -> None:
    """A server has turns of ever new sessions."""
    agent = converse(converse.app({"root": {}}), ["Hello."]).agent
    service = InMemorySessionService()
    runner = Runner(app_name="shop", agent=agent, session_service=service, auto_create_session=True)
    message = types.Content(role="user", parts=[types.Part(text="Hi")])
    said = [each async for each in runner.run_async(user_id="ada", session_id="s1", new_message=message)]
    kept = weakref.ref(service)

    del runner, service
    gc.collect()

    assert len(said) == 1
    assert kept() is None


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
    await conversation.say("Work")

    sessions.gate, sessions.was_read = opens, asyncio.Event()
    turn = asyncio.create_task(conversation.say("And?"))
    await opens.begun.wait()
    slow.opened.set()
    late = asyncio.create_task(conversation.close())
    await sessions.was_read.wait()  # by the response
    opens.opened.set()

    assert (await asyncio.wait_for(turn, 60)).text == "Not yet."
    await late
    last = (await conversation.stored()).events[-1]
    assert [each.response for each in last.get_function_responses()] == [{"result": 42}]
