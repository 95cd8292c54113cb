"""Count what the requests of all schedules met; tests/conftest.py shows it at the end of a run."""

from collections.abc import Iterator

import pytest

from gcp_adk_store.testing.simulation import Scenario, World
from tests.simulation.counts import RUN


@pytest.fixture(autouse=True)
def counted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Add the requests of each world of the test to those of the run."""
    run = World.run

    def counting(world: World, scenario: Scenario) -> None:
        try:
            run(world, scenario)
        finally:
            if request.path.name != "test_budgets.py":  # whose requests meet no fault
                RUN.requests += world.fates.counts

    monkeypatch.setattr(World, "run", counting)
    yield
    RUN.files.add(request.path.name)
