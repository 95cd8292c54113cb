"""Run the shipped suites on the local store, in memory and in a folder: nothing diverges."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from gcp_adk_store import FirestoreMemoryService, FirestoreSessionService, GcsArtifactService, Store
from gcp_adk_store.testing.conformance import (
    ArtifactServiceConformance,
    MemoryServiceConformance,
    SessionServiceConformance,
)


@pytest.fixture(params=["memory", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A new store."""
    store = Store.local(":memory:" if request.param == "memory" else tmp_path / "store")
    yield store
    asyncio.run(store.close())


class TestLocalSessions(SessionServiceConformance):
    """SQLite instead of Firestore."""

    @pytest.fixture
    def session_service(self, store: Store) -> FirestoreSessionService:
        return store.sessions


class TestLocalArtifacts(ArtifactServiceConformance):
    """Files instead of Cloud Storage."""

    @pytest.fixture
    def artifact_service(self, store: Store) -> GcsArtifactService:
        return store.artifacts


class TestLocalMemories(MemoryServiceConformance):
    """Memories in SQLite."""

    @pytest.fixture
    def memory_service(self, store: Store) -> FirestoreMemoryService:
        return store.memory
