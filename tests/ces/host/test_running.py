"""A run sees its session, and leaves one event with what it changed, or none; variables are ADK's state."""

import asyncio
import inspect
import json
import linecache
import logging
import math
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.adk.artifacts import InMemoryArtifactService
from google.adk.artifacts.artifact_util import get_artifact_uri
from google.adk.errors import StaleSessionError
from google.adk.events import Event, EventActions
from google.adk.sessions import BaseSessionService, InMemorySessionService, Session
from google.genai import types

from gcp_adk_store.ces import (
    AppAgent,
    FakeTools,
    HttpPolicy,
    MockConfig,
    MockedCall,
    MockTool,
    OpenApiTool,
    PythonRuntime,
    PythonTool,
    RuntimeSettings,
    ScriptedModel,
    SessionKey,
    load_code,
    read_app,
)
from gcp_adk_store.ces.sandbox import BubblewrapSandbox, Limits, SandboxTimeoutError
from gcp_adk_store.errors import InvalidInputError, OverloadedError, SessionMissingError
from tests.ces.host.runs import KEY, Gate, Make, error_of, ran, result_of, stored, tool
from tests.support.clock import PassingTime
from tests.support.methods import options_of


async def test_a_clean_run_appends_one_event_with_what_it_changed(make: Make) -> None:
    """And says which. One that changes nothing appends none: a value that is there already is no change."""
    body = """
        set_variable("count", 1)
        context.state["name"] = "Grace"
        return get_variable("name")
    """
    run = await ran(make(), body, agent_name="greeter", invocation_id="e-1")
    same = await ran(make(), 'set_variable("name", "Grace"); return 1')

    (event,) = (await stored(make.sessions)).events
    assert (run.response, run.ok, run.event_id) == ({"result": "Grace"}, True, event.id)
    assert event.actions.state_delta == {"count": 1, "name": "Grace"}
    assert (event.author, event.invocation_id, event.content) == ("greeter", "e-1", None)
    assert (same.result, same.event_id) == (1, None)
    assert run.variables == (await stored(make.sessions)).state == {"count": 1, "name": "Grace"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"execution": "LATER"}, "execution is 'LATER', it must be 'SYNCHRONOUS' or 'ASYNCHRONOUS'"),
        ({"args": {"a": object()}}, "args"),
        *(({"key": key}, "") for key in ("", "a", "a/b", "a/b/c/d", "a//c", "a/b/%ff", 3)),
    ],
)
async def test_what_is_no_argument_is_refused(given: dict[str, Any], says: str, make: Make) -> None:
    """Before any code runs: a misspelled event_id would store a repeated run twice."""
    with pytest.raises(InvalidInputError) as refused:
        await make().run_tool(**{"code": "", "name": "a", "args": {}, "key": KEY, **given})
    assert says in str(refused.value)
    with pytest.raises(TypeError, match="unknown options of a run: evnt_id"):
        await ran(make(), "return 1", evnt_id="e-1")
    with pytest.raises(SessionMissingError, match="shop/ada/none"):
        await ran(make(), "return 1", key="shop/ada/none")


