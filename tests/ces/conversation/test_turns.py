"""A turn calls callbacks, models and tools in the platform's order; what it did stays done if it fails."""

import asyncio
import gc
import json
import weakref
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.genai import types
from google.genai.errors import ServerError

from gcp_adk_store import InvalidInputError, SessionMissingError, Store
from gcp_adk_store.ces import AppAgent, Conversation, MockTool, ScriptedModel, SessionKey
from gcp_adk_store.ces.sandbox import UnsafeSandboxWarning
from gcp_adk_store.settings import MEMORY
from tests.ces.conversation.apps import write_app, write_slow_app
from tests.ces.conversation.conftest import Answering, Converse, offered
from tests.ces.conversation.test_behaviour import OVERLOADED, REAL
from tests.ces.host.runs import Gate, stored
from tests.support.documents import ROOT

NOTE = "set_variable('trace', [*get_variable('trace'), '{}'])"
CALL = {"calls": [{"name": "greet", "args": {"name": "Ada"}}]}
GREET = '''
def greet(name: str) -> dict:
    """Greet somebody."""
    set_variable("trace", [*get_variable("trace"), "greet"])
    return {"said": f"Hello {name}"}
'''


def said(events: list[Event]) -> list[Any]:
    """Return the author of each event, and what its parts are."""
    return [
        (
            event.author,
            *(
                part.text
                or (part.function_call and f"call {part.function_call.name}")
                or (part.function_response and part.function_response.response)
                for part in (event.content.parts if event.content else None) or ()
            ),
        )
        for event in events
    ]


async def test_callbacks_models_and_tools_are_called_in_order(converse: Converse) -> None:
    """Each sees what those before it changed, and the session has it in the end."""
    kinds = ("before_agent", "after_agent", "before_model", "after_model", "before_tool", "after_tool")
    app = converse.app(
        {"root": {"tools": ["greet"], "callbacks": {kind: [NOTE.format(kind)] for kind in kinds}}},
        tools={"greet": GREET},
        variables={"trace": []},
    )
    conversation = converse(app, [CALL, "Hello, Ada."])
    turn = await conversation.say("I am Ada.")

    assert turn.error is None
    assert turn.text == "Hello, Ada."
    assert turn.variables["trace"] == [
        *("before_agent", "before_model", "after_model", "before_tool", "greet", "after_tool"),
        *("before_model", "after_model", "after_agent"),
    ]
    session = await conversation.stored()
    assert session.state["trace"] == turn.variables["trace"]
    assert said(session.events) == [
        ("user", "I am Ada."),
        ("root", "call greet"),
        ("root", {"result": {"said": "Hello Ada"}}),
        ("root", "Hello, Ada."),
    ]
    (use,) = turn.calls
    assert (use.name, use.args, use.response) == ("greet", {"name": "Ada"}, {"result": {"said": "Hello Ada"}})


CLOSED = ["return Content(parts=[Part.from_text('closed')], role='model')"]
CALLS = [
    "if get_variable('trace'): return None",
    "set_variable('trace', ['before'])",
    "return LlmResponse.from_parts([Part.from_function_call('greet', {'name': 'Bob'})])",
]
PARTLY = ["return LlmResponse(content=Content(parts=[Part.from_text('One moment.')]), partial=True)"]


@pytest.mark.parametrize(
    ("kind", "body", "replies", "text", "trace"),
    [
        ("before_agent", CLOSED, [], "closed", []),
        ("before_model", CALLS, ["Done."], "Done.", ["before", "greet"]),
        ("before_model", PARTLY, ["Here it is."], "One moment.\nHere it is.", []),
    ],
)
async def test_content_calls_and_partial_responses_of_callbacks_come_before_the_model(
    converse: Converse,
    kind: str,
    body: list[str],
    replies: list[str],
    text: str,
    trace: list[str],
) -> None:
    """Content of the agent is all; after calls, and after a partial response, the model is asked."""
    agents = {"root": {"callbacks": {kind: body}}}
    app = converse.app(agents, tools={"greet": GREET}, variables={"trace": []})
    turn = await converse(app, replies).say("Hello")

    assert (turn.text, turn.error, turn.variables["trace"]) == (text, None, trace)


async def test_callbacks_replace_answers_calls_and_responses(converse: Converse) -> None:
    """An answer is read before it is replaced in what is stored; an overridden tool does not run."""
    after = [
        "said = callback_context.get_last_agent_output()[0].text",
        "return Content(parts=[Part.from_text(said.upper())])",
    ]
    conversation = converse(converse.app({"root": {"callbacks": {"after_agent": after}}}), ["hello"])
    await conversation.say("Hi")
    callbacks = {
        "before_tool": ["if tool.name == 'other': return {'result': 'not called'}", "input['name'] = 'Bob'"],
        "after_tool": ["tool_response['seen'] = input.get('name', '')"],
    }
    tools = {"greet": GREET, "other": "def other(): raise ValueError('called')"}
    agent = {"tools": ["greet", "other"], "callbacks": callbacks}
    app = converse.app({"root": agent}, tools=tools, variables={"trace": []})
    turn = await converse(app, [{"calls": [*CALL["calls"], {"name": "other"}]}, "Done."]).say("Hi")

    assert said((await conversation.stored()).events) == [("user", "Hi"), ("root", "HELLO")]
    assert [use.response for use in turn.calls] == [
        {"result": {"said": "Hello Bob"}, "seen": "Bob"},
        {"result": "not called", "seen": ""},
    ]


