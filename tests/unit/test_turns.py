"""Show who gets a turn, in which order, and what becomes of those who do not."""

import asyncio
import gc
import threading
from typing import Any

import pytest

from gcp_adk_store import deadlines
from gcp_adk_store.errors import OverloadedError, UnavailableError
from gcp_adk_store.turns import Turns

HANGS_S = 20.0


def turns(**limits: Any) -> Turns:
    """Return turns with room and time enough, unless *limits* say otherwise."""
    return Turns(**{"max_waiting": 100, "longest_wait_s": HANGS_S, **limits})


async def waiting(line: Turns, key: str) -> asyncio.Task[None]:
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
    await line.take("a")
    await line.take("b")
    waiters = [await waiting(line, "a"), await waiting(line, "b")]

    with pytest.raises(OverloadedError, match=r"2 calls of this process wait .*max_waiting"):
        await line.take("a")
    line.pass_on("a")
    line.pass_on("b")
    await asyncio.wait_for(asyncio.gather(*waiters), HANGS_S)


async def test_a_wait_ends_when_its_time_is_up() -> None:
    """It is a typed error, and its place is free for others again."""
    line = turns(max_waiting=1, longest_wait_s=0.01)
    await line.take("k")
    for _ in range(3):
        with pytest.raises(OverloadedError, match="nothing was sent"):
            await line.take("k")

    line.pass_on("k")
    async with asyncio.timeout(HANGS_S), line.turn("k"):
        pass


async def test_a_wait_is_bounded_by_the_operation() -> None:
    """An operation with a deadline of its own waits no longer than that."""
    line = turns()
    await line.take("k")
    with deadlines.operation_of(0.01), pytest.raises(UnavailableError):
        await line.take("k")


async def test_a_cancelled_wait_passes_nothing_by() -> None:
    """The next in line gets the turn, and the line ends empty."""
    line = turns()
    await line.take("k")
    first, second = await waiting(line, "k"), await waiting(line, "k")
    first.cancel()
    line.pass_on("k")
    await asyncio.wait_for(second, HANGS_S)
    line.pass_on("k")

    assert first.cancelled()
    async with asyncio.timeout(HANGS_S), line.turn("k"):
        pass


async def test_a_turn_given_in_the_moment_of_cancellation_goes_on() -> None:
    """It is passed on, not lost."""
    line = turns()
    await line.take("k")
    first, second = await waiting(line, "k"), await waiting(line, "k")
    line.pass_on("k")  # given to the first, which has not run yet
    first.cancel()
    await asyncio.wait_for(second, HANGS_S)

    assert first.cancelled()


def test_turns_go_from_loop_to_loop() -> None:
    """A waiter in another thread's event loop is woken there."""
    line = turns()
    order: list[int] = []
    taken, entered = threading.Event(), threading.Event()

    async def first() -> None:
        await line.take("k")
        taken.set()
        await asyncio.to_thread(entered.wait, HANGS_S)
        order.append(1)
        line.pass_on("k")

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


def test_a_turn_is_not_lost_to_a_waiter_whose_loop_was_closed() -> None:
    """As run_until_complete leaves a loop: what waits there is never cancelled."""
    line = turns(longest_wait_s=1)

    async def leaves_one_waiting() -> None:
        waiting = asyncio.create_task(line.take("key"))
        await asyncio.sleep(0)
        assert not waiting.done()

    asyncio.run(line.take("key"))
    loop = asyncio.new_event_loop()
    loop.run_until_complete(leaves_one_waiting())
    loop.close()
    gc.collect()
    line.pass_on("key")
    gc.collect()

    asyncio.run(line.take("key"))


@pytest.mark.parametrize("given", [False, True])
def test_the_garbage_collector_may_come_while_a_turn_is_taken(*, given: bool) -> None:
    """It closes calls of closed loops wherever it comes, which then leave: nobody waits for himself."""

    async def leave_one_waiting(line: Turns) -> None:
        await line.take("key")
        await waiting(line, "key")
        if given:
            line.pass_on("key")

    def take_as_it_comes(line: Turns, allocations: int) -> None:
        taking = line.take("other")
        gc.set_threshold(gc.get_count()[0] + allocations)
        gc.enable()
        with pytest.raises(StopIteration):
            taking.send(None)
        gc.disable()

    thresholds = gc.get_threshold()
    try:
        for allocations in range(1, 8):
            line = turns()
            gc.disable()
            gc.collect()
            loop = asyncio.new_event_loop()
            loop.run_until_complete(leave_one_waiting(line))
            loop.close()
            if not given:
                line.pass_on("key")
            taker = threading.Thread(target=take_as_it_comes, args=(line, allocations), daemon=True)
            taker.start()
            taker.join(HANGS_S)
            assert not taker.is_alive()
            gc.collect()
            asyncio.run(asyncio.wait_for(line.take("key"), HANGS_S))
    finally:
        gc.set_threshold(*thresholds)
        gc.enable()
