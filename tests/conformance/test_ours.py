"""Run the shipped suites on this project's services: nothing diverges."""

import pytest

from gcp_adk_store import ArtifactService, MemoryService, SessionService, Store
from gcp_adk_store.testing.conformance import (
    ArtifactServiceConformance,
    MemoryServiceConformance,
    SessionServiceConformance,
)


@pytest.mark.sample(4)
class TestFirestoreSessionService(SessionServiceConformance):
    """On the Firestore emulator."""

    @pytest.fixture
    def session_service(self, adk_store: Store) -> SessionService:
        return adk_store.sessions


@pytest.mark.sample(4)
class TestGcsArtifactService(ArtifactServiceConformance):
    """On the storage emulator."""

    @pytest.fixture
    def artifact_service(self, adk_store: Store) -> ArtifactService:
        return adk_store.artifacts


@pytest.mark.sample(4)
class TestFirestoreMemoryService(MemoryServiceConformance):
    """On the Firestore emulator."""

    @pytest.fixture
    def memory_service(self, adk_store: Store) -> MemoryService:
        return adk_store.memory
