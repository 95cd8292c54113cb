"""Runs wait for sandboxes in turns of their users and sessions, outside of their time, never in a circle."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from google.adk.sessions import InMemorySessionService

from gcp_adk_store.ces import MockTool, PythonRuntime, PythonTool, RuntimeSettings, Tool, ToolRun
from gcp_adk_store.ces.host.admission import Machine, Places, Room
from gcp_adk_store.ces.sandbox import BubblewrapSandbox, Clock, Limits
from gcp_adk_store.errors import OverloadedError
from tests.ces.host.runs import Acted, Gate, error_of, ran, result_of, tool
from tests.support.lengths import at_length
from tests.support.quick_time import QuickTime

GIB = 1024**3
INNER = PythonTool(name="inner", code=tool("return 1", name="inner"))
HOLD = PythonTool(name="hold", code=tool("return tools.gate({}).json()", name="hold"))
OUTER = PythonTool(name="outer", code=tool('return tools.inner({}).json()["result"]', name="outer"))
ROOM = Room(places=6, per_session=4, levels=2, memory_bytes=GIB)


@pytest.mark.parametrize(
    ("cpus", "memory", "settings", "room"),
    [
        (64, 64, {}, (48, 27, 6, 1024)),
        (2, 64, {}, (16, 11, 6, 1024)),
        (2, 16, {}, (12, 9, 6, 1024)),
        (2, 8, {}, (6, 6, 6, 1024)),
        (2, 4, {}, (6, 6, 6, 512)),
        (2, 1, {}, (3, 3, 3, 256)),
        (1, 0, {}, (1, 1, 1, 256)),
        (1, 64, {"max_depth": 9}, (8, 8, 8, 1024)),
        (2, 64, {"limits": Limits(memory_bytes=8 * GIB)}, (6, 6, 6, 8192)),
        (2, 1, {"sandboxes_at_once": 40}, (40, 23, 6, 1024)),
        (2, 64, {"sandboxes_per_session": 8}, (16, 8, 6, 1024)),
        (2, 64, {"sandboxes_per_session": 2}, (16, 2, 2, 1024)),
    ],
)
def test_there_are_as_many_sandboxes_as_the_machine_bears(
    cpus: int, memory: int, settings: dict[str, Any], room: tuple[int, ...]
) -> None:
    """Eight for a processor, in three quarters of the memory; where that is little, runs are smaller."""
    found = Room.of(RuntimeSettings(**settings), None, Machine(cpus=cpus, memory_bytes=memory * GIB))

    assert room == (found.places, found.per_session, found.levels, found.memory_bytes // 1024**2)


def test_a_borrowed_sandbox_bounds_them_too() -> None:
    """Calls are not deeper than it has places. A process counts the processors that it may use."""
    machine = Machine(cpus=8, memory_bytes=64 * GIB)
    room = Room.of(RuntimeSettings(), BubblewrapSandbox(runs_at_once=3), machine)
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        here = Machine.here()
    finally:
        os.sched_setaffinity(0, allowed)

    assert (3, 3, 3) == (room.places, room.per_session, room.levels)
    assert 1 == here.cpus
    assert 0 < here.memory_bytes <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_a_runtime_without_a_sandbox_asks_nothing_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does one with a number of sandboxes: a system without ``/proc`` has no answer."""

    def missing() -> Machine:
        raise FileNotFoundError("/proc/meminfo")

    monkeypatch.setattr(Machine, "here", missing)
    settings = RuntimeSettings(sandboxes_at_once=4)

    PythonRuntime(InMemorySessionService(), sandbox="inprocess")
    PythonRuntime(InMemorySessionService(), settings=settings)


class Line:
    """Runs that hold their places until a test lets them go."""

    def __init__(self) -> None:
        self.places = Places()
        self.begun: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, name: str, *, longest_wait_s: float = 60.0) -> asyncio.Task[None]:
        """Begin a run of the user and the session that its name begins with: ``a1``, or ``u.a1``."""
        self._ends[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._hold(name, longest_wait_s))
        await settled()
        return self._tasks[name]

    async def end(self, name: str) -> None:
        """Let a run go."""
        self._ends[name].set()
        await settled()

    async def _hold(self, name: str, longest_wait_s: float) -> None:
        *user, run = name.split(".")
        async with self.places.place(user[0] if user else "user", run[0], ROOM, (), longest_wait_s):
            self.begun.append(name)
            await self._ends[name].wait()


