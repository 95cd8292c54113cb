"""All workloads, each with the seeds that ``make test`` runs; ``make simulate`` takes others."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gcp_adk_store.testing.simulation import Faults, Scenario
from tests.simulation import (
    test_artifacts,
    test_encrypted,
    test_memories,
    test_sessions,
    test_shared_state,
    test_tasks,
    test_turns,
)


@dataclass(frozen=True, slots=True)
class Workload:
    """A scenario of a fleet, with the faults that it meets."""

    scenario: Scenario
    share: float
    """The share of each fault."""

    @property
    def faults(self) -> Faults:
        """Faults of every kind."""
        return Faults.all(self.share)


WORKLOADS: Final[Mapping[str, Workload]] = {
    "sessions": Workload(test_sessions.workload(on_conflict="raise"), 0.03),
    "merging": Workload(test_sessions.workload(on_conflict="merge"), 0.03),
    "turns": Workload(test_turns.workload("event"), 0.02),
    "turns-behind": Workload(test_turns.workload("turn"), 0.02),
    "leases": Workload(test_turns.leases, 0.05),
    "cancelled-wait": Workload(test_turns.a_cancelled_wait, 0.0),
    "artifacts": Workload(test_artifacts.scenario, 0.04),
    "memories": Workload(test_memories.workload(has_vectors=False), 0.04),
    "vectors": Workload(test_memories.workload(has_vectors=True), 0.04),
    "tasks": Workload(test_tasks.scenario, 0.04),
    "encrypted": Workload(test_encrypted.scenario, 0.04),
    "shared-state": Workload(test_shared_state.scenario, 0.04),
}
