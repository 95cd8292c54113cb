"""Tasks in several pieces, and memories in several documents, keep the promises of small ones."""

from functools import partial

import pytest

from gcp_adk_store.testing.simulation import Faults, simulate
from tests.simulation import test_memories, test_tasks
from tests.support.lengths import at_length


def test_no_change_of_a_task_in_several_pieces_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pieces change with their task: no read sees those of two saves, and none is left at the end."""
    monkeypatch.setattr("gcp_adk_store.tasks.format.CHUNK_BYTES", 8_000)

    simulate(test_tasks.scenario, seeds=range(at_length(4, 8)), faults=Faults.all(0.04))


def test_no_change_of_memories_is_lost_that_divides_their_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change writes several shards, and takes several commits, while others add, change and delete."""
    for module in ("model.memories", "codec.memory_documents"):
        monkeypatch.setattr(f"gcp_adk_store.{module}.FULL_BYTES", 9_000)
        monkeypatch.setattr(f"gcp_adk_store.{module}.FULL_PACKED_BYTES", 1_200)
    monkeypatch.setattr("gcp_adk_store.memory.changes.SEAL_BYTES", 3_000)
    monkeypatch.setattr("gcp_adk_store.memory.changes._REWRITTEN_BYTES", 1_500)

    scenario = partial(test_memories.scenario, has_vectors=False)
    simulate(scenario, seeds=range(at_length(4, 20)), faults=Faults.all(0.04))
