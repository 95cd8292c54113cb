"""Asynchronous tools answer later; calls in the background end with their run."""

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from google.adk.errors import StaleSessionError
from google.adk.events import Event, EventActions
from google.adk.sessions import InMemorySessionService

from gcp_adk_store.ces import MockConfig, MockTool, PythonRuntime, PythonTool, RuntimeSettings, Tool
from gcp_adk_store.ces.sandbox import Limits, SandboxTimeoutError
from gcp_adk_store.errors import OverloadedError
from tests.ces.host.runs import KEY, Acted, Gate, Make, error_of, ran, stored, tool
from tests.ces.host.test_running import contested
from tests.ces.host.test_tools import DOUBLE, FAIL, FORGET
from tests.ces.host.test_untrusted import HONEST
from tests.support.clock import PassingTime

LATE = tool(
    'tools.gate({})\nset_variable("quote", 7)\nremove_variable("name")\nreturn {"quote": 7}', name="late"
)


async def test_the_response_comes_as_the_users_once_it_is_there(make: Make) -> None:
    """One event has it, and what changed; until then nothing is stored, and others go on."""
    gate = Gate()
    runtime = make(
        tools=[
            MockTool(name="gate", response=gate),
            PythonTool(name="late", code=LATE, execution="ASYNCHRONOUS"),
        ],
    )

    run = await runtime.call_tool("late", {}, KEY, function_call_id="call-1", invocation_id="e-1")
    assert (run.response, run.pending, run.event_id) == ({"result": "pending"}, True, None)
    assert (await stored(make.sessions)).events == []
    other = Event(author="other", actions=EventActions(state_delta={"meanwhile": 1}))
    await make.sessions.append_event(await stored(make.sessions), other)
    gate.opened.set()
    done = await run.finished()

    assert (done.response, done.pending) == ({"result": {"quote": 7}}, False)
    assert await done.finished() is done
    session = await stored(make.sessions)
    event = session.events[-1]
    assert (event.id, event.author, event.invocation_id) == (done.event_id, "user", "e-1")
    assert event.content is not None
    assert event.content.role == "user"
    (response,) = event.get_function_responses()
    assert response.model_dump(exclude_none=True) == {
        "id": "call-1",
        "name": "late",
        "response": {"result": {"quote": 7}},
    }
    assert session.state == {"name": None, "ces_removed:name": True, "quote": 7, "meanwhile": 1}


async def test_a_tool_can_be_run_asynchronously_without_being_registered(make: Make) -> None:
    """An error is its response, and changes nothing. One that code calls is awaited."""
    code = tool('set_variable("a", 1)\nraise ValueError("no")')

    run = await make().run_tool(code, "tool", {}, KEY, execution="ASYNCHRONOUS")
    done = await run.finished()

    assert (done.ok, done.response) == (False, {"result": {"error": "ValueError: no"}})
    session = await stored(make.sessions)
    assert session.state == {"name": "Ada"}
    assert session.events[-1].get_function_responses()[0].response == done.response

    late = PythonTool(name="late", code=tool("return 1", name="late"), execution="ASYNCHRONOUS")

    run = await make(tools=[late]).run_tool(tool("return tools.late({}).json()"), "tool", {}, KEY)
    assert run.result == {"result": 1}