async def test_what_is_of_another_kind_is_refused_by_its_name(make: Make) -> None:
    """Each argument and each setting, when a thing is made or called, not when code runs."""
    call = {"name": "tool", "args": {}, "key": KEY}
    known = PythonTool(name="tool", code=tool("return 1"))
    shown = read_app(Path(__file__).parents[3] / "examples/ces/app")
    takers: tuple[tuple[Callable[..., Any], dict[str, Any]], ...] = (
        *((HttpPolicy, {}), (RuntimeSettings, {}), (Limits, {}), (PythonTool, {"name": "a", "code": ""})),
        (PythonRuntime, {"session_service": make.sessions, "sandbox": "inprocess"}),
        *(
            (MockTool, {"name": "a", "response": 1}),
            (MockConfig, {}),
            (MockedCall, {"tool": "a", "response": {}}),
        ),
        *((FakeTools, {"source": ""}), (SessionKey, {"app": "a", "user": "b", "session": "c"})),
        *((OpenApiTool.from_spec, {"document": {}}), (AppAgent, {"app": shown, "model": "gemini-2.5-flash"})),
        *((read_app, {"folder": Path()}), (load_code, {}), (ScriptedModel.from_file, {})),
        *((make().run_tool, {**call, "code": ""}), (make(tools=[known]).call_tool, call)),
    )
    accepted = []
    for takes, good in takers:
        for name in {*options_of(takes)} - {"response"}:  # which may be anything
            try:
                found = takes(**{**good, name: object()})
                if inspect.isawaitable(found):
                    await found
            except InvalidInputError as exc:
                if name in str(exc):
                    continue
            accepted.append(f"{takes.__qualname__}({name})")
    assert accepted == []


def test_a_key_is_the_same_as_its_text() -> None:
    """Whatever its parts hold."""
    key = SessionKey("a/b", "ü %", "c?#")

    assert SessionKey.of(str(key)) == key is SessionKey.of(key)
    assert str(SessionKey("shop", "ada", "s1")) == KEY


async def test_a_failure_changes_nothing(make: Make) -> None:
    """The model gets to see it, and the caller the line."""
    run = await ran(make(), 'set_variable("name", "Grace")\nremove_variable("name")\nraise KeyError("x")')
    session = await stored(make.sessions)

    assert (str(run.error), run.result) == ("KeyError: x", {"error": "KeyError: x"})
    assert (run.event_id, run.variables) == (None, {"name": "Ada"})
    assert (session.state, session.events) == ({"name": "Ada"}, [])


DEEP = """
made = []
for _ in range({levels} - 1):
    made = [made]
set_variable("deep", made)
return made
"""


async def test_what_nests_as_deep_as_it_may_comes_through(make: Make) -> None:
    """One more below the variables is an error of the code, and so are arguments that it cannot have."""
    deepest = await ran(make(), DEEP.format(levels=89))
    deeper = await ran(make(), DEEP.format(levels=90))
    args: dict[str, Any] = {}
    for _ in range(100):
        args = {"a": args}
    failed = await make().run_tool("def greet(a): pass", "greet", args, KEY)

    assert deepest.variables["deep"] == deepest.result
    assert json.dumps(deepest.result) == "[" * 89 + "]" * 89
    assert "nested deeper than 90 levels" in error_of(deeper).message
    assert failed.result["error"].startswith("NotJsonError: args"), "not null, as if the tool had run"


class Contested(InMemorySessionService):
    """Sessions that another writer changes first, so many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store *event*, unless the other writer is first."""
        if self.times:
            self.times -= 1
            other = await stored(self)
            count = other.state.get("others", 0) + 1
            await super().append_event(
                other, Event(author="other", actions=EventActions(state_delta={"others": count}))
            )
            raise StaleSessionError("another writer was first")
        return await super().append_event(session, event)


async def contested(times: int) -> Contested:
    """Return sessions of which there is one."""
    service = Contested(times)
    await service.create_session(app_name="shop", user_id="ada", session_id="s1")
    return service


SEEN = 'n = get_variable("others") or 0; set_variable("seen", n); return n'


async def test_where_another_writer_is_first_code_runs_again_if_it_may(make: Make) -> None:
    """On what is there then; no more often than it may."""
    service = await contested(2)
    settings = RuntimeSettings(reruns_on_conflict=2)

    assert await result_of(make(sessions=service, settings=settings), SEEN) == 2
    assert (await stored(service)).state == {"others": 2, "seen": 2}

    service = await contested(3)
    with pytest.raises(StaleSessionError):
        await ran(make(sessions=service, settings=settings), SEEN)


