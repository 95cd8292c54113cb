"""Whoever uses ADK sees the same on these services as on its own in memory."""

from collections.abc import AsyncIterator

import pytest
from google.adk.artifacts import InMemoryArtifactService
from google.adk.sessions import InMemorySessionService

from gcp_adk_store import Store
from tests.contract import turns
from tests.contract.stage import Scenario, Stage, comparable

SCENARIOS: tuple[Scenario, ...] = (*turns.SCENARIOS,)

pytestmark = [
    pytest.mark.filterwarnings("ignore:(Sequential|Loop|Parallel)Agent is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings(r"ignore:\[EXPERIMENTAL\]:UserWarning"),
]


@pytest.fixture
async def stages(project: str, adk_store_bucket: str) -> AsyncIterator[tuple[Stage, Stage]]:
    """ADK's own services in memory, and these on the emulators."""
    memory = Stage(
        sessions=InMemorySessionService(),
        artifacts=InMemoryArtifactService(),
        session_uri="memory://",
        artifact_uri="memory://",
    )
    async with Store.connect(project=project, bucket=adk_store_bucket) as store:
        ours = Stage(
            sessions=store.sessions,
            artifacts=store.artifacts,
            session_uri=f"firestore://{project}/(default)?bucket={adk_store_bucket}",
            artifact_uri=f"gs://{adk_store_bucket}",
        )
        yield memory, ours


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_a_caller_of_adk_sees_the_same(scenario: Scenario, stages: tuple[Stage, Stage]) -> None:
    """Events, state, artifacts and errors, but for ids and times that ADK draws anew each time."""
    for stage in stages:
        await scenario(stage)
    memory, ours = (comparable(stage.seen) for stage in stages)

    assert memory
    assert memory == ours
