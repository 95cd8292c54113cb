"""Show that calls side by side end together: all with results, or with the first failure."""

import asyncio

import pytest

from gcp_adk_store.errors import UnavailableError
from gcp_adk_store.kernel.concurrency import both, gather

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


async def test_results_keep_the_order_of_the_calls() -> None:
    """Calls run side by side, and whichever ends first, each result is in its call's place."""
    turns = [asyncio.Event() for _ in range(3)]

    async def wait_for_the_next(place: int) -> int:
        if place < len(turns) - 1:
            await turns[place + 1].wait()
        turns[place].set()
        return place

    async with asyncio.timeout(HANGS_S):
        results = await gather(wait_for_the_next(place) for place in range(3))

    assert [0, 1, 2] == results


async def test_no_calls_give_no_results() -> None:
    """An empty gather is done at once."""
    assert [] == await gather(())


async def test_the_first_failure_cancels_the_rest() -> None:
    """Nothing goes on in the background once the whole has failed."""
    rest = [Hanging(), Hanging()]
    async with asyncio.timeout(HANGS_S):
        with pytest.raises(UnavailableError, match="later"):
            await gather([rest[0](), fail_after(rest[1].started, UnavailableError("later")), rest[1]()])

    assert [True, True] == [call.cancelled for call in rest]


@pytest.mark.parametrize("cause", [None, KeyError("status")])
async def test_a_failure_is_raised_as_itself(cause: Exception | None) -> None:
    """Callers catch the error that happened, with its own cause and without a group around it."""
    hanging, error = Hanging(), UnavailableError("later")
    async with asyncio.timeout(HANGS_S):
        with pytest.raises(UnavailableError) as caught:
            await gather([hanging(), fail_after(hanging.started, error, cause)])

    assert error is caught.value
    assert cause is caught.value.__cause__
    assert caught.value.__suppress_context__


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


async def test_two_calls_beside_each_other_keep_their_types() -> None:
    """Results of different kinds come back in the places of their calls."""
    meeting = asyncio.Barrier(2)

    async def answer(value: str) -> str:
        await meeting.wait()
        return value

    async def count() -> int:
        await meeting.wait()
        return 7

    async with asyncio.timeout(HANGS_S):
        results = await both(answer("x"), count())

    assert ("x", 7) == results
