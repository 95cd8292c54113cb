"""Make task stores of one place, as many processes would."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from a2a.auth.user import User
from a2a.server.context import ServerCallContext
from a2a.types import Task, TaskState, TaskStatus
from google.protobuf.timestamp_pb2 import Timestamp

from gcp_adk_store import Store

Open = Callable[..., Store]


class Named(User):
    """A user who is logged in."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def is_authenticated(self) -> bool:
        """Whether the user is known."""
        return True

    @property
    def user_name(self) -> str:
        """The name."""
        return self._name


def of(name: str) -> ServerCallContext:
    """Return the context of a call of a user."""
    return ServerCallContext(user=Named(name))


ANN = of("ann")


def task(id_: str = "t1", state: int = TaskState.TASK_STATE_WORKING, **more: Any) -> Task:
    """Return a task with a status at second *at*, if given."""
    at = more.pop("at", None)
    status = TaskStatus(state=state)  # type: ignore[arg-type]  # numbers of the enum
    if at is not None:
        status.timestamp.CopyFrom(Timestamp(seconds=at))
    return Task(id=id_, status=status, **more)


@pytest.fixture(params=["local", "firestore"])
async def opened(request: pytest.FixtureRequest) -> AsyncIterator[Open]:
    """Open stores on one place, on a local store and on the emulator."""
    stores = []
    if request.param == "local":
        path = request.getfixturevalue("tmp_path")

        def make(**options: Any) -> Store:
            return Store.local(path, **options)
    else:
        project = request.getfixturevalue("project")

        def make(**options: Any) -> Store:
            return Store.connect(project=project, **options)

    def open_(**options: Any) -> Store:
        stores.append(make(**options))
        return stores[-1]

    yield open_
    for store in stores:
        await store.close()
