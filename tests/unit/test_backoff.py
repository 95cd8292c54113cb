"""Loops that read again what others changed end in time."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store.errors import UnavailableError
from gcp_adk_store.kernel.operation import part_of
from gcp_adk_store.kernel.ports import ConditionFailedError
from gcp_adk_store.kernel.transact import ConflictBackoff, jitter


async def test_the_first_turn_has_no_pause_and_the_others_stay_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that waits longer than the others loses again."""
    bounds: list[float] = []

    def uniform(low: float, high: float) -> float:
        bounds.append(high)
        return low

    monkeypatch.setattr("gcp_adk_store.machine.uniform", uniform)
    backoff = ConflictBackoff(30)
    for _ in range(4):
        await backoff.wait()

    assert [0.02, 0.02, 0.02] == bounds


async def test_a_loop_ends_at_its_deadline_and_tells_its_turns() -> None:
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


@pytest.mark.parametrize(
    ("attempt", "bound"), [(0, 0.0), (1, 0.05), (2, 0.1), (4, 0.2), (5, 0.25), (6, 0.25), (10**9, 0.25)]
)
def test_who_loses_a_race_waits_longer_each_time(
    attempt: int, bound: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to a quarter of a second, however often: who waits longer than the others loses again."""
    bounds: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        bounds.append((low, high))
        return high

    monkeypatch.setattr("gcp_adk_store.machine.uniform", uniform)
    waited_s = jitter(attempt)

    assert [(0, waited_s)] == bounds
    assert bound == pytest.approx(waited_s)


@given(st.integers(0, 2**70))
def test_no_wait_after_a_race_is_out_of_bounds(attempt: int) -> None:
    """It is never negative and never beyond the bound, whatever chance says."""
    assert 0 <= jitter(attempt) <= min(0.05 * attempt, 0.25)


def test_losers_of_a_race_do_not_meet_again() -> None:
    """Chance spreads them over the whole of the wait, not only over its end."""
    waits = [jitter(5) for _ in range(1000)]

    assert min(waits) < 0.05
    assert max(waits) > 0.2
    assert len(set(waits)) > 900


def test_a_wait_takes_no_random_number_of_the_programs() -> None:
    """A program that seeds them gets the same ones with this library as without."""
    before = random.getstate()
    jitter(3)

    assert before == random.getstate()
