"""Run the shipped suites on our services: nothing diverges. In memory it is in the long form alone."""

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
from tests.support.stores import STORES
from tests.support.temporary import temporary_folder


@pytest.fixture(params=[*STORES, *at_length([], ["memory"])])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """A new store."""
    if request.param == "emulators":
        yield request.getfixturevalue("adk_store")
        return
    with temporary_folder() as folder:
        store = Store.local(":memory:" if request.param == "memory" else folder)
        yield store
        asyncio.run(store.close())


@pytest.mark.sample(10)
class TestSessions(SessionServiceConformance):
    """Firestore, and SQLite instead of it."""

    @pytest.fixture
    def session_service(self, store: Store) -> SessionService:
        return store.sessions


@pytest.mark.sample(10)
class TestArtifacts(ArtifactServiceConformance):
    """Cloud Storage, and files instead of it."""

    @pytest.fixture
    def artifact_service(self, store: Store) -> ArtifactService:
        return store.artifacts


@pytest.mark.sample(10)
class TestMemories(MemoryServiceConformance):
    """Memories in both."""

    @pytest.fixture
    def memory_service(self, store: Store) -> MemoryService:
        return store.memory
