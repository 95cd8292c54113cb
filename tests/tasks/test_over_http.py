"""A client of the SDK talks to a server of the SDK over HTTP, and the server is killed in the middle."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.types import (
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)

from tests.adk_server.process import Server
from tests.support.ready_programs import ready_programs
from tests.tasks.agent_server import card_at

Start = Callable[[], Server]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start servers on one local store."""
    with ExitStack() as ends:
        count = iter(range(9))

        def start() -> Server:
            server = Server(
                [str(ready_programs() / "python"), "-m", "tests.tasks.agent_server", str(tmp_path / "store")],
                environ=os.environ | {"PYTHONWARNINGS": "ignore"},
                cwd=tmp_path,
                log=tmp_path / f"log{next(count)}",
            )
            ends.callback(server.stop)
            return server

        yield start


def client_of(server: Server, http: httpx.AsyncClient) -> Client:
    """Return the SDK's client of a server."""
    return ClientFactory(ClientConfig(httpx_client=http)).create(card_at(server.url))


def message(text: str, task: Task | None = None) -> SendMessageRequest:
    """Return a message of the user, perhaps in a task."""
    said = Message(role=Role.ROLE_USER, message_id=f"m-{text}", parts=[Part(text=text)])
    if task is not None:
        said.task_id, said.context_id = task.id, task.context_id
    return SendMessageRequest(message=said)


def texts(task: Task) -> list[str]:
    """Return what the agent noted."""
    return [part.text for artifact in task.artifacts for part in artifact.parts]


async def test_a_task_survives_the_kill_of_its_server(start: Start) -> None:
    """The client gets it from the next server, with its config, and goes on with it to its end."""
    first = start()
    async with httpx.AsyncClient(timeout=60) as http:
        client = client_of(first, http)
        task = Task()
        with pytest.raises(Exception, match=r"."):  # noqa: PT012  # the connection breaks
            async for response in client.send_message(message("wait")):
                if response.HasField("task"):
                    task.CopyFrom(response.task)
                    await client.create_task_push_notification_config(
                        TaskPushNotificationConfig(task_id=task.id, id="c", url="https://a.example/hook")
                    )
                if response.HasField("status_update"):
                    first.kill()
        client = client_of(start(), http)
        found = await client.get_task(GetTaskRequest(id=task.id))
        listed = await client.list_tasks(ListTasksRequest())
        config = await client.get_task_push_notification_config(
            GetTaskPushNotificationConfigRequest(task_id=task.id, id="c")
        )
        async for _ in client.send_message(message("done", task)):
            pass
        ended = await client.get_task(GetTaskRequest(id=task.id))

    assert task.id
    assert (TaskState.TASK_STATE_WORKING, ["wait"]) == (found.status.state, texts(found))
    assert [task.id] == [each.id for each in listed.tasks]
    assert "https://a.example/hook" == config.url
    assert (TaskState.TASK_STATE_COMPLETED, ["wait", "done"]) == (ended.status.state, texts(ended))
