"""A seed gives the same schedule each time, and a schedule that fails is shown as short as it can be."""

import asyncio
import itertools
import os
import shlex
import subprocess
import sys
from typing import Any, Final

import pytest
from google.adk.events import Event
from google.genai import types

from gcp_adk_store import InvalidInputError
from gcp_adk_store.testing.simulation import (
    EndlessError,
    Faults,
    KilledError,
    Scenario,
    ScheduleError,
    Service,
    World,
    simulate,
)
from gcp_adk_store.testing.simulation.network import Network

KEY: Final[dict[str, Any]] = {"app_name": "app", "user_id": "user", "session_id": "session"}


async def two_writers(world: World) -> None:
    """Two processes append to one session, with a watcher beside them."""
    service = Service(world)
    await service.beside().sessions.create_session(**KEY)

    async def write(name: str) -> None:
        store = service.store_of(world.process(name), on_conflict="merge")
        session = await store.sessions.get_session(**KEY)
        assert session is not None
        for number in range(3):
            content = types.Content(role="user", parts=[types.Part(text=f"{name} {number}")])
            await store.sessions.append_event(session, Event(author="user", content=content))

    first, second = world.process("a"), world.process("b")
    await asyncio.wait([first.start(write, "first"), second.start(write, "second")])


def digests(seeds: range) -> list[str]:
    """Return the digest of the trace of each seed."""
    return [simulate(two_writers, seeds=[seed], faults=Faults.all(0.05)).digest for seed in seeds]


def test_a_seed_gives_the_same_run_each_time() -> None:
    """Two runs of a process, and one of another that hashes in another order, have equal traces."""
    here = digests(range(3))

    assert digests(range(3)) == here
    assert len({*here}) == len(here)
    program = "from tests.simulation.test_reproducing import digests; print(digests(range(3)))"
    there = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert there.stdout.strip() == str(here)


async def a_failure_in_step_seven(world: World) -> None:
    """Fail in the seventh of many steps."""
    for step in world.steps(40):
        world.note(f"step {step}")
        await asyncio.sleep(1)
        assert step != 7


def test_a_schedule_that_fails_is_shown_as_short_as_it_can_be() -> None:
    """The error names the seed and how to repeat it, and keeps only the steps that matter."""
    with pytest.raises(ScheduleError) as raised:
        simulate(a_failure_in_step_seven, seeds=[3], repeat="again {seed}")

    assert raised.value.steps == (7,)
    assert raised.value.seed == 3
    assert "seed 3: AssertionError" in str(raised.value)
    assert "again: again 3" in str(raised.value)
    assert [line.split(maxsplit=1)[1] for line in raised.value.trace] == ["step 7"]


def test_a_schedule_that_fails_shows_what_became_of_its_processes() -> None:
    """When each stopped, went on, was killed, or was cut off."""

    async def fails(world: World) -> None:
        one, other = world.process("one"), world.process("other")
        network = Network(world, world.process("server"))
        one.stop()
        network.cut_off(other)
        await asyncio.sleep(1)
        one.go_on()
        network.connect(other)
        other.kill()
        raise AssertionError

    with pytest.raises(ScheduleError) as raised:
        simulate(fails, seeds=[3])

    assert [
        *("0.0000 one: stopped", "0.0000 other: cut off"),
        *("1.0000 one: goes on", "1.0000 other: connected", "1.0000 other: killed"),
    ] == [line.strip() for line in raised.value.trace]


async def a_test_that_fails(world: World) -> None:
    """Fail as a test does that expects an error."""
    await asyncio.sleep(1)
    with pytest.raises(KilledError):
        await world.process("a").start(asyncio.sleep, 1)


async def a_call_that_is_cancelled(world: World) -> None:
    """Await what was cancelled."""
    call = world.process("a").start(asyncio.sleep, 10)
    call.cancel()
    await call


@pytest.mark.parametrize("scenario", [a_test_that_fails, a_call_that_is_cancelled])
def test_a_failure_that_is_no_exception_names_its_seed(scenario: Scenario) -> None:
    """What pytest raises, and a cancellation, are not."""
    with pytest.raises(ScheduleError, match="seed 3"):
        simulate(scenario, seeds=[3])


async def test_a_simulation_leaves_the_loop_of_its_test_alone() -> None:
    """It needs none, so that a test which is a coroutine may run one."""
    assert simulate(two_writers, seeds=[3]).schedules == 1
    await asyncio.sleep(0)
    assert asyncio.get_running_loop().is_running()


