"""Run the shipped suites on this project's services: nothing diverges."""

import pytest

from gcp_adk_store import FirestoreSessionService, GcsArtifactService, Store
from gcp_adk_store.testing.conformance import ArtifactServiceConformance, SessionServiceConformance


class TestFirestoreSessionService(SessionServiceConformance):
    """On the Firestore emulator."""

    @pytest.fixture
    def session_service(self, adk_store: Store) -> FirestoreSessionService:
        return adk_store.sessions


class TestGcsArtifactService(ArtifactServiceConformance):
    """On the storage emulator."""

    @pytest.fixture
    def artifact_service(self, adk_store: Store) -> GcsArtifactService:
        return adk_store.artifacts
