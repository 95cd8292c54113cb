"""Show which calls get a permit, in which order, and what happens to the others."""

import asyncio
import gc
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from gcp_adk_store import OverloadedError, UnavailableError
from gcp_adk_store.kernel.concurrency import Limiter, Permit
from gcp_adk_store.kernel.operation import part_of
from tests.support.quick_time import QuickTime

HANGS_S = 60.0


def limited(**limits: Any) -> Limiter:
    """Return a limiter with room and time enough, unless *limits* say otherwise."""
    return Limiter(**{"max_waiting": 100, "longest_wait_s": HANGS_S, **limits})


async def waiting(limiter: Limiter, key: str) -> asyncio.Task[Permit]:
    """Return a task that waits for a permit."""
    task = asyncio.create_task(limiter.acquire(key))
    await asyncio.sleep(0)  # runs the task up to its wait
    return task


async def test_a_call_too_many_is_refused_at_once() -> None:
    """The waiting calls of all keys together are bounded; a refused call keeps no other from a permit."""
    limiter = limited(max_waiting=2)
    first, second = await limiter.acquire("a"), await limiter.acquire("b")
    waiters = [await waiting(limiter, "a"), await waiting(limiter, "b")]

    with pytest.raises(OverloadedError, match=r"2 calls of this process wait .*max_waiting"):
        await limiter.acquire("a")
    limiter.release(first)
    limiter.release(second)
    await asyncio.wait_for(asyncio.gather(*waiters), HANGS_S)


async def test_a_wait_is_bounded_by_the_operation() -> None:
    """An operation with a deadline of its own waits no longer than that."""
    limiter = limited()
    await limiter.acquire("k")
    with part_of(0.01), pytest.raises(UnavailableError):
        await limiter.acquire("k")


async def test_a_cancelled_wait_loses_no_permit() -> None:
    """The next in the queue gets the permit, and the queue ends empty."""
    limiter = limited()
    held = await limiter.acquire("k")
    first, second = await waiting(limiter, "k"), await waiting(limiter, "k")
    first.cancel()
    limiter.release(held)
    limiter.release(await asyncio.wait_for(second, HANGS_S))

    assert first.cancelled()
    async with asyncio.timeout(HANGS_S), limiter.permit("k"):
        pass


async def test_a_permit_granted_at_the_moment_of_cancellation_is_released() -> None:
    """The next call gets it."""
    limiter = limited()
    held = await limiter.acquire("k")
    first, second = await waiting(limiter, "k"), await waiting(limiter, "k")
    limiter.release(held)  # granted to the first, which has not run yet
    first.cancel()
    await asyncio.wait_for(second, HANGS_S)

    assert first.cancelled()


def test_permits_go_from_loop_to_loop() -> None:
    """A waiter in another thread's event loop is woken there."""
    limiter = limited()
    order: list[int] = []
    held_up, entered = threading.Event(), threading.Event()

    async def first() -> None:
        held = await limiter.acquire("k")
        held_up.set()
        await asyncio.to_thread(entered.wait, HANGS_S)
        order.append(1)
        limiter.release(held)

    async def second() -> None:
        waiter = await waiting(limiter, "k")
        entered.set()
        await asyncio.wait_for(waiter, HANGS_S)
        order.append(2)

    thread = threading.Thread(target=asyncio.run, args=(first(),))
    thread.start()
    assert held_up.wait(HANGS_S)
    asyncio.run(second())
    thread.join(HANGS_S)

    assert [1, 2] == order


