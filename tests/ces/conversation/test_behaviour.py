"""What answers in place of tools and models, how long that may take, and what is logged if one fails."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.adk.events import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.sessions import InMemorySessionService
from google.auth.exceptions import DefaultCredentialsError
from google.genai import types
from google.genai.errors import ServerError

from gcp_adk_store import InvalidInputError, Store
from gcp_adk_store.ces import (
    AgentApp,
    ConversationTurn,
    MockConfig,
    MockTool,
    PythonRuntime,
    RunLog,
    RuntimeSettings,
    ScriptedModel,
    SessionKey,
    read_app,
)
from gcp_adk_store.ces.sandbox import InProcessSandbox, Limits, SandboxRunError, UnsafeSandboxWarning
from gcp_adk_store.settings import MEMORY
from tests.ces.conversation.apps import change, write_app, write_files, write_slow_app
from tests.ces.conversation.conftest import Answering, Converse
from tests.ces.host.runs import Acted, Gate

REAL = 'def look_up() -> str:\n    """Look it up."""\n    return "real"\n'
FAKE = """
def fake_tool_call(tool, input, callback_context):
    return {"result": "fake " + tool.name} if callback_context.state.get("faked", True) else None
"""
CALL = {"calls": [{"name": "look_up", "args": {}}]}


OVERLOADED = ServerError(503, {"error": {"message": "overloaded", "status": "UNAVAILABLE"}})


def failing(error: Exception = OVERLOADED) -> Answering:
    """Return a model whose service fails."""

    async def fail(_: LlmRequest) -> types.Part:
        raise error

    return Answering(answer=fail)


def with_config(folder: Path, path: str, **config: Any) -> AgentApp:
    """Add *config* to a file of the app, and read it."""
    change(folder / path, **config)
    return read_app(folder)


def with_fake(folder: Path, path: str, *, enabled: bool, **config: Any) -> AgentApp:
    """Give a tool or a toolset a fake, as an export has it."""
    code = str(Path(path).parent / "tool_fake_config" / "code_block" / "python_code.py")
    write_files(folder, {code: FAKE})
    fake = {"codeBlock": {"pythonCode": code}, "enableFakeMode": enabled}
    return with_config(folder, path, toolFakeConfig=fake, **config)


@pytest.mark.parametrize(
    ("config", "options", "variables", "answer"),
    [
        ({"enabled": True}, {"use_fakes": True}, {}, "fake look_up"),
        ({"enabled": True}, {"use_fakes": True}, {"faked": False}, "real"),
        ({"enabled": True}, {}, {}, "real"),
        ({"enabled": False}, {"use_fakes": True}, {}, "real"),
    ],
)
async def test_a_fake_answers_in_sessions_with_fakes_if_its_tool_enables_it(
    converse: Converse,
    config: dict[str, bool],
    options: dict[str, bool],
    variables: Mapping[str, Any],
    answer: str,
) -> None:
    """And if it does not leave the answer to the tool."""
    converse.app({"root": {"tools": ["look_up"]}}, tools={"look_up": REAL})
    app = with_fake(converse.folder, "tools/look_up/look_up.json", **config)
    conversation = converse(app, [CALL, "Done."], **options)

    turn = await conversation.send("Go", await conversation.begin(variables=variables))

    assert [use.response for use in turn.calls] == [{"result": answer}]


async def test_a_fake_answers_for_tools_that_only_the_platform_has(converse: Converse) -> None:
    """Of a toolset, for each of its tools. A missing one is a problem: the tool would answer."""
    converse.app({"root": {"toolsets": [{"toolset": "Crm", "toolIds": ["find"]}]}})
    app = with_fake(
        converse.folder,
        "toolsets/Crm/Crm.json",
        enabled=True,
        mcpToolset={"serverAddress": "https://x.test/mcp"},
    )
    calls = {"calls": [{"name": "Crm_find", "args": {}}]}
    turn = await converse(app, [calls, "Done."], use_fakes=True).say("Go")

    assert [use.response for use in turn.calls] == [{"result": "fake Crm_find"}]

    converse.app({"root": {"tools": ["look_up"]}}, tools={"look_up": REAL})
    fake = {"codeBlock": {"pythonCode": "missing.py"}, "enableFakeMode": True}

    app = with_config(converse.folder, "tools/look_up/look_up.json", toolFakeConfig=fake)

    assert [each.says for each in app.problems] == ["the fake of look_up is not there"]


class Timed(InProcessSandbox):
    """Keeps how long each run may take."""

    longest_s: list[float]

    async def run(self, *given: Any, limits: Limits = Limits(), **options: Any) -> dict[str, Any]:  # noqa: B008  # frozen
        """Note it first."""
        self.longest_s.append(limits.wall_s)
        return await super().run(*given, limits=limits, **options)


async def test_tools_that_say_nothing_may_take_as_long_as_on_the_platform(converse: Converse) -> None:
    """What an app says is bounded. The model gets the error; limits that the host gives go first."""
    with pytest.warns(UnsafeSandboxWarning):
        sandbox = Timed()
    sandbox.longest_s = []
    service = InMemorySessionService()
    await service.create_session(app_name="shop", user_id="ada", session_id="s1")
    async with PythonRuntime(service, sandbox=sandbox) as runtime:
        for options in ({}, {"execution": "ASYNCHRONOUS"}, {"timeout_s": 1e9}):
            await runtime.run_tool(REAL, "look_up", {}, "shop/ada/s1", **options)

    assert sorted(sandbox.longest_s) == [30, 60, 300]  # what is asynchronous begins later

    waits = 'def look_up():\n    """Look it up."""\n    import threading\n    threading.Event().wait()\n'
    converse.app({"root": {"tools": ["look_up"]}}, tools={"look_up": waits})
    app = with_config(converse.folder, "tools/look_up/look_up.json", timeout="0.05s")
    limited = RuntimeSettings(limits=Limits(wall_s=0.07))
    for longest_s, settings in ((0.05, None), (0.07, limited)):
        conversation = converse(app, [CALL, "Done."], settings=settings)
        turn = await conversation.send("Go", await conversation.begin())

        assert f"longer than the {longest_s} s" in turn.calls[0].response["result"]["error"]  # type: ignore[index]


class EvictedError(SandboxRunError):
    """The machine of the code went away."""


async def evicted(*_: Any, **__: Any) -> dict[str, Any]:
    """Lose the run."""
    raise EvictedError("try again")


async def test_a_failure_of_a_run_that_only_its_sandbox_knows_is_the_response_of_the_tool(
    converse: Converse,
) -> None:
    """As those that this package knows. What nests too deep is text of a tool, and a failure of a model."""
    app = converse.app({"root": {"tools": ["look_up"]}}, tools={"look_up": REAL})
    turn = await converse(app, [CALL, "Done."], sandbox=Acted(evicted)).say("Go")

    assert [use.response for use in turn.calls] == [{"result": {"error": "EvictedError: try again"}}]

    app = converse.app({"root": {"tools": ["look_up"]}}, tools={"look_up": REAL})
    too_deep = {"calls": [{"name": "look_up", "args": {"of": nested(300)}}]}
    answers = MockTool(name="look_up", response={"found": nested(300)})
    conversation = converse(app, [CALL, "Found.", too_deep, "Bye."], tools=[answers])

    turns = [await conversation.say(text) for text in ("Hi", "And?", "Thanks")]

    assert [turn.text for turn in turns] == ["Found.", "", "Bye."]
    assert turns[0].calls[0].response == {"result": json.dumps({"found": nested(300)})}
    assert str(turns[1].error).startswith("MODEL_FAILED: the response of the model")


async def test_a_fallback_message_is_said_so_often_and_then_the_session_ends(converse: Converse) -> None:
    """The error is reported beside it. Without a message of the app it is raised."""
    messages = {
        "customFallbackMessages": {"en-US": "Sorry.", "de-DE": "Verzeihung."},
        "maxFallbackAttempts": 2,
    }
    says: dict[str, Any] = {"errorHandlingStrategy": "FALLBACK_RESPONSE"}
    german = {"defaultLanguageCode": "de-DE"}
    converse.app({"root": {}})
    app = with_config(
        converse.folder,
        "app.json",
        languageSettings=german,
        errorHandlingSettings={**says, "fallbackResponseConfig": messages},
    )
    conversation = converse(app, model=failing())

    turns = [await conversation.say("Hello") for _ in range(3)]

    assert [turn.text for turn in turns] == ["Verzeihung.", "Verzeihung.", ""]
    assert [turn.ended for turn in turns] == [False, False, True]
    assert all(turn.error is not None and turn.error.startswith("MODEL_FAILED: 503") for turn in turns)
    assert turns[2].calls[0].args["session_escalated"] is False

    converse.app({"root": {}})
    app = with_config(converse.folder, "app.json", errorHandlingSettings=says)
    with pytest.raises(ServerError):
        await converse(app, model=failing()).say("Hello")
    assert "no customFallbackMessages" in app.unlike_platform[0]


@pytest.mark.parametrize("error", [OVERLOADED, httpx.ConnectError("no way"), DefaultCredentialsError("none")])
async def test_a_failure_of_the_model_may_end_the_session(converse: Converse, error: Exception) -> None:
    """With the wish for a human; also if the service is not reached."""
    converse.app({"root": {}})
    settings = {"errorHandlingStrategy": "END_SESSION", "endSessionConfig": {"escalateSession": True}}
    app = with_config(converse.folder, "app.json", errorHandlingSettings=settings)
    turn = await converse(app, model=failing(error)).say("Hello")

    assert turn.ended
    assert [(use.name, use.args["session_escalated"]) for use in turn.calls] == [("end_session", True)]


def test_what_only_the_platform_does_is_named(tmp_path: Path) -> None:
    """A disabled callback asks for nothing."""
    write_app(tmp_path, {"root": {"callbacks": {"after_model": ["pass"]}}})
    path = "agents/root/after_model_callbacks/00/python_code.py"
    callback = {"pythonCode": path, "proactiveExecutionEnabled": True}
    headers = {"serverAddress": "https://x.test/mcp", "customHeaders": {"X-Plan": "$context.variables.plan"}}
    with_config(tmp_path, "toolsets/Crm/Crm.json", mcpToolset=headers, timeout="5s")
    with_config(tmp_path, "app.json", modelSettings={"model": "gemini-one"})
    callbacks = [callback, {**callback, "disabled": True}]
    root = {"modelSettings": {"model": "gemini-two"}, "afterModelCallbacks": callbacks}
    app = with_config(tmp_path, "agents/root/root.json", **root)

    assert [each.partition(" here")[0][:40] for each in app.unlike_platform] == [
        "after_model callback 0 of root runs once",
        "the customHeaders of Crm are not sent: t",
        "the timeout of Crm does not count: its r",
        "one model answers for all agents",
    ]
    assert app.unlike_platform[-1].endswith("the app has gemini-one, gemini-two")


GREET = "def greet():\n    return get_variable('name')\n"
GREETS = {"calls": [{"name": "greet"}]}


async def test_a_message_brings_variables_along(converse: Converse) -> None:
    """Which stay, as those that code sets; in a turn of the store too. One that was removed never was."""
    app = converse.app(
        {"root": {"tools": ["greet"], "instruction": "Greet {name}."}},
        tools={"greet": GREET},
        variables={"name": "nobody"},
    )
    async with Store.local(MEMORY) as store:
        conversation = converse(
            app, [GREETS, "Hi.", GREETS, "Hi."], sessions=store.sessions, turns=store.turns
        )

        first = await conversation.say("I am Ada.", variables={"name": "Ada"})
        second = await conversation.say("Again")

        assert [turn.calls[0].response for turn in (first, second)] == [{"result": "Ada"}] * 2
        assert second.variables["name"] == "Ada"

    agent = {
        "instruction": "Of {name} and {none}.",
        "callbacks": {"before_agent": ["remove_variable('name')"]},
    }
    model = ScriptedModel(["Hello."])
    app = converse.app({"root": agent}, variables={"name": "Ada", "none": None})
    await converse(app, model=model).say("Hi")

    assert "Of {name} and null." in str(model.requests[0].config.system_instruction)


HALF = "half \ud83d"
"""Of an emoji, as a text has it that was cut."""


@pytest.mark.parametrize("callbacks", [{}, {"before_model": ["pass"], "after_tool": ["pass"]}])
async def test_half_a_character_is_read_as_python_escapes_it_whoever_sends_it(
    converse: Converse, callbacks: dict[str, Any]
) -> None:
    """A user, a model and a server; code and later requests have it in their history."""
    agent = {"tools": ["look_up"], "instruction": "Of {name}.", "callbacks": callbacks}
    app = converse.app({"root": agent}, tools={"look_up": REAL})
    asks = {"calls": [{"name": "look_up", "args": {"of": HALF}}], "text": HALF}
    model = ScriptedModel([asks, "Found.", "Bye."])
    answers = MockTool(name="look_up", response={"found": HALF})
    conversation = converse(app, model=model, tools=[answers])
    conversation.key = await conversation.begin(variables={"name": HALF})

    turns = [await conversation.say(text) for text in (HALF, "Thanks")]

    assert [(turn.text, turn.error) for turn in turns] == [("half \\ud83d\nFound.", None), ("Bye.", None)]
    assert [(use.args, use.response) for use in turns[0].calls] == [
        ({"of": "half \\ud83d"}, {"found": "half \\ud83d"})
    ]
    assert r"Of half \\ud83d." in str(model.requests[2].config.system_instruction)


def nested(levels: int) -> Any:
    """Return lists within each other."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


