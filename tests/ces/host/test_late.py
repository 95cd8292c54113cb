"""An asynchronous tool answers with a placeholder, and with its response once it is done."""

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from google.adk.errors import StaleSessionError
from google.adk.events import Event, EventActions
from google.adk.sessions import InMemorySessionService

from gcp_adk_store.ces import MockTool, PythonRuntime, PythonTool, RuntimeSettings
from gcp_adk_store.ces.sandbox import Limits, SandboxTimeoutError
from gcp_adk_store.errors import OverloadedError
from tests.ces.host.runs import KEY, Acted, Gate, MakeRuntime, error_of, stored, tool
from tests.ces.host.test_running import contested

LATE = tool(
    'tools.gate({})\nset_variable("quote", 7)\nremove_variable("name")\nreturn {"quote": 7}', name="late"
)


async def test_the_response_comes_as_the_users_once_it_is_there(make: MakeRuntime) -> None:
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


async def test_a_tool_can_be_run_asynchronously_without_being_registered(make: MakeRuntime) -> None:
    """And an error is its response; it changes nothing."""
    code = tool('set_variable("a", 1)\nraise ValueError("no")')

    run = await make().run_tool(code, "tool", {}, KEY, execution="ASYNCHRONOUS")
    done = await run.finished()

    assert (done.ok, done.response) == (False, {"result": {"error": "ValueError: no"}})
    session = await stored(make.sessions)
    assert session.state == {"name": "Ada"}
    assert session.events[-1].get_function_responses()[0].response == done.response


async def test_a_called_asynchronous_tool_is_awaited(make: MakeRuntime) -> None:
    """There is no model that could get its response later."""
    late = PythonTool(name="late", code=tool("return 1", name="late"), execution="ASYNCHRONOUS")

    run = await make(tools=[late]).run_tool(tool("return tools.late({}).json()"), "tool", {}, KEY)
    assert run.result == {"result": 1}


async def test_a_late_response_is_stored_after_others(
    make: MakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
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


async def test_a_session_has_a_bounded_number_of_asynchronous_tools(make: MakeRuntime) -> None:
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


async def test_closing_waits_for_what_other_event_loops_have(make: MakeRuntime) -> None:
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
    args: dict[str, Any], settings: RuntimeSettings, make: MakeRuntime
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


async def test_a_tool_that_is_tried_again_while_it_runs_is_stored_once(make: MakeRuntime) -> None:
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


async def test_how_the_process_ended_is_a_late_response_too(make: MakeRuntime) -> None:
    """The model waits for one; a synchronous tool raises it."""
    runtime = make(sandbox=Acted(slow))

    run = await runtime.run_tool(tool("return 1"), "tool", {}, KEY, execution="ASYNCHRONOUS")
    done = await run.finished()
    assert (error_of(done).type, done.stdout) == ("SandboxTimeoutError", "so far")
    assert len((await stored(make.sessions)).events) == 1
    with pytest.raises(SandboxTimeoutError):
        await runtime.run_tool(tool("return 1"), "tool", {}, KEY)
    assert len((await stored(make.sessions)).events) == 1
