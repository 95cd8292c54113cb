"""Loops that read again what others changed end in time."""

import random

import pytest

from gcp_adk_store.cloud.errors import ConditionFailedError
from gcp_adk_store.errors import UnavailableError
from gcp_adk_store.operations.operation import part_of
from gcp_adk_store.sessions.rereads import Rereads


async def test_the_first_turn_has_no_pause_and_the_others_stay_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that waits longer than the others loses again."""
    bounds: list[float] = []

    def uniform(low: float, high: float) -> float:
        bounds.append(high)
        return low

    monkeypatch.setattr(random, "uniform", uniform)
    rereads = Rereads(30)
    for _ in range(4):
        await rereads.again()

    assert [0.02, 0.02, 0.02] == bounds


async def test_a_loop_ends_at_its_deadline_and_tells_its_turns() -> None:
    """The refusal that led to the last turn is the cause."""
    refused = ConditionFailedError("it changed")
    rereads = Rereads(0.05)
    turns = 0

    async def read_on() -> None:
        nonlocal turns
        while True:
            turns += 1
            await rereads.again(refused)

    with pytest.raises(UnavailableError, match="others came first") as caught:
        await read_on()

    assert turns == caught.value.attempts
    assert refused is caught.value.__cause__


async def test_a_loop_ends_with_the_running_operation() -> None:
    """However much later its own deadline is."""
    with part_of(0):
        rereads = Rereads(30)
        with pytest.raises(UnavailableError, match="others came first"):
            await rereads.again()