async def test_each_message_is_one_turn_of_the_store_with_its_own_mocks(converse: Converse) -> None:
    """Before those of the conversation. Messages that two conversations send at once have one turn each."""
    app = converse.app({"root": {"tools": ["greet"]}}, tools={"greet": GREET})
    async with Store.local(MEMORY) as store:
        options = {"sessions": store.sessions, "turns": store.turns, "mocks": _answering("always")}
        one = converse(app, [GREETS, "Hi.", GREETS, "Hi."], **options)
        two = converse(app, [GREETS, "Hello."], **options)
        one.key = two.key = await one.begin()

        turns = await asyncio.gather(
            one.say("a", mocks=_answering("first")), two.say("b"), one.say("c", mocks=_answering("third"))
        )
        events = (await one.stored()).events

    answers = [turn.calls[0].response for turn in turns]
    assert answers == [{"result": "first"}, {"result": "always"}, {"result": "third"}]
    assert [turn.text for turn in turns] == ["Hi.", "Hello.", "Hi."]
    assert [event.author for event in events] == ["user", "root", "root", "root"] * 3


@pytest.mark.parametrize("by", ["turns", "runner"])
async def test_a_response_that_came_during_a_cancelled_turn_is_stored(converse: Converse, by: str) -> None:
    """The model of the next turn has it."""
    slow, answers = Gate({"result": 42}), asyncio.Event()

    async def answer(request: LlmRequest) -> types.Part:
        if len(request.contents) == 1:
            return types.Part(function_call=types.FunctionCall(name="work"))
        if not answers.is_set():  # in the turn that is cancelled
            slow.opened.set()
            await conversation.close()
            answers.set()
            await asyncio.Event().wait()
        return types.Part(text="It is 42.")

    app = write_slow_app(converse.folder)
    async with Store.local(MEMORY) as store:
        conversation = converse(
            app,
            model=Answering(answer=answer),
            sessions=store.sessions,
            turns=store.turns if by == "turns" else None,
            tools=[MockTool(name="slow", response=slow)],
        )
        turn = asyncio.create_task(conversation.say("Work"))
        await answers.wait()
        turn.cancel()
        await asyncio.wait([turn])

        session = await conversation.stored()
        assert turn.cancelled()
        assert [each.response for each in session.events[-1].get_function_responses()] == [{"result": 42}]
        assert (await conversation.say("And?")).text == "It is 42."


