"""Offer what ADK asks of its services as test suites: inherit one, give it a service, run pytest."""

import pytest

# Before they are imported: pytest then shows the values of an assertion that fails in them.
pytest.register_assert_rewrite(__name__)

from gcp_adk_store.testing.conformance.artifacts import ArtifactServiceConformance  # noqa: E402
from gcp_adk_store.testing.conformance.memories import MemoryServiceConformance  # noqa: E402
from gcp_adk_store.testing.conformance.sessions import SessionServiceConformance  # noqa: E402

__all__ = ["ArtifactServiceConformance", "MemoryServiceConformance", "SessionServiceConformance"]
