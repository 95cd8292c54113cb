"""Show who gets a turn, in which order, and what becomes of those who do not."""

import asyncio
import gc
import threading
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from gcp_adk_store.errors import OverloadedError, UnavailableError
from gcp_adk_store.operations.limiter import Turn, Turns
from gcp_adk_store.operations.operation import part_of

HANGS_S = 20.0


def turns(**limits: Any) -> Turns:
    """Return turns with room and time enough, unless *limits* say otherwise."""
    return Turns(**{"max_waiting": 100, "longest_wait_s": HANGS_S, **limits})


async def waiting(line: Turns, key: str) -> asyncio.Task[Turn]:
    """Return a task that waits for its turn."""
    task = asyncio.create_task(line.take(key))
    await asyncio.sleep(0)  # runs the task up to its wait
    return task


async def test_turns_come_in_the_order_of_arrival() -> None:
    """Whoever waits longest is next."""
    line = turns()
    order: list[int] = []

    async def use(number: int) -> None:
        async with line.turn("k"):
            order.append(number)
            await asyncio.sleep(0)

    await asyncio.gather(*(use(number) for number in range(5)))

    assert [0, 1, 2, 3, 4] == order


@pytest.mark.parametrize("at_once", [1, 3])
async def test_no_more_run_than_may(at_once: int) -> None:
    """Of any number of calls, so many at a time, and all in the end."""
    line = turns(at_once=at_once)
    running: set[int] = set()
    most: list[int] = []

    async def use(number: int) -> None:
        async with line.turn("k"):
            running.add(number)
            most.append(len(running))
            await asyncio.sleep(0)
            running.discard(number)

    await asyncio.gather(*(use(number) for number in range(10)))

    assert (10, at_once) == (len(most), max(most))


async def test_keys_do_not_wait_for_each_other() -> None:
    """A turn of one key is free while another is taken."""
    line = turns()
    await line.take("a")
    async with asyncio.timeout(HANGS_S), line.turn("b"):
        pass


async def test_a_call_too_many_is_refused_at_once() -> None:
    """Those who wait, of all keys together, are bounded; who is refused keeps nobody else from a turn."""
    line = turns(max_waiting=2)
    first, second = await line.take("a"), await line.take("b")
    waiters = [await waiting(line, "a"), await waiting(line, "b")]

    with pytest.raises(OverloadedError, match=r"2 calls of this process wait .*max_waiting"):
        await line.take("a")
    line.pass_on(first)
    line.pass_on(second)
    await asyncio.wait_for(asyncio.gather(*waiters), HANGS_S)


async def test_a_wait_ends_when_its_time_is_up() -> None:
    """It is a typed error, and its place is free for others again."""
    line = turns(max_waiting=1, longest_wait_s=0.01)
    first = await line.take("k")
    for _ in range(3):
        with pytest.raises(OverloadedError, match="nothing was sent"):
            await line.take("k")

    line.pass_on(first)
    async with asyncio.timeout(HANGS_S), line.turn("k"):
        pass


async def test_a_wait_is_bounded_by_the_operation() -> None:
    """An operation with a deadline of its own waits no longer than that."""
    line = turns()
    await line.take("k")
    with part_of(0.01), pytest.raises(UnavailableError):
        await line.take("k")


async def test_a_cancelled_wait_passes_nothing_by() -> None:
    """The next in line gets the turn, and the line ends empty."""
    line = turns()
    held = await line.take("k")
    first, second = await waiting(line, "k"), await waiting(line, "k")
    first.cancel()
    line.pass_on(held)
    line.pass_on(await asyncio.wait_for(second, HANGS_S))

    assert first.cancelled()
    async with asyncio.timeout(HANGS_S), line.turn("k"):
        pass


async def test_a_turn_given_in_the_moment_of_cancellation_goes_on() -> None:
    """It is passed on, not lost."""
    line = turns()
    held = await line.take("k")
    first, second = await waiting(line, "k"), await waiting(line, "k")
    line.pass_on(held)  # given to the first, which has not run yet
    first.cancel()
    await asyncio.wait_for(second, HANGS_S)

    assert first.cancelled()


def test_turns_go_from_loop_to_loop() -> None:
    """A waiter in another thread's event loop is woken there."""
    line = turns()
    order: list[int] = []
    taken, entered = threading.Event(), threading.Event()

    async def first() -> None:
        held = await line.take("k")
        taken.set()
        await asyncio.to_thread(entered.wait, HANGS_S)
        order.append(1)
        line.pass_on(held)

    async def second() -> None:
        waiter = await waiting(line, "k")
        entered.set()
        await asyncio.wait_for(waiter, HANGS_S)
        order.append(2)

    thread = threading.Thread(target=asyncio.run, args=(first(),))
    thread.start()
    assert taken.wait(HANGS_S)
    asyncio.run(second())
    thread.join(HANGS_S)

    assert [1, 2] == order


