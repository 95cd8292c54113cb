"""All workloads, each with the seeds that ``make test`` runs; ``make simulate`` takes others."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from gcp_adk_store.testing.simulation import Faults, Scenario
from tests.simulation import (
    test_artifacts,
    test_behind,
    test_collecting,
    test_encrypted,
    test_erased_keys,
    test_erasure,
    test_files,
    test_following,
    test_forgetting_redacted,
    test_importing,
    test_lifecycles,
    test_load,
    test_lost_answers,
    test_memories,
    test_memory_ends,
    test_moving,
    test_points,
    test_push_configs,
    test_redactions,
    test_redelivering,
    test_renewals,
    test_repairs,
    test_runs,
    test_sessions,
    test_shared_state,
    test_summaries,
    test_tasks,
    test_turns,
    test_uploads,
)
from tests.simulation.fated import FAST


@dataclass(frozen=True, slots=True)
class Workload:
    """A scenario of a fleet, with the faults that it meets."""

    scenario: Scenario
    share: float
    """The share of each fault."""
    is_fast: bool = False
    """Whether messages are fast, and meet no other fault than the scenario gives them."""

    @property
    def faults(self) -> Faults:
        """Faults of every kind, or none."""
        return FAST if self.is_fast else Faults.all(self.share)


WORKLOADS: Final[Mapping[str, Workload]] = {
    "sessions": Workload(partial(test_sessions.scenario, on_conflict="raise"), 0.03),
    "merging": Workload(partial(test_sessions.scenario, on_conflict="merge"), 0.03),
    "turns": Workload(partial(test_turns.scenario, durability="event"), 0.02),
    "turns-behind": Workload(partial(test_turns.scenario, durability="turn"), 0.02),
    "leases": Workload(test_turns.leases, 0.05),
    "cancelled-wait": Workload(test_turns.a_cancelled_wait, 0.0),
    "left-messages": Workload(test_turns.left_messages, 0.0),
    "posted-messages": Workload(test_turns.posted_messages, 0.03),
    "artifacts": Workload(test_artifacts.scenario, 0.04),
    "memories": Workload(partial(test_memories.scenario, has_vectors=False), 0.04),
    "vectors": Workload(partial(test_memories.scenario, has_vectors=True), 0.04),
    "forgetting": Workload(test_memories.forgetting, 0.04),
    "tasks": Workload(test_tasks.scenario, 0.04),
    "encrypted": Workload(test_encrypted.scenario, 0.04),
    "shared-state": Workload(test_shared_state.scenario, 0.04),
    "redelivering": Workload(partial(test_redelivering.scenario, seals=True), 0.04),
    "redelivering-tail": Workload(partial(test_redelivering.scenario, seals=False), 0.04),
    "behind": Workload(partial(test_behind.scenario, on_conflict="raise"), 0.05),
    "load": Workload(test_load.scenario, 0.04),
    "importing": Workload(test_importing.scenario, 0.03),
    "runs": Workload(test_runs.scenario, 0.04),
    "lifecycles": Workload(partial(test_lifecycles.scenario, on_conflict="merge"), 0.03),
    "lifecycles-dense": Workload(partial(test_lifecycles.scenario, on_conflict="merge", pause_s=0.1), 0.01),
    "memories-dense": Workload(partial(test_memories.scenario, has_vectors=False, pause_s=0.1), 0.02),
    "points": Workload(partial(test_points.scenario, on_conflict="raise"), 0.03),
    "points-merging": Workload(partial(test_points.scenario, on_conflict="merge"), 0.03),
    "redactions": Workload(partial(test_redactions.scenario, on_conflict="merge"), 0.03),
    "files": Workload(test_files.scenario, 0.03),
    "following": Workload(test_following.scenario, 0.03),
    "collecting": Workload(test_collecting.scenario, 0.03),
    "erasure": Workload(partial(test_erasure.scenario, beside=False), 0.03),
    "erasure-beside": Workload(partial(test_erasure.scenario, beside=True), 0.03),
    "renewals": Workload(test_renewals.scenario, 0.03),
    "renamed-late": Workload(test_renewals.renamed_late, 0.0),
    "repairs": Workload(test_repairs.scenario, 0.03),
    "summaries": Workload(test_summaries.scenario, 0.03),
    "erased-keys": Workload(test_erased_keys.scenario, 0.03),
    "following-erased": Workload(test_following.erased, 0.03),
    "forgetting-redacted": Workload(test_forgetting_redacted.scenario, 0.03),
    "memory-ends": Workload(test_memory_ends.scenario, 0.03),
    "uploads": Workload(test_uploads.scenario, 0.04),
    "push-configs": Workload(test_push_configs.scenario, 0.03),
    "moving": Workload(test_moving.scenario, 0.02),
    **{name: Workload(scenario, 0.0, is_fast=True) for name, scenario in test_lost_answers.SCENARIOS.items()},
}

BUSY: Final = (
    "sessions", "merging", "behind", "turns", "turns-behind", "leases", "artifacts", "memories", "vectors",
    "forgetting", "encrypted", "shared-state", "redelivering", "files", "following", "collecting",
    "erasure", "repairs", "summaries", "erased-keys", "following-erased", "forgetting-redacted",
    "memory-ends", "uploads", "push-configs", "points", "redactions", "lifecycles",
    "lifecycles-dense", "tasks", "importing", "moving", "runs", "renewals",
)  # fmt: skip
"""Those that run with busy processes, too: the steps of the others build on each other."""