async def test_callbacks_change_requests_and_responses_in_place(converse: Converse) -> None:
    """The model does not see a hidden tool; the instruction has the variables."""
    callbacks = {
        "before_model": ["llm_request.config.hide_tool('part')"],
        "after_model": ["llm_response.content.parts[0].text += '!'"],
    }
    instruction = "Greet {name} by {@TOOL: greet}. {{name}}! {unknown}"
    agent = {"tools": ["greet", "part"], "instruction": instruction, "callbacks": callbacks}
    tools = {"greet": GREET, "part": "def part(): pass"}
    model = ScriptedModel(["Hello"])
    app = converse.app({"root": agent}, tools=tools, variables={"name": "Ada"})
    turn = await converse(app, model=model).say("Hi")

    assert turn.text == "Hello!"
    assert (offered(model).name, offered(model).description) == ("greet", "Greet somebody.")
    instructed = model.requests[0].config.system_instruction
    assert isinstance(instructed, types.Content)
    assert [part.text for part in instructed.parts or ()] == ["Greet Ada by greet. Ada! {unknown}"]


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("raise ValueError('no')", "CALLBACK_FAILED: after_model of root: ValueError: no"),
        ("set_variable('big', 'x' * 262_144)", "FAILED_PRECONDITION: variable 'big' has 262,146 bytes"),
    ],
)
async def test_a_callback_that_fails_ends_the_turn_and_the_session_goes_on(
    converse: Converse, statement: str, code: str
) -> None:
    """The last event of the turn says why."""
    callbacks = {"after_model": [f"if 'fail' in llm_response.content.parts[0].text: {statement}"]}
    conversation = converse(converse.app({"root": {"callbacks": callbacks}}), ["fail", "fine"])

    failed = await conversation.say("Hi")
    after = await conversation.say("Again")

    assert failed.error is not None
    assert failed.error.startswith(code)
    assert failed.text == ""
    assert (after.text, after.error) == ("fine", None)


async def test_end_session_ends_the_turn_and_refuses_what_follows(converse: Converse) -> None:
    """What the user says then is not stored."""
    conversation = converse(
        converse.app({"root": {"tools": ["end_session"]}}),
        [{"text": "Goodbye.", "calls": [{"name": "end_session", "args": {"reason": "done"}}]}],
    )

    turn = await conversation.say("Bye")

    assert (turn.ended, turn.text) == (True, "Goodbye.")
    assert [(use.name, use.args) for use in turn.calls] == [("end_session", {"reason": "done"})]
    with pytest.raises(InvalidInputError, match="an agent ended this session"):
        await conversation.say("Hello?")
    assert len((await conversation.stored()).events) == 2


async def test_payloads_reach_the_client_and_no_later_request(converse: Converse) -> None:
    """Media of the user are in the requests of their own turn alone, and those of thoughts are not said."""
    callbacks = {"after_model": ["llm_response.content.parts.append(Part.from_json('{\"card\": 1}'))"]}
    thought = {"inlineData": {"data": "eA==", "mimeType": "image/png"}, "thought": True}
    first_reply = {"content": {"role": "model", "parts": [thought, {"text": "one"}]}}
    model = ScriptedModel([first_reply, "two"])
    conversation = converse(converse.app({"root": {"callbacks": callbacks}}), model=model)
    picture = types.Part(inline_data=types.Blob(data=b"\xff\x00", mime_type="image/png"))
    image = types.Content(role="user", parts=[types.Part(text="Look"), picture])

    turn = await conversation.say(image)
    await conversation.say("And now?")

    assert [(blob.data, blob.mime_type) for blob in turn.payloads] == [(b'{"card": 1}', "application/json")]
    first, second = (
        [part for content in each.contents for part in content.parts or ()] for each in model.requests
    )
    assert [part.inline_data and part.inline_data.data for part in first] == [None, b"\xff\x00"]
    assert [part.text for part in second] == ["Look", "one", "And now?"]


async def test_a_background_tool_answers_later_and_the_next_request_has_it(converse: Converse) -> None:
    """Its response is an event of its own, by the user."""
    slow = Gate({"result": 42})
    app = write_slow_app(converse.folder)
    model = ScriptedModel([{"calls": [{"name": "work"}]}, "It is running.", "It is 42."])
    conversation = converse(app, model=model, tools=[MockTool(name="slow", response=slow)])

    first = await conversation.say("Work")
    await slow.begun.wait()
    slow.opened.set()
    await conversation.close()
    second = await conversation.say("And?")

    assert (first.text, second.text) == ("It is running.", "It is 42.")
    assert [use.response for use in first.calls] == [{"result": "pending"}]
    last = said((await conversation.stored()).events)
    assert last[4:] == [("user", {"result": 42}), ("user", "And?"), ("root", "It is 42.")]
    texts = [part.text for content in model.requests[2].contents for part in content.parts or ()]
    assert '<tool_response name="work">{"result": 42}</tool_response>' in texts