async def test_a_late_response_is_stored_after_others(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    """The code does not run again for it; and it gives up at some time."""
    service = await contested(3)
    runtime = make(sessions=service)
    code = tool('print("once")\nset_variable("seen", get_variable("others"))\nreturn 1')

    done = await (await runtime.run_tool(code, "tool", {}, KEY, execution="ASYNCHRONOUS")).finished()
    assert done.stdout == "once\n"
    assert (await stored(service)).state == {"others": 3, "seen": None}

    service = await contested(10)
    runtime = make(sessions=service)
    run = await runtime.run_tool(code, "tool", {}, KEY, execution="ASYNCHRONOUS")
    with pytest.raises(StaleSessionError):
        await run.finished()
    assert "the response of tool was not stored in shop/ada/s1: StaleSessionError" in caplog.text


async def test_a_session_has_a_bounded_number_of_asynchronous_tools(make: Make) -> None:
    """A further one is refused before its code runs, until an earlier one has ended."""
    gate = Gate()
    runtime = make(
        tools=[
            MockTool(name="gate", response=gate),
            PythonTool(name="late", code=tool("tools.gate({})", name="late"), execution="ASYNCHRONOUS"),
        ],
        settings=RuntimeSettings(waiting_per_session=2),
    )
    await make.sessions.create_session(app_name="shop", user_id="ada", session_id="s2")
    begun = [await runtime.call_tool("late", {}, key) for key in (KEY, KEY, "shop/ada/s2")]

    with pytest.raises(OverloadedError, match=f"call_tool {KEY}: 2 asynchronous .*waiting_per_session"):
        await runtime.call_tool("late", {}, KEY)
    gate.opened.set()
    await asyncio.gather(*(run.finished() for run in begun))
    again = await runtime.call_tool("late", {}, KEY)
    assert (await again.finished()).ok
    assert len((await stored(make.sessions)).events) == 3


async def test_closing_waits_for_what_other_event_loops_have(make: Make) -> None:
    """And not for those that are gone: a loop that ends cancels what it has, and the log has it."""
    gate = threading.Event()
    begun = threading.Event()

    async def wait(args: Mapping[str, Any]) -> dict[str, Any]:
        begun.set()
        await asyncio.to_thread(gate.wait)
        return dict(args)

    runtime = make(tools=[MockTool(name="gate", response=wait)])
    code = tool('tools.gate({}); set_variable("late", 1)')

    async def elsewhere() -> None:
        run = await runtime.run_tool(code, "tool", {}, KEY, execution="ASYNCHRONOUS")
        await run.finished()

    other = threading.Thread(target=asyncio.run, args=(elsewhere(),))
    other.start()
    await asyncio.to_thread(begun.wait)
    closing = asyncio.create_task(runtime.close())
    await asyncio.sleep(0)
    assert not closing.done()
    gate.set()
    await closing
    assert (await stored(make.sessions)).state["late"] == 1
    other.join()


def test_an_event_loop_that_ends_first_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Its late response is not stored."""

    async def begin() -> None:
        await sessions.create_session(app_name="shop", user_id="ada", session_id="s1")
        await runtime.run_tool(tool("return 1"), "tool", {}, KEY, execution="ASYNCHRONOUS")

    sessions = InMemorySessionService()
    runtime = PythonRuntime(sessions, sandbox=Acted(Gate()))
    asyncio.run(begin())
    assert "the response of tool was not stored in shop/ada/s1: CancelledError" in caplog.text
    asyncio.run(runtime.close())


@pytest.mark.parametrize(
    ("args", "settings"),
    [
        ({"a": 1}, RuntimeSettings()),
        ({"a": "x" * 20_000}, RuntimeSettings(limits=Limits(frame_bytes=10_000))),
    ],
)
async def test_what_cannot_be_stored_or_run_is_a_late_response_too(
    args: dict[str, Any], settings: RuntimeSettings, make: Make
) -> None:
    """The model waits for one; what the tool changed is dropped."""
    runtime = make(settings=settings)

    code = tool('set_variable("app:open", a)', parameters="a")
    run = await runtime.run_tool(code, "tool", args, KEY, execution="ASYNCHRONOUS")
    done = await run.finished()

    assert error_of(done).type == "InvalidInputError"
    session = await stored(make.sessions)
    assert (session.state, done.variables) == ({"name": "Ada"}, {"name": "Ada"})
    assert session.events[-1].get_function_responses()[0].response == {"result": {"error": str(done.error)}}


async def test_a_tool_that_is_tried_again_while_it_runs_is_stored_once(make: Make) -> None:
    """Under the id that both tries have: the later response is a conflict."""
    runtime = make()
    tries = [
        await runtime.run_tool(tool("return 1"), "tool", {}, KEY, execution="ASYNCHRONOUS", event_id="try-1")
        for _ in range(2)
    ]
    ended = await asyncio.gather(*(each.finished() for each in tries), return_exceptions=True)

    assert sorted(type(each).__name__ for each in ended) == ["SessionConflictError", "ToolRun"]
    assert [event.id for event in (await stored(make.sessions)).events] == ["try-1"]


async def slow(*_: Any, **__: Any) -> dict[str, Any]:
    """Take too long."""
    error = SandboxTimeoutError("the code took too long")
    error.output = "so far"
    raise error


async def test_how_the_process_ended_is_a_late_response_too(make: Make) -> None:
    """The model waits for one; a synchronous tool raises it."""
    runtime = make(sandbox=Acted(slow))

    run = await runtime.run_tool(tool("return 1"), "tool", {}, KEY, execution="ASYNCHRONOUS")
    done = await run.finished()
    assert (error_of(done).type, done.stdout) == ("SandboxTimeoutError", "so far")
    assert len((await stored(make.sessions)).events) == 1
    with pytest.raises(SandboxTimeoutError):
        await runtime.run_tool(tool("return 1"), "tool", {}, KEY)
    assert len((await stored(make.sessions)).events) == 1


PUT = PythonTool(name="put", code=tool('set_variable("put", n)', name="put", parameters="n"))
ANSWERS = MockTool(name="large", response="x" * 300)
CHANGES = PythonTool(name="large", code=tool('set_variable("large", "x" * 300)', name="large"))
NAME = PythonTool(name="rename", code=tool('set_variable("name", "Grace")', name="rename"))


@pytest.mark.parametrize(
    ("body", "delta"),
    [
        ('async_tools.put({"n": 1}); async_tools.put({"n": 2})', {"put": 2}),
        ('async_tools.put({"n": 1}); set_variable("put", 3)', {"put": 1}),
        ('one = async_tools.put({"n": 1}); async_tools.put({"n": 2}); one()', {"put": 2}),
        ("async_tools.forget({})", {"name": None, "ces_removed:name": True}),
        ('async_tools.forget({}); set_variable("name", "Eve")', {"name": None, "ces_removed:name": True}),
        ("async_tools.forget({}); async_tools.rename({})", {"name": "Grace"}),
        ("async_tools.rename({}); async_tools.forget({})", {"name": None, "ces_removed:name": True}),
        ('async_tools.rename({}); remove_variable("name")', {"name": "Grace"}),
        ('async_tools.fail({}); set_variable("put", 3)', {"put": 3}),
    ],
)
async def test_what_they_change_counts_last(body: str, delta: dict[str, Any], make: Make) -> None:
    """In the order of their begin; of those that were awaited, there."""
    run = await ran(make(tools=[PUT, FORGET, NAME, FAIL]), body)

    (event,) = (await stored(make.sessions)).events
    assert (run.ok, event.actions.state_delta) == (True, delta)
    visible = {
        name: value for name, value in (await stored(make.sessions)).state.items() if value is not None
    }
    assert run.variables == {name: value for name, value in visible.items() if ":" not in name}


async def begin_a_call(_: Any, answer: Any, **__: Any) -> dict[str, Any]:
    """Begin a call of ``slow``, and end."""
    begin = {"call": "tool", "id": 1, "tool": "slow", "args": {}, "state": {}, "background": True}
    assert await answer(begin) == {}
    await asyncio.sleep(0)
    return HONEST


async def test_they_have_the_time_of_a_run(make: Make, passing: PassingTime) -> None:
    """Then the run has failed: without their end nobody knows what it did."""

    async def last_for_ever(_: Any) -> None:
        while True:  # a second passes with each turn of the loop
            passing.after(1)
            await asyncio.sleep(0)

    tools = [MockTool(name="slow", response=last_for_ever)]
    runtime = make(tools=tools, sandbox=Acted(begin_a_call))
    with pytest.raises(SandboxTimeoutError, match="did not wait for"):
        await ran(runtime, "pass")
    assert (await stored(make.sessions)).events == []


async def test_one_that_ends_the_run_ends_it_though_nobody_awaits_it(make: Make) -> None:
    """A call that no mock fits must not pass. Others are finished before the run is, with a warning."""
    run = await ran(
        make(tools=[DOUBLE]),
        'set_variable("a", 1); async_tools.double({"n": 9}); return 1',
        mocks=MockConfig(unmatched="FAIL"),
    )

    assert error_of(run).type == "UnmatchedToolCallError"
    assert (run.result, run.variables) == ({"error": str(run.error)}, {"name": "Ada"})
    assert (await stored(make.sessions)).events == []

    done = []

    async def note(args: Mapping[str, Any]) -> dict[str, Any]:
        done.append(args["n"])
        return {}

    runtime = make(tools=[MockTool(name="note", response=note)])
    run = await ran(runtime, 'async_tools.note({"n": 1}); async_tools.note({"n": 2})')

    assert sorted(done) == [1, 2]
    assert any("background" in warning for warning in run.warnings)


@pytest.mark.parametrize("large", [ANSWERS, CHANGES])
async def test_answers_that_pile_up_end_the_run(make: Make, large: Tool) -> None:
    """The host would hold them all, and what they changed; those that are asked for do not count."""
    runtime = make(tools=[large], settings=RuntimeSettings(uncollected_characters=1000))

    run = await ran(runtime, "for _ in range(9): async_tools.large({})")
    assert run.error is not None
    assert (run.error.type, len(run.calls) < 9) == ("UncollectedAnswersError", True)
    assert "uncollected_characters" in run.error.message
    assert (await ran(runtime, "for _ in range(9): async_tools.large({})()")).ok
