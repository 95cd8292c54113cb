"""In the sandbox, on Firestore: what runs leave is there for the next process, and failures leave nothing."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from gcp_adk_store import FirestoreSessionService, SessionConflictError, SessionService
from gcp_adk_store.ces import MockTool, PythonRuntime, PythonTool, RuntimeSettings
from gcp_adk_store.ces.sandbox import (
    BubblewrapSandbox,
    Limits,
    SandboxCrashError,
    SandboxError,
    SandboxMemoryError,
    SandboxOutputError,
    SandboxTimeoutError,
)
from gcp_adk_store.testing.emulators import Emulator
from tests.ces.host.runs import ran, result_of, stored, tool
from tests.support.clock import PassingTime

LIMITS = Limits(memory_bytes=512 * 1024 * 1024, output_bytes=100_000)


@pytest.fixture(scope="module")
def make_sessions(firestore_emulator: Emulator) -> Callable[..., SessionService]:
    """Make services of one database, as processes would."""
    assert firestore_emulator.address
    project = f"demo-{uuid.uuid4().hex[:20]}"
    return lambda **options: FirestoreSessionService(project=project, **options)


@pytest.fixture
async def key(make_sessions: Callable[..., SessionService]) -> str:
    """A session of a user of the test's own."""
    user = uuid.uuid4().hex
    sessions = make_sessions()
    await sessions.create_session(app_name="shop", user_id=user, session_id="s1", state={"name": "Ada"})
    await sessions.close()
    return f"shop/{user}/s1"


Started = Callable[..., PythonRuntime]


@pytest.fixture
async def start(
    make_sessions: Callable[..., SessionService], bubblewrap: BubblewrapSandbox
) -> AsyncIterator[Started]:
    """Make runtimes, each with a service of its own."""
    services: list[SessionService] = []

    def started(on_conflict: Any = "raise", **options: Any) -> PythonRuntime:
        services.append(make_sessions(on_conflict=on_conflict))
        options.setdefault("settings", RuntimeSettings(limits=LIMITS))
        return PythonRuntime(services[-1], sandbox=bubblewrap, **options)

    yield started
    for service in services:
        await service.close()


async def test_what_a_run_changed_is_there_for_the_next_process(
    key: str, start: Started, make_sessions: Callable[..., SessionService]
) -> None:
    """Removals, None and numbers included; tools that it called changed the same event."""
    count = PythonTool(
        name="count",
        code=tool('set_variable("count", (get_variable("count") or 0) + n)', name="count", parameters="n"),
    )
    first = start(tools=[count])
    body = """
        calls = [async_tools.count({"n": n}) for n in (1, 2)]
        set_variable("ratio", 3.0)
        set_variable("none", None)
        remove_variable("name")
        tools.count({"n": 10})
        return [call().ok for call in calls]
    """
    assert await result_of(first, body, key=key) == [True, True]

    second = start(tools=[count])
    seen = await result_of(second, "return context.state", key=key)
    assert seen == {"ratio": 3.0, "none": None, "count": seen["count"]}
    assert isinstance(seen["ratio"], float)
    sessions = make_sessions()
    assert len((await stored(sessions, key)).events) == 1
    await sessions.close()


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("tools.late({})", SandboxTimeoutError),
        ("import os; os._exit(3)", SandboxCrashError),
        ("return len(bytearray(2 ** 31))", SandboxMemoryError),
        ('import os\nwhile True: os.write(1, b"x" * 1000)', SandboxOutputError),
    ],
)
async def test_how_a_process_ends_changes_nothing_and_the_next_run_works(
    body: str, error: type[SandboxError], key: str, start: Started, passing: PassingTime
) -> None:
    """Each by its type."""

    async def pass_an_hour(_: Any) -> None:
        passing.after(3600)
        await asyncio.Event().wait()

    runtime = start(tools=[MockTool(name="late", response=pass_an_hour)])
    with pytest.raises(error):
        await ran(runtime, f'set_variable("lost", 1)\n{body}', key=key)

    assert await result_of(runtime, "return context.state", key=key) == {"name": "Ada"}


async def test_a_called_tool_whose_process_ends_is_an_error_for_its_caller(key: str, start: Started) -> None:
    """Who may go on."""
    crash = PythonTool(name="crash", code=tool("import os; os._exit(3)", name="crash"))
    body = 'r = tools.crash({}); set_variable("code", r.status_code); return r.reason.split(":")[0]'

    run = await ran(start(tools=[crash]), body, key=key)
    assert (run.result, run.variables["code"]) == ("SandboxCrashError", 500)


async def test_a_writer_between_read_and_append_is_a_conflict(
    key: str, start: Started, make_sessions: Callable[..., SessionService]
) -> None:
    """Which the caller gets as an error, that a setting lets run again, or that a merging service settles."""
    others, once = start(), iter([1])

    async def interfere(_: Any) -> dict[str, Any]:
        await ran(others, 'set_variable("others", (get_variable("others") or 0) + 1)', key=key)
        return {}

    async def interfere_once(args: Any) -> dict[str, Any]:
        return await interfere(args) if next(once, None) else {}

    always, at_first = ([MockTool(name="other", response=each)] for each in (interfere, interfere_once))
    body = 'tools.other({}); set_variable("mine", get_variable("others")); return get_variable("others")'
    with pytest.raises(SessionConflictError):
        await ran(start(tools=always), body, key=key)

    again = start(tools=at_first, settings=RuntimeSettings(limits=LIMITS, reruns_on_conflict=1))
    assert await result_of(again, body, key=key) == 2
    assert await result_of(start("merge", tools=always), body, key=key) == 2
    sessions = make_sessions()
    assert (await stored(sessions, key)).state == {"name": "Ada", "others": 3, "mine": 2}
    await sessions.close()