class Elsewhere:
    """An event loop on a thread of its own, which acquires a permit and goes no further."""

    def __init__(self, limiter: Limiter) -> None:
        self.loop = asyncio.new_event_loop()
        self.held: list[Permit] = []
        thread = threading.Thread(target=self.run, args=(self._acquire(limiter),))
        thread.start()
        thread.join()

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run *work* in the loop, which stays open."""
        self.loop.run_until_complete(work)

    async def _acquire(self, limiter: Limiter) -> None:
        self.held.append(await limiter.acquire("k"))


@pytest.fixture
def quick() -> Iterator[QuickTime]:
    """A time in which waits take none."""
    with QuickTime().everywhere() as quick:
        yield quick


def acquire_and_release(limiter: Limiter, time: QuickTime | None = None) -> None:
    """Hold a permit in a fresh loop, within the longest wait."""

    async def use() -> None:
        async with limiter.permit("k"):
            pass

    (time.run if time else asyncio.run)(use())


def test_a_permit_of_a_closed_loop_is_free_at_once() -> None:
    """The next call does not wait, although nobody releases the permit of the closed loop."""
    limiter = limited()
    elsewhere = Elsewhere(limiter)
    with part_of(0):  # no time to wait
        with pytest.raises(OverloadedError):
            acquire_and_release(limiter)
        elsewhere.loop.close()
        acquire_and_release(limiter)


async def test_a_waiting_call_gets_the_permit_of_a_loop_that_is_closed() -> None:
    """Also in another loop, which nobody wakes."""
    limiter = limited()
    elsewhere = Elsewhere(limiter)
    waiter = await waiting(limiter, "k")
    elsewhere.loop.close()
    limiter.release(await asyncio.wait_for(waiter, HANGS_S))


def test_a_loop_that_is_stopped_keeps_its_permit_for_half_of_the_longest_wait(quick: QuickTime) -> None:
    """It may run again; another call gets the permit within the time that it may wait, and not before."""
    limiter = limited(longest_wait_s=1.0)
    elsewhere = Elsewhere(limiter)
    began = quick.now
    acquire_and_release(limiter, quick)
    elsewhere.loop.close()

    assert 0.5 <= quick.now - began < 1.0


def test_a_loop_that_runs_again_still_holds_its_permit(quick: QuickTime) -> None:
    """It releases the permit itself; until then other calls fail after their wait."""
    limiter = limited()
    elsewhere = Elsewhere(limiter)

    async def end() -> None:
        limiter.release(elsewhere.held[0])

    with part_of(0.1), pytest.raises(OverloadedError):
        acquire_and_release(limiter, quick)
    elsewhere.run(end())
    elsewhere.loop.close()
    acquire_and_release(limiter)


def test_a_reclaimed_permit_is_not_released_again(quick: QuickTime) -> None:
    """A call that runs again, or is thrown away, after others got its permit takes nothing from them."""
    limiter = limited(longest_wait_s=0.2)
    elsewhere = Elsewhere(limiter)

    async def have_it_meanwhile() -> None:
        async with limiter.permit("k"):
            limiter.release(elsewhere.held[0])
            with pytest.raises(OverloadedError):
                await limiter.acquire("k")

    quick.run(have_it_meanwhile())
    elsewhere.loop.close()


def test_what_closed_loops_leave_is_forgotten(quick: QuickTime) -> None:
    """Neither held nor waited-for permits stay, though no call uses their keys again."""
    limiter = limited(longest_wait_s=0.2, max_waiting=100)

    async def leave(key: str) -> None:
        await limiter.acquire(key)
        await waiting(limiter, key)

    for number in range(100):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(leave(f"{number}"))
        loop.close()
    quick.now += 2 * limiter._sweep_interval_s
    acquire_and_release(limiter)

    assert ({}, 0) == (limiter._queues, limiter._waiting)


def test_a_permit_is_not_lost_to_a_waiter_whose_loop_was_closed() -> None:
    """As run_until_complete leaves a loop: what waits there is never cancelled."""
    gc.freeze()  # else each collection goes through all that earlier tests left
    limiter = limited(longest_wait_s=1)

    async def leaves_one_waiting() -> None:
        waiting = asyncio.create_task(limiter.acquire("key"))
        await asyncio.sleep(0)
        assert not waiting.done()

    async def has_it_meanwhile() -> None:
        held = await limiter.acquire("key")
        loop = asyncio.new_event_loop()
        await asyncio.to_thread(loop.run_until_complete, leaves_one_waiting())
        loop.close()
        gc.collect()
        limiter.release(held)

    asyncio.run(has_it_meanwhile())
    gc.collect()

    asyncio.run(limiter.acquire("key"))


@pytest.mark.parametrize("granted", [False, True])
def test_the_garbage_collector_may_come_while_a_permit_is_acquired(*, granted: bool) -> None:
    """It closes calls of closed loops at any place, which then release: no call waits for itself."""

    async def leave_one_waiting(limiter: Limiter) -> None:
        held = await limiter.acquire("key")
        await waiting(limiter, "key")
        if granted:
            limiter.release(held)

    async def acquire_meanwhile(limiter: Limiter, allocations: int) -> None:
        acquiring = limiter.acquire("other")
        gc.set_threshold(gc.get_count()[0] + allocations)
        gc.enable()
        with pytest.raises(StopIteration):
            acquiring.send(None)
        gc.disable()

    thresholds = gc.get_threshold()
    gc.freeze()  # else each collection goes through all that earlier tests imported
    try:
        for allocations in range(1, 16):
            limiter = limited()
            gc.disable()
            gc.collect()
            loop = asyncio.new_event_loop()
            loop.run_until_complete(leave_one_waiting(limiter))
            loop.close()
            taker = threading.Thread(
                target=asyncio.run, args=(acquire_meanwhile(limiter, allocations),), daemon=True
            )
            taker.start()
            taker.join(HANGS_S)
            assert not taker.is_alive()
            gc.collect()
            asyncio.run(asyncio.wait_for(limiter.acquire("key"), HANGS_S))
    finally:
        gc.set_threshold(*thresholds)
        gc.enable()