async def test_a_session_has_a_bounded_queue_of_runs(make: Make, bubblewrap: BubblewrapSandbox) -> None:
    """A run beyond it is refused before its code runs; the runs before it, and other sessions, go on."""
    gate = Gate()
    await make.sessions.create_session(app_name="shop", user_id="ada", session_id="s2")
    runtime = make(
        sandbox=bubblewrap,
        tools=[MockTool(name="gate", response=gate)],
        settings=RuntimeSettings(waiting_per_session=2),
    )
    first = asyncio.create_task(result_of(runtime, "return tools.gate({}).json()"))
    await gate.begun.wait()
    waiting = [asyncio.create_task(result_of(runtime, "return 2")) for _ in range(2)]
    await asyncio.sleep(0)

    with pytest.raises(OverloadedError, match=f"run_tool {KEY}: 2 runs .*waiting_per_session"):
        await ran(runtime, "return 3")
    assert await result_of(runtime, "return 4", key="shop/ada/s2") == 4
    gate.opened.set()
    assert await asyncio.gather(first, *waiting) == [1, 2, 2]
    assert await result_of(runtime, "return 5") == 5


async def said(sessions: BaseSessionService, author: str, invocation: str, *parts: types.Part) -> None:
    """Append an event with *parts*."""
    content = types.Content(role="user" if author == "user" else "model", parts=list(parts))
    event = Event(author=author, invocation_id=invocation, content=content)
    await sessions.append_event(await stored(sessions), event)


async def test_code_sees_the_session(make: Make) -> None:
    """Its history, what the user said last, and who and where it is."""
    history = [["user", "e-1", "Hello"], ["greeter", "e-1", "Hi"], ["user", "e-2", "Bye"]]
    for author, invocation, text in history:
        await said(make.sessions, author, invocation, types.Part(text=text))
    body = """
        return [
            [(event.author, event.invocation_id, event.parts()[0].text) for event in context.events],
            context.user_content.parts[0].text, context.get_last_agent_output()[0].text,
            context.session_id, context.invocation_id, context.agent_name, context.function_call_id,
            context.language_code, context.turn_index,
        ]
    """
    ids = {"invocation_id": "e-2", "function_call_id": "call-7"}
    runtime = make(settings=RuntimeSettings(agent_name="root"))
    seen = await result_of(runtime, body, **ids, context={"language_code": "en", "turn_index": 2})

    assert seen == [history, "Bye", "Hi", "s1", "e-2", "root", "call-7", "en", 2]


async def test_a_history_that_is_too_long_lacks_its_oldest_events(make: Make) -> None:
    """So a session that goes on for months still runs code, with a warning of what is missing."""
    for number in range(5):
        await said(make.sessions, "user", f"e-{number}", types.Part(text=f"{number}" * 1000))

    settings = RuntimeSettings(history_bytes=4000)
    run = await ran(make(settings=settings), "return [part.text[0] for part in context.parts()]")
    assert run.result == ["2", "3", "4"]
    assert run.warnings == ("context.events lacks the oldest 2, which are over history_bytes",)


async def test_what_the_user_sent_is_there_on_its_turn_alone(make: Make) -> None:
    """As on the platform. A tool's response is not what the user said, and what they say now can be given."""
    picture = types.Part(inline_data=types.Blob(mime_type="image/png", data=b"\xfb\xff\xfe"))
    await said(make.sessions, "user", "e-1", types.Part(text="first"), picture)
    body = """
        return [
            context.user_content.parts[0].text,
            [part.inline_data.data.decode() for part in context.user_content.parts if part.inline_data],
            [part.inline_data.raw_data.hex() for part in context.parts() if part.inline_data],
        ]
    """
    assert await result_of(make(), body) == ["first", ["+//+"], ["fbfffe"]]

    await said(make.sessions, "user", "e-2", types.Part(text="second"))
    late = types.FunctionResponse(name="late", response={"result": 1})
    await said(make.sessions, "user", "e-3", types.Part(function_response=late))
    assert await result_of(make(), body) == ["second", [], []]
    now = types.Content(role="user", parts=[types.Part(text="Now")])
    assert (await result_of(make(), body, user_content=now))[0] == "Now"


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *((name, -1) for name in ("max_depth", "reruns_on_conflict", "recent_events", "history_bytes")),
        *(("agent_name", "user"), ("agent_name", "")),
        *(("sandboxes_at_once", 0), ("sandboxes_per_session", 0), ("longest_wait_s", -1)),
        ("longest_wait_s", math.nan),
    ],
)
def test_settings_that_cannot_be_are_refused(setting: str, value: Any) -> None:
    """At once, by name."""
    given: dict[str, Any] = {setting: value}
    with pytest.raises(InvalidInputError, match=setting):
        RuntimeSettings(**given)


