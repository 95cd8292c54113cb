"""Processes that send messages to one session at once, while a holder is stopped and another is killed."""

import uuid
from pathlib import Path

import pytest

from tests.services.racing_process import At
from tests.support.stores import STORES
from tests.turns.show import show


@pytest.fixture(params=STORES)
def at(request: pytest.FixtureRequest, tmp_path: Path) -> At:
    """Where the processes have their store."""
    if request.param == "folder":
        return {"folder": str(tmp_path / "store")}
    assert request.getfixturevalue("firestore_emulator").address
    return {"project": f"demo-{uuid.uuid4().hex[:20]}"}


async def test_turns_of_processes_that_are_stopped_and_killed_do_not_interleave(at: At) -> None:
    """Each acknowledged message is there once and in order; the process that woke up is refused."""
    shown = await show(at, processes=3, messages=6)
    shown.check()
    assert "lost" in {one["became"] for one in shown.told}