def test_a_fault_that_does_not_matter_is_left_out() -> None:
    """Of many faults, the error keeps those that the scenario does not stand."""

    async def no_answer_lost_twice(world: World) -> None:
        service = Service(world)
        store = service.store_of(world.process("client"))
        for step in world.steps(20):
            await store.sessions.create_session(app_name=f"app{step}", user_id="user", session_id="s")
        lost = [line for line in world.trace if line.endswith("answer lost")]
        assert len(lost) < 2

    with pytest.raises(ScheduleError) as raised:
        simulate(no_answer_lost_twice, faults=Faults(answer_lost=0.1, refused=0.1))

    assert sum(line.endswith("answer lost") for line in raised.value.trace) == 2
    assert len(raised.value.faults) == 2
    assert len(raised.value.steps) <= 2


def test_a_process_that_is_killed_runs_no_line_more() -> None:
    """Not even what cleans up; its callers get to know it, and others go on."""
    ran: list[str] = []

    async def killed(world: World) -> None:
        process = world.process("victim")

        async def work() -> None:
            try:
                ran.append("begun")
                await asyncio.sleep(10)
            finally:
                ran.append("cleaned up")

        call = process.start(work)
        await asyncio.sleep(1)
        process.kill()
        with pytest.raises(KilledError):
            await call
        with pytest.raises(KilledError):
            await process.start(work)
        await asyncio.sleep(100)
        assert ran == ["begun"]

    simulate(killed, seeds=[1])


def test_a_process_that_is_stopped_goes_on_where_it_was() -> None:
    """Its timers are due at once if their time has passed meanwhile, as after SIGCONT."""

    async def stopped(world: World) -> None:
        process = world.process("sleeper")

        async def work() -> float:
            await asyncio.sleep(10)
            return world.now

        call = process.start(work)
        await asyncio.sleep(1)
        process.stop()
        await asyncio.sleep(60)
        assert not call.done()
        process.go_on()
        assert await call == pytest.approx(61)

    simulate(stopped, seeds=[1])


def test_each_process_has_clocks_of_its_own() -> None:
    """One that is ahead, and one that runs too fast."""

    async def clocks(world: World) -> None:
        from google.adk.platform import time as platform_time  # noqa: PLC0415

        async def day() -> float:
            await asyncio.sleep(100)
            return platform_time.get_time()

        right = world.process("right")
        ahead = world.process("ahead", clock_ahead_s=3600)
        fast = world.process("fast", clock_drift=1.0)
        times = [await one for one in [process.start(day) for process in (right, ahead, fast)]]
        assert times[1] - times[0] == pytest.approx(3600)
        assert world.now == pytest.approx(100)

        async def now() -> float:
            return platform_time.get_time()

        assert await fast.start(now) - await right.start(now) == pytest.approx(100)

    simulate(clocks, seeds=[1])


async def waits_for_ever(world: World) -> None:
    """Nothing runs and no timer will."""
    del world
    await asyncio.Event().wait()


async def goes_round_in_circles(world: World) -> None:
    """Simulated time does not pass."""
    del world
    for _ in itertools.count():
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("scenario", "says"),
    [
        (waits_for_ever, "nothing is left that could end the schedule"),
        (goes_round_in_circles, "the schedule does not end: 1,000 callbacks ran"),
    ],
)
def test_a_schedule_that_cannot_end_fails(scenario: Scenario, says: str) -> None:
    """A wait for ever is found at once, as an assertion that failed."""
    with pytest.raises(EndlessError, match=says):
        World(1, most_callbacks=1_000).run(scenario)

    assert issubclass(EndlessError, AssertionError)


def test_a_process_that_is_cut_off_gets_no_answer_until_it_is_connected() -> None:
    """Requests and answers are lost, and the library's retry ends the call after the partition."""

    async def partition(world: World) -> None:
        service = Service(world)
        process = world.process("client")
        store = service.store_of(process)
        service.network.cut_off(process)
        call = process.start(store.sessions.create_session, **KEY)
        await asyncio.sleep(12)
        assert not call.done()
        service.network.connect(process)
        await call
        assert await service.beside().sessions.get_session(**KEY) is not None

    simulate(partition, seeds=range(10))


def test_a_simulation_without_a_schedule_is_refused(adk_store_simulate: Any) -> None:
    """It would show nothing, and pass."""
    with pytest.raises(InvalidInputError, match="no schedule ran"):
        adk_store_simulate(two_writers, schedules=0)


@pytest.mark.parametrize("name", ["it's $HOME"])
def test_the_command_that_repeats_a_seed_is_one_for_a_shell(adk_store_simulate: Any, name: str) -> None:
    """Whatever the id of the test has."""

    async def failing(world: World) -> None:
        del world
        raise AssertionError(name)

    with pytest.raises(ScheduleError) as raised:
        adk_store_simulate(failing, schedules=1)
    (line,) = [line for line in str(raised.value).splitlines() if "--adk-store-seed" in line]
    command = shlex.split(line[line.index("pytest ") :])

    assert [f"[{name}]", "--adk-store-seed", "0"] == [command[1][-len(name) - 2 :], *command[2:4]]
