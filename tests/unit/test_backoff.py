"""Loops that read again what others changed end in time."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store import UnavailableError
from gcp_adk_store.kernel.operation import part_of
from gcp_adk_store.kernel.ports import ConditionFailedError
from gcp_adk_store.kernel.transact import ConflictBackoff, jitter


async def test_a_loop_ends_at_its_deadline_and_reports_its_turns() -> None:
    """The refusal that led to the last turn is the cause."""
    refused = ConditionFailedError("it changed")
    backoff = ConflictBackoff(0.05)
    turns = 0

    async def read_on() -> None:
        nonlocal turns
        while True:
            turns += 1
            await backoff.wait(refused)

    with pytest.raises(UnavailableError, match="other writers were first") as caught:
        await read_on()

    assert turns == caught.value.attempts
    assert refused is caught.value.__cause__


async def test_a_loop_ends_with_the_running_operation() -> None:
    """However much later its own deadline is."""
    with part_of(0):
        backoff = ConflictBackoff(30)
        with pytest.raises(UnavailableError, match="other writers were first"):
            await backoff.wait()


@given(st.integers(0, 2**70))
def test_no_wait_after_a_race_is_out_of_bounds(attempt: int) -> None:
    """It is never negative and never beyond the bound, whatever chance says."""
    assert 0 <= jitter(attempt) <= min(0.05 * attempt, 0.25)


def test_a_wait_takes_no_random_number_of_the_programs() -> None:
    """A program that seeds them gets the same ones with this library as without."""
    before = random.getstate()
    jitter(3)

    assert before == random.getstate()
