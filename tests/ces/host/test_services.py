"""Runs leave the same on every session service: this library's, and those of ADK."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import BaseAgent, InvocationContext
from google.adk.errors import StaleSessionError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event, EventActions
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, DatabaseSessionService, InMemorySessionService
from google.genai import types

from gcp_adk_store import FirestoreSessionService
from gcp_adk_store.ces import MockTool, PythonRuntime, PythonTool, RuntimeSettings, SessionKey
from gcp_adk_store.ces.sandbox import BubblewrapSandbox, SandboxCrashError
from gcp_adk_store.errors import (
    InvalidInputError,
    OutcomeUnknownError,
    SessionConflictError,
    UnavailableError,
)
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, Emulator
from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy
from gcp_adk_store.testing.faults.plans import Fault, Lose, Refuse, no_faults, only
from tests.ces.host.runs import KEY, Acted, Gate, Make, error_of, ran, result_of, stored, tool
from tests.ces.host.test_untrusted import HONEST

NAMES = [
    *("", " ", ".", "..", "a.b", "a/b", "`a`", "__proto__", "__x__", "é", "\0", "\ud7ff", "a" * 1000, "x\ny"),
    *("user:", "app:", "user:a.b", "temp", ":", "ces_removed", "user:ces_removed", "app:user:x"),
    *("user:temp:x", "1", "*", "~", "[0]", "user:None"),
]


@pytest.fixture(params=["Firestore", "a database", "memory"])
async def service(
    request: pytest.FixtureRequest, project: str, tmp_path: Path
) -> AsyncIterator[BaseSessionService]:
    """Sessions of each kind, of which there is one."""
    made: Any
    match request.param:
        case "Firestore":
            made = FirestoreSessionService(project=project)
        case "a database":
            made = DatabaseSessionService(f"sqlite+aiosqlite:///{tmp_path}/sessions.db")
        case _:
            made = InMemorySessionService()
    await made.create_session(app_name="shop", user_id="ada", session_id="s1", state={"name": "Ada"})
    yield made
    if not isinstance(made, InMemorySessionService):
        await made.close()


async def test_variables_of_any_name_are_set_and_removed(service: BaseSessionService, make: Make) -> None:
    """Also those that are a path, a scope or a reserved word to somebody; each under its own name."""
    shared = tuple(name for name in NAMES if name.startswith(("user:", "app:")))
    runtime = make(sessions=service, settings=RuntimeSettings(shared_variables=shared))

    await ran(runtime, f"context.state.update({{name: number for number, name in enumerate({NAMES!r})}})")
    found = await result_of(runtime, "return context.state")
    assert found == {"name": "Ada", **{name: number for number, name in enumerate(NAMES)}}

    await ran(runtime, f"for name in {NAMES!r}: remove_variable(name)")
    assert await result_of(runtime, "return context.state") == {"name": "Ada"}
    assert len((await stored(service)).events) == 2


@pytest.mark.parametrize("service", ["Firestore"], indirect=True)
@pytest.mark.parametrize("name", ["x" * 1501, "\x00" * 600, "\u00e9" * 800])
async def test_a_name_that_the_store_refuses_fails_the_run_and_not_its_caller(
    name: str, service: BaseSessionService, make: Make
) -> None:
    """Code chose it; nothing is stored, and a background tool's run ends in the same way."""
    body = f'print("here"); set_variable({name!r}, 1); set_variable("b", 1); return 1'

    run = await ran(make(sessions=service), body)
    assert (error_of(run).type, run.stdout, run.event_id) == ("InvalidInputError", "here\n", None)
    assert (run.result, run.variables) == ({"error": str(run.error)}, {"name": "Ada"})
    assert (await stored(service)).state == {"name": "Ada"}


TOOLS = [
    PythonTool(
        name="count",
        code=tool('set_variable("count", (get_variable("count") or 0) + n)', name="count", parameters="n"),
    ),
    PythonTool(name="crash", code=tool("import os; os._exit(3)", name="crash")),
]


@pytest.mark.parametrize("service", ["Firestore"], indirect=True)
async def test_what_a_run_changed_is_there_for_the_next_process(
    service: BaseSessionService, project: str, bubblewrap: BubblewrapSandbox
) -> None:
    """Removals, None and numbers included, as tools that it called changed them. What fails changes nothing.

    A called tool whose process ends is an error for its caller, who may go on.
    """
    body = """
        calls = [async_tools.count({"n": n}) for n in (1, 2)]
        set_variable("ratio", 3.0)
        set_variable("none", None)
        remove_variable("name")
        tools.count({"n": 10})
        crashed = tools.crash({})
        return [*(call().ok for call in calls), crashed.status_code, crashed.reason.split(":")[0]]
    """
    first = PythonRuntime(service, tools=TOOLS, sandbox=bubblewrap)
    assert await result_of(first, body) == [True, True, 500, "SandboxCrashError"]
    with pytest.raises(SandboxCrashError):
        await ran(first, 'set_variable("lost", 1); import os; os._exit(3)')

    others = FirestoreSessionService(project=project)
    seen = await result_of(PythonRuntime(others, tools=TOOLS, sandbox=bubblewrap), "return context.state")
    assert seen == {"ratio": 3.0, "none": None, "count": seen["count"]}
    assert isinstance(seen["ratio"], float)
    assert len((await stored(others)).events) == 1
    await others.close()


