"""In the sandbox, on Firestore: what runs leave is there for the next process, and failures leave nothing."""

import uuid
from collections.abc import AsyncIterator, Callable

import pytest

from gcp_adk_store import FirestoreSessionService, SessionService
from gcp_adk_store.ces import PythonRuntime, PythonTool
from gcp_adk_store.ces.sandbox import BubblewrapSandbox, SandboxCrashError
from gcp_adk_store.testing.emulators import Emulator
from tests.ces.host.runs import ran, result_of, stored, tool

Started = Callable[..., tuple[PythonRuntime, SessionService]]

COUNT = tool('set_variable("count", (get_variable("count") or 0) + n)', name="count", parameters="n")
TOOLS = [
    PythonTool(name="count", code=COUNT),
    PythonTool(name="crash", code=tool("import os; os._exit(3)", name="crash")),
]


@pytest.fixture
async def start(firestore_emulator: Emulator, bubblewrap: BubblewrapSandbox) -> AsyncIterator[Started]:
    """Make runtimes on one database, each with a service of its own, as processes would."""
    assert firestore_emulator.address
    project = f"demo-{uuid.uuid4().hex[:20]}"
    services: list[SessionService] = []

    def started() -> tuple[PythonRuntime, SessionService]:
        services.append(FirestoreSessionService(project=project))
        return PythonRuntime(services[-1], tools=TOOLS, sandbox=bubblewrap), services[-1]

    yield started
    for service in services:
        await service.close()


async def test_what_a_run_changed_is_there_for_the_next_process(start: Started) -> None:
    """Removals, None and numbers included, as tools that it called changed them. What fails changes nothing.

    A called tool whose process ends is an error for its caller, who may go on.
    """
    first, sessions = start()
    await sessions.create_session(app_name="shop", user_id="ada", session_id="s1", state={"name": "Ada"})
    body = """
        calls = [async_tools.count({"n": n}) for n in (1, 2)]
        set_variable("ratio", 3.0)
        set_variable("none", None)
        remove_variable("name")
        tools.count({"n": 10})
        crashed = tools.crash({})
        return [*(call().ok for call in calls), crashed.status_code, crashed.reason.split(":")[0]]
    """
    assert await result_of(first, body) == [True, True, 500, "SandboxCrashError"]
    with pytest.raises(SandboxCrashError):
        await ran(first, 'set_variable("lost", 1); import os; os._exit(3)')

    second, others = start()
    seen = await result_of(second, "return context.state")
    assert seen == {"ratio": 3.0, "none": None, "count": seen["count"]}
    assert isinstance(seen["ratio"], float)
    assert len((await stored(others)).events) == 1