def _answering(said: str) -> MockConfig:
    return MockConfig.from_json({"mockedToolCalls": [{"toolId": "greet", "mockResponse": {"result": said}}]})


async def test_a_script_that_is_over_or_malformed_is_an_error(converse: Converse) -> None:
    """It says how many replies it has, or names the reply; a text would be a reply for each character."""
    conversation = converse(converse.app({"root": {}}), ["One."])
    await conversation.say("a")
    with pytest.raises(InvalidInputError, match="the script has 1 replies"):
        await conversation.say("b")

    assert (await converse(converse.app({"root": {}}), [{"text": None, "calls": []}]).say("a")).text == ""
    no_lists: tuple[Any, ...] = (5, "Hello.", {"text": "Hello."})
    for replies in no_lists:
        with pytest.raises(InvalidInputError, match=f"a list, not {type(replies).__name__}"):
            ScriptedModel(replies)
    script = converse.folder / "script.yaml"
    for text, says in (
        ("{", "cannot be read as a script"),
        ("[!!int '']", "cannot be read as a script"),
        ("{}", "must be a list"),
        ("[{}]", "reply 1 of the script"),
        ('["a", {"say": "b"}]', "reply 2 of the script"),
        ('[{"calls": [{}]}]', "reply 1 of the script"),
    ):
        script.write_text(text)
        with pytest.raises(InvalidInputError, match=says):
            ScriptedModel.from_file(script)


