"""Show how calls side by side begin in turns, and end together: with results, or with the first failure."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from itertools import pairwise

import pytest

from gcp_adk_store import UnavailableError
from gcp_adk_store.artifacts.files import to_its_end
from gcp_adk_store.kernel.concurrency import gather
from gcp_adk_store.kernel.operation import paced
from tests.support.loop_work import Turns

HANGS_S = 60.0


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


async def fail_after(started: asyncio.Event, error: Exception, cause: Exception | None = None) -> None:
    """Raise *error* once *started* is set."""
    await started.wait()
    raise error from cause


async def test_the_first_failure_cancels_the_rest() -> None:
    """Nothing goes on in the background once the whole has failed."""
    rest = [Hanging(), Hanging()]
    async with asyncio.timeout(HANGS_S):
        with pytest.raises(UnavailableError, match="later"):
            await gather([rest[0](), fail_after(rest[1].started, UnavailableError("later")), rest[1]()])

    assert [True, True] == [call.cancelled for call in rest]


async def test_the_first_of_several_failures_counts() -> None:
    """When cancelling makes others fail too, the error that began it is raised."""
    hanging = Hanging()
    first = UnavailableError("first")

    async def fail_when_cancelled() -> None:
        try:
            await hanging()
        finally:
            raise UnavailableError("second")

    async with asyncio.timeout(HANGS_S):
        with pytest.raises(UnavailableError) as caught:
            await gather([fail_when_cancelled(), fail_after(hanging.started, first)])

    assert first is caught.value


async def test_a_cancelled_caller_cancels_the_calls() -> None:
    """Whoever stops waiting stops the work, and sees a cancellation, not a failure."""
    hanging = Hanging()
    task = asyncio.create_task(gather([hanging()]))
    await hanging.started.wait()
    task.cancel()
    await asyncio.wait([task], timeout=HANGS_S)

    assert (True, True) == (task.cancelled(), hanging.cancelled)


async def test_calls_that_begin_together_take_turns_of_the_loop() -> None:
    """In the order of arrival; a call that was cancelled meanwhile holds up none behind it."""
    begun: list[int] = []
    tasks = [asyncio.create_task(begin(number, begun)) for number in range(50)]
    counts = [0]
    while len(begun) < 49:
        await asyncio.sleep(0)
        counts.append(len(begun))
        tasks[20].cancel()

    assert begun == [number for number in range(50) if number != 20]
    assert max(after - before for before, after in pairwise(counts)) == 16


@pytest.mark.parametrize("each_turn", [3, 9, 16, 20])
async def test_calls_that_arrive_while_others_wait_begin_after_those(each_turn: int) -> None:
    """However many arrive in a turn, no more than 16 begin in one."""
    begun: list[int] = []
    counts = [0]
    tasks = [asyncio.create_task(begin(number, begun)) for number in range(26)]
    while len(begun) < len(tasks):
        await asyncio.sleep(0)
        counts.append(len(begun))
        if len(counts) < 12:
            numbers = range(len(tasks), len(tasks) + each_turn)
            tasks += [asyncio.create_task(begin(number, begun)) for number in numbers]

    assert begun == [*range(len(tasks))]
    assert max(after - before for before, after in pairwise(counts)) == 16


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


async def begin(number: int, begun: list[int]) -> None:
    """Begin a call, and note that."""
    await paced()
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