async def settled() -> None:
    """Let tasks go on until each of them waits."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_users_that_wait_take_turns_and_then_their_sessions() -> None:
    """One user with many sessions, or a session with many runs, has one turn for each turn of another."""
    line = Line()
    held = ("x.x1", "x.x2", "x.x3", "y.y1", "y.y2")
    many = [f"many.{session}1" for session in "abcdefgh"]
    for name in (*held, *many, "many.a2", "one.s1", "one.s2"):
        await line.come(name)
    for name in (*held, "many.a1", "one.s1", *many[1:]):
        await line.end(name)

    assert line.begun[5:] == ["many.a1", "one.s1", "many.b1", "one.s2", *many[2:], "many.a2"]


async def test_who_waits_too_long_has_no_place_and_takes_none_away() -> None:
    """Nor does one that is cancelled, while it waits or in the moment that it gets its place."""
    line = Line()
    for name in ("a1", "a2", "a3"):
        await line.come(name)
    late = await line.come("a4", longest_wait_s=0)
    with pytest.raises(OverloadedError, match="longest_wait_s"):
        await late
    cancelled = [await line.come("a5"), await line.come("a6")]
    cancelled[0].cancel()
    await settled()
    line._ends["a1"].set()
    await asyncio.sleep(0)  # a1 ends and gives its place to a6, which did not go on yet
    assert "a6" not in line.begun
    cancelled[1].cancel()
    await settled()
    await line.come("a7")
    assert line.begun[-1] == "a7"


def test_places_of_a_closed_event_loop_are_free_while_something_refers_to_their_runs() -> None:
    """The garbage collector ends no such run: whoever comes next, or waits already, gets the place."""
    places = Places()
    room = Room(places=1, per_session=1, levels=1, memory_bytes=GIB)

    async def hold() -> None:
        async with places.place("a", "a", room, (), 60):
            await asyncio.Event().wait()

    async def begin() -> asyncio.Task[None]:
        task = asyncio.create_task(hold())
        await settled()
        return task

    async def take(longest_wait_s: float) -> None:
        async with places.place("b", "b", room, (), longest_wait_s):
            pass

    async def wait_while_it_closes(loop: asyncio.AbstractEventLoop) -> None:
        taking = asyncio.create_task(take(60))
        await settled()
        assert not taking.done()
        loop.close()
        await taking

    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
    held = [first.run_until_complete(begin())]
    first.close()
    asyncio.run(take(0))
    held.append(second.run_until_complete(begin()))
    asyncio.run(wait_while_it_closes(second))
    assert not any(task.done() for task in held)
    for task in held:
        task.get_coro().close()
    asyncio.run(take(0))


FORKING: Final = """
import asyncio, os
from gcp_adk_store import ForkedProcessError
from gcp_adk_store.ces.host.admission import Places, Room

places = Places()
room = Room(places=1, per_session=1, levels=1, memory_bytes=1)

def place():
    return places.place("a", "a", room, (), 0)

async def take():
    async with place():
        pass

holding = place()
loop = asyncio.new_event_loop()
loop.run_until_complete(holding.__aenter__())
child = os.fork()
if child == 0:
    try:
        asyncio.run(take())
    except ForkedProcessError:
        os._exit(0)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_forked_process_cannot_use_the_sandbox_of_its_parent() -> None:
    """Its processes answer the parent."""
    ended = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")


class Counting(Acted):
    """A sandbox that counts how many runs it makes at a time; the one below is all tests'."""

    def __init__(self, sandbox: BubblewrapSandbox) -> None:
        super().__init__(self._count)
        self._sandbox = sandbox
        self._running = 0
        self.most = 0
        self.limits: set[int] = set()

    async def _count(self, *given: Any, **options: Any) -> dict[str, Any]:
        self._running += 1
        self.most = max(self.most, self._running)
        self.limits.add(options["limits"].memory_bytes)
        try:
            return await self._sandbox.run(*given, **options)
        finally:
            self._running -= 1


async def two_sessions() -> InMemorySessionService:
    """Return sessions in memory, of which there are s0 and s1."""
    sessions = InMemorySessionService()
    for number in range(2):
        await sessions.create_session(app_name="shop", user_id="ada", session_id=f"s{number}")
    return sessions


async def test_a_call_that_starts_many_of_itself_has_no_more_sandboxes_than_its_session(
    bubblewrap: BubblewrapSandbox,
) -> None:
    """They come one after the other, all of them, and their memory in sum is bounded."""
    count = at_length(8, 16)
    many = PythonTool(
        name="many",
        code=tool(
            """
            calls = [async_tools.many({"n": n - 1}) for _ in range(COUNT)] if n else []
            return 1 + sum(call().json()["result"] for call in calls)
            """.replace("COUNT", str(count)),
            name="many",
            parameters="n",
        ),
    )
    settings = RuntimeSettings(sandboxes_at_once=6, max_depth=2, sandboxes_per_session=5)
    sandbox = Counting(bubblewrap)
    runtime = PythonRuntime(await two_sessions(), tools=[many], sandbox=sandbox, settings=settings)

    runs = await asyncio.gather(*(runtime.call_tool("many", {"n": 1}, f"shop/ada/s{n}") for n in range(2)))
    assert [run.result for run in runs] == [count + 1] * 2
    assert 2 <= sandbox.most <= 6
    assert sandbox.limits == {GIB}
    sandbox.most = 0
    assert (await runtime.call_tool("many", {"n": 1}, "shop/ada/s0")).result == count + 1
    assert 2 <= sandbox.most <= 5


