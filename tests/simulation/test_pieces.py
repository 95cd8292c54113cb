"""Tasks in several pieces keep the promises of small ones."""

import pytest

from gcp_adk_store.testing.simulation import Faults, simulate
from tests.simulation import test_tasks
from tests.support.lengths import at_length


def test_no_change_of_a_task_in_several_pieces_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pieces change with their task: no read sees those of two saves, and none is left at the end."""
    monkeypatch.setattr("gcp_adk_store.tasks.format.CHUNK_BYTES", 8_000)

    simulate(test_tasks.scenario, seeds=range(at_length(4, 8)), faults=Faults.all(0.04))
