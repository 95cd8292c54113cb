"""Run the shipped suites on the local store: nothing diverges. In memory it is in the long form alone."""

import asyncio
from collections.abc import Iterator

import pytest

from gcp_adk_store import ArtifactService, MemoryService, SessionService, Store
from gcp_adk_store.testing.conformance import (
    ArtifactServiceConformance,
    MemoryServiceConformance,
    SessionServiceConformance,
)
from tests.support.lengths import at_length
from tests.support.temporary import temporary_folder


@pytest.fixture(params=["folder", *at_length([], ["memory"])])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """A new store."""
    with temporary_folder() as folder:
        store = Store.local(":memory:" if request.param == "memory" else folder)
        yield store
        asyncio.run(store.close())


@pytest.mark.sample(6)
class TestLocalSessions(SessionServiceConformance):
    """SQLite instead of Firestore."""

    @pytest.fixture
    def session_service(self, store: Store) -> SessionService:
        return store.sessions


@pytest.mark.sample(6)
class TestLocalArtifacts(ArtifactServiceConformance):
    """Files instead of Cloud Storage."""

    @pytest.fixture
    def artifact_service(self, store: Store) -> ArtifactService:
        return store.artifacts


@pytest.mark.sample(6)
class TestLocalMemories(MemoryServiceConformance):
    """Memories in SQLite."""

    @pytest.fixture
    def memory_service(self, store: Store) -> MemoryService:
        return store.memory
