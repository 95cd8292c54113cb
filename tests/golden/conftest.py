"""Give the tests of golden files the same ids and times in every run."""

from collections.abc import Iterator

import pytest
from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid

from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy
from tests.golden import scenarios


@pytest.fixture
def fixed_ids() -> Iterator[None]:
    """Those of ADK."""
    scenarios.fix_ids_and_times()
    yield
    platform_time.reset_time_provider()
    platform_uuid.reset_id_provider()


@pytest.fixture
def fixed(firestore_proxy: FirestoreProxy, fixed_ids: None) -> None:  # noqa: ARG001  # what it does
    """The emulator's time, too."""
    firestore_proxy.clock = lambda _: scenarios.MADE_AT