class Elsewhere:
    """An event loop on a thread of its own, which takes a turn and goes no further."""

    def __init__(self, line: Turns) -> None:
        self.loop = asyncio.new_event_loop()
        self.held: list[Turn] = []
        thread = threading.Thread(target=self.run, args=(self._take(line),))
        thread.start()
        thread.join()

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run *work* in the loop, which stays open."""
        self.loop.run_until_complete(work)

    async def _take(self, line: Turns) -> None:
        self.held.append(await line.take("k"))


def take_and_pass_on(line: Turns) -> None:
    """Have a turn in a fresh loop, within the longest wait."""

    async def use() -> None:
        async with line.turn("k"):
            pass

    asyncio.run(use())


def test_a_turn_of_a_closed_loop_is_free_at_once() -> None:
    """Who comes next does not wait; what the closed loop had is passed on by nobody else."""
    line = turns()
    elsewhere = Elsewhere(line)
    with part_of(0):  # no time to wait
        with pytest.raises(OverloadedError):
            take_and_pass_on(line)
        elsewhere.loop.close()
        take_and_pass_on(line)


async def test_who_waits_already_gets_the_turn_of_a_loop_that_is_closed() -> None:
    """Also in another loop, which nobody wakes."""
    line = turns()
    elsewhere = Elsewhere(line)
    waiter = await waiting(line, "k")
    elsewhere.loop.close()
    line.pass_on(await asyncio.wait_for(waiter, HANGS_S))


def test_a_loop_that_is_stopped_keeps_its_turn_for_half_of_the_longest_wait() -> None:
    """It may run again; another call gets the turn within the time that it may wait, and not before."""
    line = turns(longest_wait_s=1.0)
    elsewhere = Elsewhere(line)
    waited = time.monotonic()
    take_and_pass_on(line)
    waited = time.monotonic() - waited
    elsewhere.loop.close()

    assert 0.5 <= waited < 1.0


def test_a_loop_that_runs_again_still_has_its_turn() -> None:
    """It passes it on by itself; until then others are told that they waited for too long."""
    line = turns()
    elsewhere = Elsewhere(line)

    async def end() -> None:
        line.pass_on(elsewhere.held[0])

    with part_of(0.1), pytest.raises(OverloadedError):
        take_and_pass_on(line)
    elsewhere.run(end())
    elsewhere.loop.close()
    take_and_pass_on(line)


def test_a_turn_that_was_lost_is_not_passed_on() -> None:
    """A call that runs again, or is thrown away, after others got its turn takes nothing from them."""
    line = turns(longest_wait_s=0.2)
    elsewhere = Elsewhere(line)

    async def have_it_meanwhile() -> None:
        async with line.turn("k"):
            line.pass_on(elsewhere.held[0])
            with pytest.raises(OverloadedError):
                await line.take("k")

    asyncio.run(have_it_meanwhile())
    elsewhere.loop.close()


def test_what_closed_loops_leave_is_forgotten() -> None:
    """Neither those that had turns nor those that waited stay, though nobody asks for their keys again."""
    line = turns(longest_wait_s=0.2, max_waiting=100)

    async def leave(key: str) -> None:
        await line.take(key)
        await waiting(line, key)

    for number in range(100):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(leave(f"{number}"))
        loop.close()
    time.sleep(line._looks_apart_s)
    take_and_pass_on(line)

    assert ({}, 0) == (line._lines, line._waiting)


def test_a_turn_is_not_lost_to_a_waiter_whose_loop_was_closed() -> None:
    """As run_until_complete leaves a loop: what waits there is never cancelled."""
    line = turns(longest_wait_s=1)

    async def leaves_one_waiting() -> None:
        waiting = asyncio.create_task(line.take("key"))
        await asyncio.sleep(0)
        assert not waiting.done()

    async def has_it_meanwhile() -> None:
        held = await line.take("key")
        loop = asyncio.new_event_loop()
        await asyncio.to_thread(loop.run_until_complete, leaves_one_waiting())
        loop.close()
        gc.collect()
        line.pass_on(held)

    asyncio.run(has_it_meanwhile())
    gc.collect()

    asyncio.run(line.take("key"))


@pytest.mark.parametrize("given", [False, True])
def test_the_garbage_collector_may_come_while_a_turn_is_taken(*, given: bool) -> None:
    """It closes calls of closed loops wherever it comes, which then leave: nobody waits for himself."""

    async def leave_one_waiting(line: Turns) -> None:
        held = await line.take("key")
        await waiting(line, "key")
        if given:
            line.pass_on(held)

    async def take_as_it_comes(line: Turns, allocations: int) -> None:
        taking = line.take("other")
        gc.set_threshold(gc.get_count()[0] + allocations)
        gc.enable()
        with pytest.raises(StopIteration):
            taking.send(None)
        gc.disable()

    thresholds = gc.get_threshold()
    try:
        for allocations in range(1, 16):
            line = turns()
            gc.disable()
            gc.collect()
            loop = asyncio.new_event_loop()
            loop.run_until_complete(leave_one_waiting(line))
            loop.close()
            taker = threading.Thread(
                target=asyncio.run, args=(take_as_it_comes(line, allocations),), daemon=True
            )
            taker.start()
            taker.join(HANGS_S)
            assert not taker.is_alive()
            gc.collect()
            asyncio.run(asyncio.wait_for(line.take("key"), HANGS_S))
    finally:
        gc.set_threshold(*thresholds)
        gc.enable()