async def test_code_sees_as_many_events_as_it_is_to(service: BaseSessionService, make: Make) -> None:
    """Of the latest ones; what it changes is stored though it saw none."""
    for number in range(2):
        event = Event(author="other", actions=EventActions(state_delta={"n": number}))
        await service.append_event(await stored(service), event)

    for recent, seen in ((0, []), (1, [{"a": 0}]), (2, [{"a": 0}, {"a": 1}])):
        runtime = make(sessions=service, settings=RuntimeSettings(recent_events=recent))
        body = f'set_variable("a", {recent}); return [event.actions.state_delta for event in context.events]'
        assert await result_of(runtime, body) == seen
    assert await result_of(make(sessions=service), "return len(context.events)") == 5
    assert (await stored(service)).state == {"name": "Ada", "n": 1, "a": 2}


async def test_a_session_that_is_deleted_under_a_run_stays_deleted(
    service: BaseSessionService, make: Make
) -> None:
    """The caller gets an error; in memory, older releases of ADK drop the event and only log that."""

    async def delete(args: Any) -> dict[str, Any]:
        await service.delete_session(app_name="shop", user_id="ada", session_id="s1")
        return dict(args)

    runtime = make(sessions=service, tools=[MockTool(name="delete", response=delete)])
    in_memory = isinstance(service, InMemorySessionService)
    with suppress(SessionNotFoundError) if in_memory else pytest.raises(SessionNotFoundError):
        await ran(runtime, 'tools.delete({}); set_variable("a", 1)')
    assert await service.get_session(app_name="shop", user_id="ada", session_id="s1") is None


async def test_a_run_that_is_cancelled_changes_nothing(service: BaseSessionService, make: Make) -> None:
    """Nor does one whose caller has no more time; the next run has its turn."""
    gate = Gate()
    runtime = make(sessions=service, tools=[MockTool(name="wait", response=gate)], sandbox=Acted(waits))
    task = asyncio.create_task(ran(runtime, "pass"))
    await gate.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.begun.clear()
    with pytest.raises(TimeoutError):
        await ran_until_it_waits(runtime, gate)

    assert (await stored(service)).events == []
    assert await result_of(make(sessions=service), "return context.state") == {"name": "Ada"}


async def ran_until_it_waits(runtime: PythonRuntime, gate: Gate) -> None:
    """Run a tool for a caller whose time ends once the run waits at *gate*."""
    async with asyncio.timeout(None) as limit:

        async def expire() -> None:
            await gate.begun.wait()
            limit.reschedule(0)

        expiring = asyncio.create_task(expire())
        try:
            await ran(runtime, "pass")
        finally:
            await expiring


async def waits(_: Any, answer: Any, **__: Any) -> dict[str, Any]:
    """Wait for a tool, and then have set a variable."""
    await answer({"call": "tool", "id": 1, "tool": "wait", "args": {}, "state": {}})
    return {**HONEST, "state_delta": {"changed": {"a": 1}, "removed": []}}


async def test_a_run_is_stored_once_however_often_it_is_tried(
    service: BaseSessionService, make: Make
) -> None:
    """Under the id that its caller gave it: the code does not even run again."""
    runtime = make(sessions=service)
    body = 'print("run"); set_variable("count", (get_variable("count") or 0) + 1)'

    run = await ran(runtime, body, event_id="try-1")
    assert run.event_id == "try-1"
    for execution in ("SYNCHRONOUS", "ASYNCHRONOUS"):
        with pytest.raises(StaleSessionError, match="try-1"):
            await runtime.run_tool(tool(body), "tool", {}, KEY, event_id="try-1", execution=execution)
    assert [event.id for event in (await stored(service)).events] == ["try-1"]
    assert (await stored(service)).state["count"] == 1


@pytest.mark.parametrize("service", ["Firestore", "a database"], indirect=True)
async def test_runtimes_that_count_at_once_lose_no_count(service: BaseSessionService, make: Make) -> None:
    """As processes do, which take no turns: where another was first the code runs again, on what is there."""
    settings = RuntimeSettings(reruns_on_conflict=50)
    runtimes = [make(sessions=service, settings=settings) for _ in range(3)]
    body = 'set_variable("count", (get_variable("count") or 0) + 1); return get_variable("count")'

    found = await asyncio.gather(*(result_of(runtime, body) for runtime in runtimes for _ in range(3)))

    session = await stored(service)
    assert (sorted(found), session.state["count"], len(session.events)) == (list(range(1, 10)), 9, 9)


