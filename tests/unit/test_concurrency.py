"""Show how calls wait, begin in turns and end together, and what a bounded memory of values keeps."""

import asyncio
import gc
import inspect
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gcp_adk_store import OverloadedError, UnavailableError
from gcp_adk_store.artifacts.files import to_its_end
from gcp_adk_store.kernel.concurrency import Limiter, Lru, Permit, gather
from gcp_adk_store.kernel.operation import paced, part_of
from tests.support.loop_work import Turns
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

    assert ({}, 0, {}) == (limiter._queues, limiter._waiting, limiter._timers)


def test_each_call_that_waits_ends_at_its_own_deadline(quick: QuickTime) -> None:
    """They share one timer, which is for the first of them."""
    limiter = limited()
    ended: list[float] = []

    async def wait(seconds: float) -> None:
        with part_of(seconds), pytest.raises(OverloadedError):
            await limiter.acquire("k")
        ended.append(quick.now - began)

    async def work() -> None:
        async with limiter.permit("k"):
            await asyncio.gather(*map(wait, (5.0, 0.25, 2.5)))

    began = quick.now
    quick.run(work())

    assert ended == [0.25, 2.5, 5.0]


async def test_calls_that_wait_share_a_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A timer for each would wake thousands at once, each second."""
    limiter, loop = limited(), asyncio.get_running_loop()
    begin, timers = loop.call_later, list[float]()

    def call_later(delay: float, *rest: Any, **named: Any) -> asyncio.TimerHandle:
        timers.append(delay)
        return begin(delay, *rest, **named)

    monkeypatch.setattr(loop, "call_later", call_later)
    async with limiter.permit("k"):
        tasks = [await waiting(limiter, "k") for _ in range(100)]
    for task in tasks:
        limiter.release(await task)

    assert len(timers) == 1


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


class Hanging:
    """A call that ends only by being cancelled, and remembers that."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.cancelled = False

    async def __call__(self) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


async def test_the_first_failure_cancels_the_rest_and_is_raised() -> None:
    """Nothing goes on, or begins, once the whole has failed; others may fail by being cancelled."""
    rest = [Hanging(), Hanging()]
    later = [Hanging()() for _ in range(40)]  # more than run at a time

    async def fail_when_cancelled() -> None:
        try:
            await rest[0]()
        finally:
            raise UnavailableError("second")

    async def fail() -> None:
        await rest[1].started.wait()
        raise UnavailableError("first")

    async with asyncio.timeout(HANGS_S):
        with pytest.raises(UnavailableError, match="first"):
            await gather([fail_when_cancelled(), fail(), rest[1](), *later])

    assert [True, True] == [call.cancelled for call in rest]
    assert {inspect.CORO_CLOSED} == {inspect.getcoroutinestate(call) for call in later}


async def test_a_cancelled_caller_cancels_the_calls() -> None:
    """Whoever stops waiting stops the work, and sees a cancellation, not a failure."""
    hanging = Hanging()
    task = asyncio.create_task(gather([hanging()]))
    await hanging.started.wait()
    task.cancel()
    await asyncio.wait([task], timeout=HANGS_S)

    assert (True, True) == (task.cancelled(), hanging.cancelled)


@pytest.mark.parametrize("each_turn", [0, 1, 2, 4, 5])
async def test_calls_that_arrive_while_others_wait_begin_after_those(each_turn: int) -> None:
    """However many arrive in a turn, no more than 4 begin in one; one that was cancelled holds up none."""
    begun: list[int] = []
    counts = [0]
    tasks = [asyncio.create_task(begin(number, begun)) for number in range(26)]
    while len(begun) < len(tasks) - 1:
        await asyncio.sleep(0)
        counts.append(len(begun))
        tasks[20].cancel()
        if len(counts) < 12:
            numbers = range(len(tasks), len(tasks) + each_turn)
            tasks += [asyncio.create_task(begin(number, begun)) for number in numbers]

    assert begun == [number for number in range(len(tasks)) if number != 20]
    assert max(after - before for before, after in pairwise(counts)) == 4


