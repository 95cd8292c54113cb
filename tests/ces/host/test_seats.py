"""A sandbox of few places serves runs that wait for runs within them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from google.adk.sessions import InMemorySessionService

from gcp_adk_store.ces import PythonRuntime, PythonTool, RuntimeSettings
from gcp_adk_store.ces.host.seats import Seats
from gcp_adk_store.ces.sandbox import BubblewrapSandbox, GvisorSandbox, Limits
from gcp_adk_store.errors import InvalidInputError
from tests.ces.host.runs import result_of, tool

INNER = PythonTool(name="inner", code=tool("return 1", name="inner"))
OUTER = PythonTool(name="outer", code=tool('return tools.inner({}).json()["result"]', name="outer"))


@pytest.fixture
async def small(working_environment: Path) -> AsyncIterator[BubblewrapSandbox]:
    """A sandbox of three places."""
    made = BubblewrapSandbox(environment=working_environment, preload=(), runs_at_once=3)
    yield made
    await made.close()


async def test_runs_on_a_small_sandbox_never_wait_for_each_other_in_a_circle(
    small: BubblewrapSandbox,
) -> None:
    """Nor do those of two runtimes that borrow the same: all levels of calls, from many sessions at once."""
    sessions = InMemorySessionService()
    keys = []
    for number in range(8):
        await sessions.create_session(app_name="shop", user_id="ada", session_id=f"s{number}")
        keys.append(f"shop/ada/s{number}")
    settings = RuntimeSettings(limits=Limits(wall_s=20), max_depth=2)
    runtimes = [
        PythonRuntime(sessions, tools=[INNER, OUTER], sandbox=small, settings=settings) for _ in range(2)
    ]
    body = 'return sum(call().json()["result"] for call in [async_tools.outer({}) for _ in range(2)])'

    found = await asyncio.gather(
        *(result_of(runtimes[number % 2], body, key=key) for number, key in enumerate(keys))
    )
    assert found == [2] * len(keys)


async def test_a_place_is_left_for_each_level_below() -> None:
    """However many wait at the levels above it."""
    seats = Seats(3)
    taken: list[int] = []

    async def hold(below: int, done: asyncio.Event) -> None:
        async with seats.seat(below):
            taken.append(below)
            await done.wait()

    done = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for below in (2, 2, 1, 1, 0, 0):
            group.create_task(hold(below, done))
            for _ in range(5):
                await asyncio.sleep(0)
        assert taken == [2, 1, 0]
        done.set()
    assert sorted(taken) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("sandbox", [BubblewrapSandbox(runs_at_once=5), GvisorSandbox(runs_at_once=4)])
def test_a_sandbox_of_too_few_places_is_refused(sandbox: BubblewrapSandbox | GvisorSandbox) -> None:
    """At once, with both numbers; as many as there are levels are enough."""
    places = sandbox.runs_at_once
    with pytest.raises(InvalidInputError, match=rf"takes {places} runs .*at least 6"):
        PythonRuntime(InMemorySessionService(), sandbox=sandbox)

    settings = RuntimeSettings(max_depth=places - 1)
    PythonRuntime(InMemorySessionService(), sandbox=sandbox, settings=settings)


@pytest.mark.parametrize("kind", [BubblewrapSandbox, GvisorSandbox])
def test_a_sandbox_can_be_borrowed_as_it_is_made(kind: type[BubblewrapSandbox | GvisorSandbox]) -> None:
    """It has places enough for the calls that a runtime allows by default."""
    assert PythonRuntime(InMemorySessionService(), sandbox=kind()).tool_names == ()