async def test_logs_have_ids_and_sizes(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    """Neither what was said nor what was printed. Settings of the code travel with each run."""
    code = tool('print("hush"); set_variable("secret", who); return who', parameters="who")
    strict = RuntimeSettings(guest=replace(RuntimeSettings().guest, strict_typing=True))
    with caplog.at_level(logging.DEBUG):
        await make().run_tool(code, "tool", {"who": "hush"}, KEY)
    typed = tool("return n", parameters="n: Optional[int]")
    run = await make(settings=strict).run_tool(typed, "tool", {"n": 1}, KEY)

    assert "run_tool tool on shop/ada/s1: done" in caplog.text
    assert "hush" not in caplog.text
    assert error_of(run).type == "NameError"


async def test_code_that_is_given_up_in_this_process_does_not_keep_its_streams(
    make: Make, capsys: pytest.CaptureFixture[str], passing: PassingTime
) -> None:
    """Neither while its thread goes on, nor when that ends during another run."""
    held, threads = Gate(), set(threading.enumerate())

    async def too_late(_args: object) -> None:
        passing.after(3600)
        await held()

    async def released(_args: object) -> None:
        (mine,) = {each for each in threading.enumerate() if each.ident == current[-1]}
        held.opened.set()
        for each in set(threading.enumerate()) - threads - {mine}:
            await asyncio.to_thread(each.join)

    current: list[int] = []
    tools = [
        MockTool(name="held", response=too_late),
        MockTool(name="released", response=released),
        MockTool(name="mine", response=lambda args: current.append(args["thread"])),
    ]
    runtime = make(tools=tools)

    with pytest.raises(SandboxTimeoutError):
        await ran(runtime, "tools.held({})")
    sys.stdout.write("of the host\n")
    assert capsys.readouterr().out == "of the host\n"
    code = """
    import threading
    tools.mine({"thread": threading.get_ident()})
    tools.released({})
    print("of the second")
    """
    assert (await ran(runtime, code)).stdout == "of the second\n"
    for name in ("ces_code", "ces_internal", "ces_public"):  # what runs that overlap leave behind
        sys.modules.pop(name, None)
    linecache.clearcache()
    assert capsys.readouterr().out == ""


async def test_an_artifact_of_the_session_is_loaded(make: Make) -> None:
    """In place of the reference; others, and what is gone, stay as they were, with a warning."""
    artifacts = InMemoryArtifactService()
    where: dict[str, Any] = {"app_name": "shop", "session_id": "s1"}
    for user in ("ada", "eve"):
        part = types.Part(inline_data=types.Blob(mime_type="text/plain", data=user.encode()))
        await artifacts.save_artifact(**where, user_id=user, filename="note.txt", artifact=part)
    uris = [
        get_artifact_uri(**where, user_id=user, filename=name, version=0)
        for user, name in (("ada", "note.txt"), ("eve", "note.txt"), ("ada", "gone.txt"))
    ]
    files = [types.FileData(file_uri=uri, mime_type="text/plain") for uri in (*uris, "gs://bucket/object")]
    content = types.Content(role="user", parts=[types.Part(file_data=file) for file in files])
    body = """
        return [part.inline_data.raw_data.decode() if part.inline_data else None
                for part in context.user_content.parts]
    """
    run = await ran(make(artifact_service=artifacts), body, user_content=content)

    assert run.result == ["ada", None, None, None]
    assert len([warning for warning in run.warnings if "artifact" in warning]) == 2


@pytest.mark.parametrize("parts", ["text", ["text"], 5])
async def test_content_that_is_none_is_an_error_of_the_run(parts: Any, make: Make) -> None:
    """With a service of artifacts as without."""
    for options in ({}, {"artifact_service": InMemoryArtifactService()}):
        run = await ran(make(**options), "return 1", user_content={"parts": parts})
        assert str(error_of(run)).startswith("RequestError: userContent.parts")


def deep(levels: int) -> list[Any]:
    """Return lists within each other."""
    made: list[Any] = []
    for _ in range(levels):
        made = [made]
    return made


async def test_none_is_a_value_of_a_variable(make: Make) -> None:
    """A removed one is gone for code. ADK's state knows no removal: it is None, and a mark says what that is.

    One that others set again is there, whatever mark there is: agents of ADK know nothing of it.
    """
    runtime = make()
    body = 'return [get_variable("name"), context.get_variable("name", 1), "name" in context.state]'
    for _ in range(2):
        await ran(runtime, 'set_variable("name", None)')
        assert await result_of(runtime, body) == [None, None, True]

        await ran(runtime, 'remove_variable("name")')
        assert await result_of(runtime, body) == [None, 1, False]
        assert (await stored(make.sessions)).state == {"name": None, "ces_removed:name": True}
        assert error_of(await ran(runtime, 'remove_variable("name")')).type == "KeyError"
    event = Event(author="other", actions=EventActions(state_delta={"name": "Grace"}))
    await make.sessions.append_event(await stored(make.sessions), event)
    assert await result_of(runtime, body) == ["Grace", "Grace", True]


async def test_variables_of_users_and_apps_are_shared_by_name(make: Make) -> None:
    """Removed in one session, they are gone in the other. Other names would share nothing, or too much."""
    wrong: tuple[Any, ...] = (True, "app:theme", ("theme",), ("temp:theme",), (1,), ("app:ces_removed:a",))
    for shared in wrong:
        with pytest.raises(InvalidInputError, match="shared_variables"):
            RuntimeSettings(shared_variables=shared)
    await make.sessions.create_session(app_name="shop", user_id="ada", session_id="s2")
    runtime = make(settings=RuntimeSettings(shared_variables=("user:plan", "app:open")))
    await ran(runtime, 'set_variable("user:plan", "gold"); set_variable("app:open", True)')
    body = 'return {name: value for name, value in context.state.items() if ":" in name}'
    assert await result_of(runtime, body, key="shop/ada/s2") == {"user:plan": "gold", "app:open": True}

    await ran(runtime, 'remove_variable("user:plan")', key="shop/ada/s2")
    assert await result_of(runtime, body) == {"app:open": True}


@pytest.mark.parametrize("name", ["app:open", "user:plan", "app:theme.dark", "app:*"])
async def test_code_neither_sees_nor_sets_other_variables_of_users_and_apps(name: str, make: Make) -> None:
    """Code of one user would steer the runs of others; a name that is shared shares no longer one."""
    event = Event(author="agent", actions=EventActions(state_delta={name: "set by the agent"}))
    await make.sessions.append_event(await stored(make.sessions), event)
    for shared in ((), ("app:theme", "user:planet")):
        runtime = make(settings=RuntimeSettings(shared_variables=shared))
        assert await result_of(runtime, "return dict(context.state)") == {"name": "Ada"}
        for body in (f'set_variable("{name}", False)', f'set_variable("{name}", 1); remove_variable("name")'):
            run = await ran(runtime, body)
            assert run.error is not None
            assert (run.error.type, "shared_variables" in run.error.message) == ("InvalidInputError", True)
    assert (await stored(make.sessions)).state == {"name": "Ada", name: "set by the agent"}


async def test_a_variable_of_adks_fleeting_scope_lasts_for_its_run(make: Make) -> None:
    """Its author gets a warning. In a history, numbers that are no JSON are null."""
    run = await ran(make(), 'set_variable("temp:draft", 1); return get_variable("temp:draft")')

    assert (run.result, run.event_id) == (1, None)
    assert any("temp:draft" in warning for warning in run.warnings)
    assert (await stored(make.sessions)).state == {"name": "Ada"}

    for value in (float("nan"), 1):
        event = Event(author="other", actions=EventActions(state_delta={"odd": value}))
        await make.sessions.append_event(await stored(make.sessions), event)

    body = "return [event.actions.state_delta for event in context.events]"
    assert await result_of(make(), body) == [{"odd": None}, {"odd": 1}]


@pytest.mark.parametrize("name", ["ces_removed:name", "user:ces_removed:name", "app:ces_removed:x"])
async def test_the_names_of_marks_are_not_for_variables(name: str, make: Make) -> None:
    """Code could take away what it may not change; the run fails, whose caller did nothing wrong."""
    run = await ran(make(), f'set_variable("{name}", True); return 1')

    assert run.error is not None
    assert (run.error.type, "name" in run.error.message) == ("InvalidInputError", True)
    assert (run.result, run.variables) == ({"error": str(run.error)}, {"name": "Ada"})
    assert (await stored(make.sessions)).events == []


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": {1: 2}}, object(), "\ud800", deep(95)])
async def test_a_variable_of_others_that_code_cannot_have_stays_away_from_it(value: Any, make: Make) -> None:
    """ADK's state takes such; the run begins, a warning names it, and code can set it."""
    state = {"name": "Ada", "odd": value}
    await make.sessions.create_session(app_name="shop", user_id="ada", session_id="s2", state=state)
    runtime, key = make(), "shop/ada/s2"

    run = await ran(runtime, 'return [dict(context.state), get_variable("odd")]', key=key)
    assert run.result == [{"name": "Ada"}, None]
    assert any("'odd'" in warning for warning in run.warnings)
    again = await ran(runtime, 'set_variable("odd", 1)', key=key)
    assert (again.ok, again.variables, again.warnings) == (True, {"name": "Ada", "odd": 1}, run.warnings)
    assert (await ran(runtime, "return 1", key=key)).warnings == ()


@pytest.mark.parametrize("body", ['remove_variable("odd")', "tools.forget({})", "async_tools.forget({})"])
async def test_code_removes_a_variable_that_it_cannot_have(body: str, make: Make) -> None:
    """Also in a tool that it calls, and does not wait for; once it is removed, it is missing."""
    forget = PythonTool(name="forget", code=tool('remove_variable("odd")', name="forget"))
    state = {"name": "Ada", "odd": float("nan"), "\ud800": 1}
    await make.sessions.create_session(app_name="shop", user_id="ada", session_id="s2", state=state)
    runtime, key = make(tools=[forget]), SessionKey("shop", "ada", "s2")

    for twice in ('remove_variable("odd"); remove_variable("odd")', 'remove_variable("\\ud800")'):
        assert error_of(await ran(runtime, twice, key=key)).type == "KeyError"
    run = await ran(runtime, f'{body}; return "odd" in context.state', key=key)
    assert (run.result, run.variables) == (False, {"name": "Ada"})
    removed = {"odd": None, "ces_removed:odd": True}
    assert (await stored(make.sessions, key)).state == {"name": "Ada", "\ud800": 1, **removed}
    assert error_of(await ran(runtime, 'remove_variable("odd")', key=key)).type == "KeyError"


SMALL = RuntimeSettings(
    shared_variables=("user:a", "user:b", "app:a", "app:b"),
    session_variables_bytes=1000,
    user_variables_bytes=500,
    app_variables_bytes=300,
    variables_per_scope=5,
)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('set_variable("a", "x" * 600); set_variable("b", "x" * 600)', "1000 of session_variables_bytes"),
        ('set_variable("x" * 1001, 1)', "1000 of session_variables_bytes"),
        ('set_variable("a", "\u00e9" * 200)', "1000 of session_variables_bytes"),
        (
            'set_variable("user:a", "x" * 300); set_variable("user:b", "x" * 300)',
            "500 of user_variables_bytes",
        ),
        ('set_variable("app:a", "x" * 400)', "300 of app_variables_bytes"),
        ("for n in range(5): set_variable(str(n), n)", "5 of variables_per_scope"),
        ('tools.put({"n": "x" * 2000})', "1000 of session_variables_bytes"),
    ],
)
async def test_more_variables_than_a_scope_may_have_fail_the_run(body: str, says: str, make: Make) -> None:
    """Nothing is stored, and the next run begins as if it had not been."""
    put = PythonTool(name="put", code=tool('set_variable("put", n)', name="put", parameters="n"))
    runtime = make(settings=SMALL, tools=[put])

    run = await ran(runtime, f"{body}\nreturn 1")
    assert run.error is not None
    assert (run.error.type, says in run.error.message) == ("VariablesTooLargeError", True), run.error
    assert (run.event_id, run.variables) == (None, {"name": "Ada"})
    assert (await stored(make.sessions)).state == {"name": "Ada"}
    assert await result_of(runtime, "return context.state") == {"name": "Ada"}