async def test_steps_take_turns_of_the_loop_and_wait_for_no_call() -> None:
    """However many calls have waited before."""
    calls: list[int] = []
    steps: list[int] = []
    tasks = [asyncio.create_task(begin(number, calls)) for number in range(300)]
    tasks += [asyncio.create_task(begin(number, steps, is_step=True)) for number in range(50)]
    counts = [0]
    while len(steps) < 50:
        await asyncio.sleep(0)
        counts.append(len(steps))

    assert steps == [*range(50)]
    assert max(after - before for before, after in pairwise(counts)) == 4
    assert len(calls) < 100
    await asyncio.gather(*tasks)


def test_a_loop_that_was_closed_while_calls_waited_is_forgotten() -> None:
    """Once another loop begins calls."""
    gc.freeze()  # else each collection goes through all that earlier tests left

    def closed() -> weakref.ref[asyncio.AbstractEventLoop]:
        loop = asyncio.new_event_loop()
        tasks = [loop.create_task(begin(number, [])) for number in range(50)]
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.close()
        assert not all(task.done() for task in tasks)
        return weakref.ref(loop)

    loop = closed()
    asyncio.run(begin(0, []))
    gc.collect()

    assert loop() is None


async def begin(number: int, begun: list[int], *, is_step: bool = False) -> None:
    """Begin a call, or a step of one, and note that."""
    await paced(is_step=is_step)
    begun.append(number)


async def test_work_on_a_thread_ends_before_its_call_though_all_tasks_are_cancelled() -> None:
    """As an event loop does that ends."""
    may_end, others = threading.Event(), asyncio.all_tasks()
    call = asyncio.create_task(to_its_end(may_end.wait, HANGS_S))
    await asyncio.sleep(0)
    for task in asyncio.all_tasks() - others:
        task.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    had_ended = call.done()
    may_end.set()
    await asyncio.wait([call])

    assert not had_ended
    assert call.cancelled()


async def test_others_have_their_turn_between_calls_that_wait_for_nothing(
    ticking: Callable[[float], object],
) -> None:
    """On a machine that takes its whole share of time for each call."""
    ticking(0.005)
    turns = Turns()

    async def call(number: int) -> int:
        return number

    others = asyncio.create_task(turns.run())
    assert list(range(1000)) == await gather(map(call, range(1000)))
    others.cancel()

    assert turns.count >= 1000 // 32


def size_of(value: int) -> int:
    """Return the size of a value of the memory below."""
    return value


STEPS = st.tuples(st.sampled_from("abcd"), st.sampled_from(["look", "forget"]) | st.integers(0, 6))


@pytest.mark.parametrize("has_sizes", [True, False])
@given(capacity=st.integers(0, 5), steps=st.lists(STEPS))
@example(capacity=5, steps=[("a", 2), ("b", 2), ("a", "look"), ("c", 3), ("d", 6)])
def test_a_memory_keeps_what_was_used_last(
    capacity: int, steps: list[tuple[str, int | str]], *, has_sizes: bool
) -> None:
    """As much as its capacity; what is larger is not kept, and drives nothing out."""
    memory = Lru[str, int](capacity, size_of) if has_sizes else Lru[str, int](capacity)
    kept: dict[str, int] = {}
    for key, step in steps:
        if step == "look":
            assert kept.get(key) == memory.lookup(key)
            kept |= {key: kept.pop(key)} if key in kept else {}  # now it is the last
            continue
        kept.pop(key, None)
        if isinstance(step, str):
            memory.forget(key.__eq__)
            continue
        memory.put(key, step)
        kept |= {key: step} if not has_sizes or step <= capacity else {}
        while (sum(kept.values()) if has_sizes else len(kept)) > capacity:
            del kept[next(iter(kept))]

    assert kept == {key: found for key in "abcd" if (found := memory.lookup(key)) is not None}
