"""Run the shipped suites on our services: nothing diverges. In memory it is in the long form alone.

Run the shipped suite of task stores on the SDK's own store in memory and on this package's.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from a2a.server.tasks import InMemoryTaskStore, TaskStore

from gcp_adk_store import ArtifactService, MemoryService, SessionService, Store
from gcp_adk_store.testing.conformance import (
    ArtifactServiceConformance,
    MemoryServiceConformance,
    SessionServiceConformance,
)
from gcp_adk_store.testing.conformance.tasks import TaskStoreConformance
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


class TestTheSdksTasks(TaskStoreConformance):
    """What the suite expects is what the SDK does."""

    @pytest.fixture
    def task_store(self) -> TaskStore:
        return InMemoryTaskStore()


class TestOurTasks(TaskStoreConformance):
    """On the emulator and in a folder."""

    @pytest.fixture(params=STORES)
    def task_store(
        self, request: pytest.FixtureRequest, tmp_path: Path
    ) -> contextlib.AbstractAsyncContextManager[TaskStore]:
        store = (
            Store.local(tmp_path)
            if request.param == "folder"
            else Store.connect(project=request.getfixturevalue("project"))
        )

        @contextlib.asynccontextmanager
        async def opened() -> AsyncIterator[TaskStore]:
            async with store:
                yield store.tasks

        return opened()