@pytest.mark.usefixtures("passing")  # what fails is tried again until its deadline, which passes at once
@pytest.mark.parametrize("arrives", [True, False])
async def test_a_run_whose_outcome_is_unknown_is_tried_again_and_stored_once(
    firestore_emulator: Emulator,
    project: str,
    monkeypatch: pytest.MonkeyPatch,
    make: Make,
    *,
    arrives: bool,
) -> None:
    """Whether the first try had arrived or not."""
    first: Fault = Lose() if arrives else Refuse("UNAVAILABLE")
    body = 'set_variable("count", (get_variable("count") or 0) + 1)'
    with FirestoreProxy(firestore_emulator.address) as proxy:
        monkeypatch.setenv(FIRESTORE_VARIABLE, proxy.address)
        sessions = FirestoreSessionService(project=project)
        await sessions.create_session(app_name="shop", user_id="ada", session_id="s1")
        failing = FirestoreSessionService(project=project)
        await stored(failing)  # its connection is there
        runtime = make(sessions=failing)
        proxy.plan = only("Commit", lambda call: Refuse("UNAVAILABLE") if call.number else first)
        with pytest.raises((OutcomeUnknownError, UnavailableError)) as failed:
            await ran(runtime, body, event_id="try-1")
        proxy.plan = no_faults
        await failing.close()
        runtime = make(sessions=sessions)
        if arrives:
            assert isinstance(failed.value, OutcomeUnknownError)
            with pytest.raises(SessionConflictError, match="try-1"):
                await ran(runtime, body, event_id="try-1")
        else:
            await ran(runtime, body, event_id="try-1")

        session = await stored(sessions)
        await sessions.close()
    assert (session.state, [event.id for event in session.events]) == ({"count": 1}, ["try-1"])


async def test_a_run_within_a_run_of_the_same_session_is_refused(
    sessions: BaseSessionService, bubblewrap: BubblewrapSandbox
) -> None:
    """It would wait for the outer one, which waits for it; what was begun there may run once that is over."""
    over = asyncio.Event()
    begun: list[asyncio.Task[Any]] = []

    async def after() -> Any:
        await over.wait()
        return await result_of(runtime, 'return get_variable("name")')

    async def within(args: Any) -> dict[str, Any]:
        begun.append(asyncio.create_task(after()))
        await ran(runtime, "return 1")
        return dict(args)

    runtime = PythonRuntime(sessions, tools=[MockTool(name="within", response=within)], sandbox=bubblewrap)
    with pytest.raises(InvalidInputError, match="within a run on shop/ada/s1"):
        await ran(runtime, 'set_variable("a", 1); tools.within({})')
    assert (await stored(sessions)).events == []
    over.set()
    assert await begun[0] == "Ada"


def test_event_loops_of_several_threads_share_a_runtime(bubblewrap: BubblewrapSandbox) -> None:
    """As ADK's synchronous runner makes one for every turn; those on one session take turns."""
    sessions = InMemorySessionService()
    asyncio.run(sessions.create_session(app_name="shop", user_id="ada", session_id="s1"))
    runtime = PythonRuntime(sessions, sandbox=bubblewrap)
    body = 'set_variable("count", (get_variable("count") or 0) + 1)'

    with ThreadPoolExecutor(3) as threads:
        runs = list(threads.map(lambda _: asyncio.run(ran(runtime, body)), range(6)))

    assert sorted(run.variables["count"] for run in runs) == [1, 2, 3, 4, 5, 6]


class Asking(BaseAgent):
    """An agent that runs a callback on the session of its turn, and then says something."""

    runtime: Any

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        key = SessionKey(ctx.app_name, ctx.user_id, ctx.session.id)
        code = 'def before_agent_callback(callback_context):\n    set_variable("greeted", True)\n'
        await self.runtime.run_callback("before_agent", code, key, invocation_id=ctx.invocation_id)
        yield Event(
            author=self.name,
            invocation_id=ctx.invocation_id,
            content=types.Content(role="model", parts=[types.Part(text="Hello")]),
            actions=EventActions(state_delta={"said": 1}),
        )


async def test_code_runs_in_a_turn_of_adks_runner(project: str, make: Make) -> None:
    """On a service that merges: the runner appends to the session as it had it before."""
    said = types.Content(role="user", parts=[types.Part(text="Hi")])
    sessions = FirestoreSessionService(project=project, on_conflict="merge")
    await sessions.create_session(app_name="shop", user_id="ada", session_id="s1")
    agent = Asking(name="greeter", runtime=make(sessions=sessions))
    runner = Runner(app_name="shop", agent=agent, session_service=sessions)
    for _ in range(2):
        async for _event in runner.run_async(user_id="ada", session_id="s1", new_message=said):
            pass

    session = await stored(sessions)
    await sessions.close()
    assert session.state == {"greeted": True, "said": 1}
    assert [event.author for event in session.events] == ["user", "agent", "greeter", "user", "greeter"]
