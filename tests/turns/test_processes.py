"""Processes that send messages to one session at once, while a holder is stopped and another is killed."""

import uuid
from pathlib import Path

import pytest

from tests.services.racing_process import At
from tests.support.stores import STORES
from tests.turns.show import Shown, show
from tests.turns.worker import LEASE_S


@pytest.fixture(params=STORES)
def at(request: pytest.FixtureRequest, tmp_path: Path) -> At:
    """Where the processes have their store."""
    if request.param == "folder":
        return {"folder": str(tmp_path / "store")}
    assert request.getfixturevalue("firestore_emulator").address
    return {"project": f"demo-{uuid.uuid4().hex[:20]}"}


@pytest.mark.sample(1)
async def test_turns_of_processes_that_are_stopped_and_killed_do_not_interleave(at: At) -> None:
    """Each acknowledged message is there once and in order; the process that woke up is refused.

    `make turns` shows it at length, and who lost a turn.
    """
    shown = await show(at, processes=3, messages=5)
    shown.check()


@pytest.mark.parametrize(
    ("pauses", "ran"),
    [([], True), ([[-1.0, 0.1], [0.5, 0.6]], True), ([[0.4, 9.0]], False), ([[0.1, 0.8], [0.9, 1.4]], False)],
)
def test_a_loss_counts_as_one_at_work_if_the_process_had_the_time_to_renew(
    pauses: list[list[float]], *, ran: bool
) -> None:
    """Two thirds of the lease are its time for it."""
    assert LEASE_S == 1.5
    lost = {"said": "w0-0", "became": "lost", "fence": 1, "renewed_at": 0.0, "pauses": pauses}
    assert ran == bool(Shown(told=[lost]).lost_at_work)
