"""Gather what ADK asks of an artifact service into one suite to inherit."""

import uuid

import pytest

from gcp_adk_store.testing.conformance.artifact_names import FollowingReferences, NamingArtifacts
from gcp_adk_store.testing.conformance.artifact_versions import (
    CountingVersions,
    DeletingArtifacts,
    KeepingParts,
)
from gcp_adk_store.testing.conformance.running import Ids


class ArtifactServiceConformance(
    KeepingParts, CountingVersions, DeletingArtifacts, NamingArtifacts, FollowingReferences
):
    """What ADK asks of an artifact service, as tests that a subclass inherits.

    ::

        class TestMyArtifacts(ArtifactServiceConformance):
            @pytest.fixture
            def artifact_service(self) -> BaseArtifactService:
                return MyArtifactService()

    The one fixture gives the service to test, or an asynchronous context manager that yields it. All
    else is as in :class:`~gcp_adk_store.testing.conformance.SessionServiceConformance`: an app of its
    own and an event loop of its own for every test, no plugin, and no test to silence.
    """

    @pytest.fixture
    def user(self) -> Ids:
        """A user of an app that no other test has seen."""
        return {"app_name": f"conformance-{uuid.uuid4().hex}", "user_id": "u"}

    @pytest.fixture
    def place(self, user: Ids) -> Ids:
        """A session of :meth:`user`."""
        return {**user, "session_id": "session"}

    @pytest.fixture
    def report(self, place: Ids) -> Ids:
        """An artifact of :meth:`place`, not saved yet."""
        return {**place, "filename": "report"}
