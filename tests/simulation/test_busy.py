"""The promises hold as well where the calls of a process overlap, and callers are cancelled at any moment."""

import pytest

from gcp_adk_store.testing.simulation import simulate
from tests.simulation.journal import Journal
from tests.simulation.workloads import BUSY, WORKLOADS
from tests.support.lengths import at_length


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", BUSY)
def test_calls_that_overlap_and_are_cancelled_keep_what_is_promised(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one handle, too; what a cancelled call did is unknown to its caller, and all else is as ever."""
    monkeypatch.setattr(Journal, "is_busy", True)
    workload = WORKLOADS[name]
    simulate(workload.scenario, seeds=range(at_length(1, 20)), faults=workload.faults)


@pytest.mark.parametrize(("name", "seed"), [("behind", 31), ("turns-behind", 507)])
def test_a_failure_is_raised_to_whom_it_concerns(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for an append that is stored and was made before, and by the end of the turn in which it was."""
    monkeypatch.setattr(Journal, "is_busy", True)
    workload = WORKLOADS[name]
    simulate(workload.scenario, seeds=[seed], faults=workload.faults)