async def overfill(sessions: BaseSessionService, *, size: int) -> None:
    """Let an agent set what code may not: 104 variables of so many bytes."""
    delta = {f"large{n:03}": "x" * size for n in range(104)}
    event = Event(author="agent", actions=EventActions(state_delta=delta))
    await sessions.append_event(await stored(sessions), event)


async def test_a_run_begins_with_all_variables_that_its_request_can_hold(make: Make) -> None:
    """Also above the limits of a scope; what is larger than ``frame_bytes`` is an error that says so."""
    runtime = make(settings=RuntimeSettings(session_variables_bytes=600_000, history_bytes=0))
    await overfill(make.sessions, size=100_000)

    assert await result_of(runtime, 'return [len(context.state), get_variable("name")]') == [105, "Ada"]
    await overfill(make.sessions, size=250_000)
    with pytest.raises(InvalidInputError, match="frame_bytes"):
        await ran(runtime, "return 1")


async def test_an_overfull_scope_takes_what_does_not_make_it_larger(make: Make) -> None:
    """Smaller values and other scopes; nothing else until it is within its limits. Code can delete."""
    await overfill(make.sessions, size=25_000)
    shared = ("user:large",)
    runtime = make(settings=RuntimeSettings(session_variables_bytes=600_000, shared_variables=shared))

    assert (await ran(runtime, 'set_variable("large103", 1)')).ok
    assert (await ran(runtime, 'set_variable("user:large", 1)')).ok
    run = await ran(runtime, 'set_variable("more", "x" * 10)')
    assert error_of(run).type == "VariablesTooLargeError"
    assert (await ran(runtime, 'for n in range(103): remove_variable(f"large{n:03}")')).ok
    assert (await ran(runtime, 'set_variable("more", "x" * 10)')).ok
    assert sorted((await ran(runtime, "pass")).variables) == ["large103", "more", "name", "user:large"]


async def test_names_of_removed_variables_are_bounded(make: Make) -> None:
    """ADK's state keeps them for good; each can be used again."""
    runtime = make(settings=SMALL)
    for name in ("a", "b", "c", "d"):
        assert (await ran(runtime, f'set_variable("{name}", 1)')).ok
        assert (await ran(runtime, f'remove_variable("{name}")')).ok

    run = await ran(runtime, 'set_variable("e", 1)')
    assert "variables_per_scope" in error_of(run).message
    assert (await ran(runtime, 'set_variable("a", 2)')).ok
    assert len((await stored(make.sessions)).state) == 1 + 2 * 4