async def test_waiting_for_a_called_tools_sandbox_takes_none_of_a_runs_time(
    bubblewrap: BubblewrapSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clock is stopped while another session has all of them, in the foreground or the background."""
    waits = asyncio.Event()
    stopped = Clock.stopped

    @contextmanager
    def notified(clock: Clock) -> Iterator[None]:
        with stopped(clock):
            waits.set()
            yield
            waits.clear()

    monkeypatch.setattr(Clock, "stopped", notified)
    sessions, sandbox = await two_sessions(), Counting(bubblewrap)
    few: dict[str, Any] = {"sandboxes_at_once": 3, "max_depth": 1, "sandboxes_per_session": 3}
    gate = Gate()
    tools: list[Tool] = [HOLD, MockTool(name="gate", response=gate), INNER]
    greedy, victim = (
        PythonRuntime(sessions, tools=tools, sandbox=sandbox, settings=RuntimeSettings(**few))
        for _ in range(2)
    )
    for body in (
        'return tools.inner({}).json()["result"]',
        'return async_tools.inner({})().json()["result"]',
        "async_tools.inner({}); return 1",
    ):
        gate.begun.clear()
        gate.opened.clear()
        holding = asyncio.create_task(ran(greedy, "return tools.hold({}).text", key="shop/ada/s0"))
        await gate.begun.wait()
        waiting = asyncio.create_task(result_of(victim, body, key="shop/ada/s1"))
        await waits.wait()
        assert not waiting.done()
        gate.opened.set()
        assert await waiting == 1
        assert (await holding).ok


async def test_a_run_that_no_sandbox_is_free_for_is_refused(bubblewrap: BubblewrapSandbox) -> None:
    """Its caller, or the code that calls it, which may go on; no code of it is run."""
    gate = Gate()

    async def holding(body: str, **few: int) -> tuple[PythonRuntime, asyncio.Task[ToolRun]]:
        runtime = PythonRuntime(
            await two_sessions(),
            tools=[HOLD, MockTool(name="gate", response=gate), INNER],
            sandbox=Counting(bubblewrap),
            settings=RuntimeSettings(**few, longest_wait_s=0.1),  # type: ignore[arg-type]
        )
        gate.begun.clear()
        gate.opened.clear()
        task = asyncio.create_task(ran(runtime, body, key="shop/ada/s0"))
        await gate.begun.wait()
        return runtime, task

    few = {"sandboxes_at_once": 3, "max_depth": 1, "sandboxes_per_session": 3}
    runtime, held = await holding("return tools.hold({}).text", **few)
    run = await ran(runtime, "return tools.inner({}).reason", key="shop/ada/s1")
    assert "OverloadedError" in run.result
    gate.opened.set()
    assert (await held).ok

    alone, held = await holding("return tools.gate({}).text", sandboxes_at_once=1)
    with pytest.raises(OverloadedError, match="sandboxes_at_once is 1"):
        await ran(alone, "return 1", key="shop/ada/s1")
    late = await alone.run_tool(tool("return 1"), "tool", {}, "shop/ada/s1", execution="ASYNCHRONOUS")
    assert error_of(await late.finished()).type == "OverloadedError"
    gate.opened.set()
    assert (await held).ok


async def test_runs_on_a_small_sandbox_never_wait_for_each_other_in_a_circle(
    working_environment: Path,
) -> None:
    """Nor do those of two runtimes that borrow the same: all levels of calls, from many sessions at once."""
    small = BubblewrapSandbox(environment=working_environment, preload=(), runs_at_once=3)
    sessions = InMemorySessionService()
    keys = []
    for number in range(at_length(4, 8)):
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
    await small.close()


def test_a_clock_counts_its_stops_up_to_their_bound_not() -> None:
    """Beyond that bound time goes on. Stops may overlap, and begin before what is limited."""

    async def stop() -> None:
        clock = Clock(longest_stop_s=100)
        async with clock.limit(50, "") as timeout:
            end = timeout.when() or 0.0
            with clock.stopped():
                assert timeout.when() == pytest.approx(end + 100)
                await asyncio.sleep(5)
            assert timeout.when() == pytest.approx(end + 5)
            with clock.stopped(), clock.stopped():
                assert timeout.when() == pytest.approx(end + 100)
        with clock.stopped():
            await asyncio.sleep(5)
            async with clock.limit(50, "") as timeout:  # 10 s after the first; 10 s of the stops are used
                assert timeout.when() == pytest.approx(end + 10 + 90)

    QuickTime().run(stop())
