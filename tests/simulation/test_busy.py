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


def test_an_append_that_is_stored_does_not_report_one_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one behind it, through the same handle, waited for its permit until its deadline."""
    monkeypatch.setattr(Journal, "is_busy", True)
    workload = WORKLOADS["behind"]
    simulate(workload.scenario, seeds=[31], faults=workload.faults)