TALK = '''
def talk(times: int) -> dict:
    """Talk."""
    print("word " * times)
    ces_requests.get("https://api.example.com/words")
    raise ValueError("enough")
'''
QUIET = 'def quiet() -> dict:\n    """Say nothing."""\n    return {}\n'


def calling(name: str, **args: int) -> dict[str, list[dict[str, object]]]:
    """Return a reply of a model that calls a tool."""
    return {"calls": [{"name": name, "args": args}]}


async def test_each_run_reports_what_it_printed_warned_of_and_failed_with(converse: Converse) -> None:
    """A run that printed nothing does not. Logs of another form, which anybody may write, are left out."""
    app = converse.app(
        {"root": {"tools": ["talk", "quiet"], "callbacks": {"before_model": ["print('asked')"]}}},
        tools={"talk": TALK, "quiet": QUIET},
    )
    noted: list[RunLog] = []
    replies = [calling("quiet"), calling("talk", times=1), "Done."]
    turn = await converse(app, replies, note_run=lambda _, log: noted.append(log)).say("Go")

    assert [(each.agent, each.what) for each in noted] == [
        *[("root", "before_model")] * 2,
        ("root", "talk"),
        ("root", "before_model"),
    ]
    assert noted[2].printed == "word \n"
    assert "run with --allow-host api.example.com," in noted[2].warnings[0]
    assert noted[2].failure.endswith("ValueError: enough")
    assert noted[0].text == "root: before_model\n  asked"
    assert turn.logs == ()
    assert not any(event.custom_metadata for event in turn.events)

    log = {"what": "talk", "agent": "root", "printed": "word"}
    kept = [{**log, "warnings": None}, {**log, "agent": 3}, "talk", None, {**log, "more": 1}]
    events = [Event(author="root", custom_metadata={"ces_log": given}) for given in (kept, "none", None)]

    turn = ConversationTurn(events=tuple(events), agent="root", variables={}, ended=False)
    assert turn.logs == (RunLog(what="talk", agent="root", printed="word"),)


