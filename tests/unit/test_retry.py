"""Show what is repeated, for how long, and what ends it."""

import asyncio
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store import (
    AccessDeniedError,
    InvalidInputError,
    OverloadedError,
    StoredDataError,
    StoreError,
    UnavailableError,
)
from gcp_adk_store.cloud import retry
from gcp_adk_store.cloud.retry import RetryPolicy
from gcp_adk_store.kernel.operation import part_of
from gcp_adk_store.kernel.ports import ConditionFailedError
from gcp_adk_store.kernel.transact import ConflictBackoff, jitter

QUICK = RetryPolicy(attempt_s=20.0, deadline_s=30.0, first_wait_s=0.0001, longest_wait_s=0.001)
HANGS_S = 60.0


class Script:
    """An attempt that fails with the given errors, one a run, then answers."""

    def __init__(self, errors: Iterator[Exception]) -> None:
        self._errors = errors
        self.runs = 0
        self.timeouts: list[float] = []

    async def __call__(self, timeout_s: float) -> str:
        self.timeouts.append(timeout_s)
        self.runs += 1
        for error in self._errors:
            raise error
        return f"answer {self.runs}"


async def outcome(script: Script, *, policy: RetryPolicy = QUICK) -> str | Exception:
    """Return what the retried *script* answered, or the error that it ended with."""
    async with asyncio.timeout(HANGS_S):
        try:
            return await retry.call(script, policy=policy)
        except (StoreError, ConditionFailedError, KeyError) as exc:
            return exc


@pytest.mark.parametrize(
    ("error", "policy"),
    [
        *((kind("x"), QUICK) for kind in (InvalidInputError, AccessDeniedError, StoredDataError, KeyError)),
        (ConditionFailedError("x"), QUICK),
        pytest.param(OverloadedError("x"), QUICK, id="its caller is to send less"),
        pytest.param(
            UnavailableError("x"), replace(QUICK, first_wait_s=1e12, longest_wait_s=1e12), id="no time"
        ),
        # It would fail for that, and its error would hide why the one before it failed.
        pytest.param(
            UnavailableError("x"), replace(QUICK, deadline_s=5.0, first_wait_s=5.0), id="hardly any"
        ),
    ],
)
async def test_what_another_try_cannot_change_is_raised_at_once(
    error: Exception, policy: RetryPolicy
) -> None:
    """As itself; so is what leaves no time for another try before the deadline."""
    script = Script(iter([error]))

    assert (error, 1) == (await outcome(script, policy=policy), script.runs)


@pytest.mark.usefixtures("passing")
async def test_the_deadline_ends_it_with_the_last_error() -> None:
    """A service that stays away ends the call with its own latest word, not with a wrapper."""
    errors: list[Exception] = []

    def refusals() -> Iterator[Exception]:
        while True:
            errors.append(UnavailableError(str(len(errors))))
            yield errors[-1]

    policy = RetryPolicy(attempt_s=20.0, deadline_s=20.0, first_wait_s=0.1, longest_wait_s=5.0)
    last = await outcome(Script(refusals()), policy=policy)

    assert last is errors[-1]
    assert len(errors) > 1


@pytest.mark.parametrize(("errors", "attempts"), [(1, 1), (3, 3)])
async def test_an_error_says_how_often_it_was_tried(errors: int, attempts: int) -> None:
    """The number of the attempt that failed for good."""
    script = [UnavailableError(str(number)) for number in range(errors - 1)]
    last = AccessDeniedError("x")
    await outcome(Script(iter([*script, last])))

    assert attempts == last.attempts


async def test_an_attempt_gets_no_more_time_than_is_left() -> None:
    """Of the deadline, or of its own bound if that is shorter."""
    script = Script(iter([UnavailableError("1")]))
    short = Script(iter([]))
    policy = RetryPolicy(attempt_s=20.0, deadline_s=5.0, first_wait_s=0.0001, longest_wait_s=0.001)
    await outcome(script, policy=policy)
    await outcome(short)

    assert 5.0 >= script.timeouts[0] > script.timeouts[1] > 0
    assert [20.0] == short.timeouts


async def test_a_wait_before_a_retry_takes_no_random_number_of_the_programs() -> None:
    """A program that seeds them gets the same ones with this library as without."""
    before = random.getstate()
    jitter(3)
    script = Script(iter([UnavailableError("1")]))

    assert "answer 2" == await outcome(script)
    assert before == random.getstate()


async def test_a_loop_ends_with_the_running_operation_and_reports_its_turns() -> None:
    """However much later its own deadline is; the refusal that led to the last turn is the cause."""
    refused = ConditionFailedError("it changed")
    with part_of(0):
        backoff = ConflictBackoff(30)
        with pytest.raises(UnavailableError, match="other writers were first") as caught:
            await backoff.wait(refused)

    assert (1, refused) == (caught.value.attempts, caught.value.__cause__)


@given(st.integers(0, 2**70))
def test_no_wait_after_a_race_is_out_of_bounds(attempt: int) -> None:
    """It is never negative and never beyond the bound, whatever chance says."""
    assert 0 <= jitter(attempt) <= min(0.05 * attempt, 0.25)