async def test_a_turn_that_does_not_end_is_ended(converse: Converse) -> None:
    """A callback overrides the model with a call each time. It goes on if a tool fails, or is unknown."""
    over = ["return LlmResponse.from_parts([Part.from_function_call('greet', {'name': 'Bob'})])"]
    app = converse.app(
        {"root": {"callbacks": {"before_model": over}}},
        tools={"greet": "def greet(name: str): return 1"},
    )
    turn = await converse(app).say("Hi")

    assert turn.error == "TURN_TOO_LONG: more than 25 model calls in one turn"
    assert "| more than 25 model calls, or " in (ROOT / "docs/ces-conversations.md").read_text()
    assert len(turn.calls) == 25

    app = converse.app({"root": {"tools": ["bad"]}}, tools={"bad": "def bad(): raise ValueError('no')"})
    turn = await converse(app, [{"calls": [{"name": "bad"}, {"name": "missing"}]}, "Sorry."]).say("Hi")

    first, second = (json.dumps(use.response) for use in turn.calls)
    assert "ValueError: no" in first
    assert "'missing' was not offered in this request" in second
    assert turn.text == "Sorry."


async def test_adks_runner_runs_an_exported_app(converse: Converse) -> None:
    """In a session of another's making. One that is missing, or of another app, is refused."""
    app = converse.app({"root": {"instruction": "Greet {name}."}}, variables={"name": "Ada"})
    with pytest.warns(UnsafeSandboxWarning):
        agent = AppAgent(app, model=ScriptedModel(["Hello"]), sandbox="inprocess")
    runner = Runner(app_name="shop", agent=agent, session_service=converse.sessions, auto_create_session=True)
    message = types.Content(role="user", parts=[types.Part(text="Hi")])

    events = [event async for event in runner.run_async(user_id="ada", session_id="s1", new_message=message)]
    await agent.close()

    assert said(events) == [("root", "Hello")]
    assert (await stored(converse.sessions, SessionKey("shop", "ada", "s1"))).state == {"name": "Ada"}

    conversation = converse(converse.app({"root": {}}))

    with pytest.raises(SessionMissingError):
        await conversation.send("Hi", "Test/ada/missing")
    with pytest.raises(InvalidInputError, match="not of the app Test"):
        await conversation.send("Hi", "shop/ada/s1")


@pytest.mark.parametrize("name", ["said", "variables", "mocks"])
async def test_a_message_of_another_kind_is_refused(converse: Converse, name: str) -> None:
    """By the name of what is wrong; nothing is stored."""
    conversation = converse(converse.app({"root": {}}), ["Hello."])
    key = await conversation.begin()

    with pytest.raises(InvalidInputError, match=f"{name} must be .*, not int"):
        await conversation.send(**{"said": "Hi", "key": key, name: 5})  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="session_service must be a BaseSessionService, not int"):
        Conversation(conversation.agent.app, 5, model="gemini-2.5-flash")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="variables must be a mapping or None, not str"):
        await conversation.begin(variables="x")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="user_id must be a string, not int"):
        await conversation.begin(user_id=5)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="said has no part"):
        await conversation.send(types.Content(role="user"), key)
    with pytest.raises(InvalidInputError, match="each name of variables must be a string, not int"):
        await conversation.send("Hi", key, variables={1: 2})  # type: ignore[dict-item]
    assert not (await stored(converse.sessions, key)).events


async def test_a_late_response_belongs_to_no_turn_of_the_store(converse: Converse) -> None:
    """The lease of the turn that began the tool is over, and another turn may have followed."""
    slow = Gate({"result": 42})
    app = write_slow_app(converse.folder, "set_variable('n', {result})")
    async with Store.local(MEMORY) as store:
        conversation = converse(
            app,
            [{"calls": [{"name": "work"}]}, "It is running.", "Wait."],
            sessions=store.sessions,
            turns=store.turns,
            tools=[MockTool(name="slow", response=slow)],
        )

        await conversation.say("Work")
        await conversation.say("And?")
        slow.opened.set()
        await conversation.close()

        session = await conversation.stored()
        assert said(session.events)[-1] == ("user", {"result": None})
        assert session.state["n"] == 42


async def test_a_response_that_comes_during_a_turn_is_its_last_event(converse: Converse) -> None:
    """So the Runner's session is not stale."""
    slow = Gate({"result": 42})

    async def answer(request: LlmRequest) -> types.Part:
        if len(request.contents) == 1:
            return types.Part(function_call=types.FunctionCall(name="work"))
        slow.opened.set()
        await conversation.close()
        return types.Part(text="Done.")

    model = Answering(answer=answer)
    app = write_slow_app(converse.folder)
    conversation = converse(app, model=model, tools=[MockTool(name="slow", response=slow)])

    turn = await conversation.say("Work")

    assert said(list(turn.events))[2:] == [("root", "Done."), ("user", {"result": 42})]
    assert said((await conversation.stored()).events)[1:] == said(list(turn.events))


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