async def test_events_keep_as_much_of_the_logs_of_a_turn_as_the_setting_says(converse: Converse) -> None:
    """The traceback is cut last. An asynchronous tool's is with its response, and marked as late."""
    app = converse.app({"root": {"tools": ["talk"]}}, tools={"talk": TALK})
    settings = RuntimeSettings(stored_log_characters=2_000)
    conversation = converse(app, [calling("talk", times=5_000), "Done."], settings=settings)

    turn = await conversation.say("Go")

    (log,) = turn.logs
    assert log.size == 2_000
    assert log.failure.endswith("ValueError: enough")
    assert log.printed.startswith("word word")
    assert (
        sum("ces_log" in (event.custom_metadata or {}) for event in (await conversation.stored()).events) == 1
    )

    app = converse.app({"root": {"tools": ["talk"]}}, tools={"talk": TALK}, asynchronous=("talk",))
    noted: list[tuple[SessionKey, RunLog]] = []
    conversation = converse(
        app,
        [calling("talk", times=1), "Soon."],
        settings=RuntimeSettings(stored_log_characters=2_000),
        note_run=lambda key, log: noted.append((key, log)),
    )

    await conversation.say("Go")
    await conversation.close()

    (only,) = noted
    assert (only[0], only[1].what, only[1].late) == (conversation.key, "talk", True)
    kept = [event for event in (await conversation.stored()).events if event.custom_metadata]
    assert [event.author for event in kept] == ["user"]
    assert kept[0].get_function_responses()
