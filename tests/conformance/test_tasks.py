"""Run the shipped suite of task stores on the SDK's own store in memory and on this package's."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from a2a.server.tasks import InMemoryTaskStore, TaskStore

from gcp_adk_store import Store
from gcp_adk_store.testing.conformance.tasks import TaskStoreConformance
from tests.support.stores import STORES


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
