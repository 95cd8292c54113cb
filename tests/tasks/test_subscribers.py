"""Several clients follow one task of the SDK's older request handler, which saves it for each of them."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import Event, EventQueue, EventQueueLegacy, InMemoryQueueManager
from a2a.server.request_handlers import LegacyRequestHandler
from a2a.server.tasks import TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)

from tests.tasks.conftest import ANN, Open

STEPS = 5


class Counted(InMemoryQueueManager):
    """Signals when so many subscribers get events."""

    def __init__(self, subscribers: int) -> None:
        super().__init__()
        self._missing = subscribers
        self.are_all_there = asyncio.Event()

    async def tap(self, task_id: str) -> EventQueueLegacy | None:
        """Let one more get events."""
        queue = await super().tap(task_id)
        self._missing -= 1
        if not self._missing:
            self.are_all_there.set()
        return queue


class Stepping(AgentExecutor):
    """Does each step once every client has seen the one before."""

    def __init__(self, clients: int, may_go: asyncio.Event) -> None:
        self.seen = asyncio.Barrier(clients + 1)
        self._may_go = may_go

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Take a turn."""
        assert context.message is not None
        task = new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        await self._may_go.wait()
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        for number in range(STEPS):
            await updater.update_status(TaskState.TASK_STATE_WORKING, metadata={"step": number})
            await self.seen.wait()
            await updater.add_artifact([Part(text=f"{number}")], artifact_id=f"a{number}")
            await self.seen.wait()
        await updater.complete()
        await self.seen.wait()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Never asked for."""
        raise NotImplementedError


async def followed(
    events: AsyncIterator[Event], agent: Stepping, begun: "asyncio.Future[Task] | None" = None
) -> list[Event]:
    """Return the events after the task, with which they begin."""
    seen: list[Event] = []
    async for event in events:
        if not isinstance(event, Task):
            seen.append(event)
            await agent.seen.wait()
        elif begun is not None:
            begun.set_result(event)
    return seen


@pytest.mark.parametrize("subscribers", [1, 3])
async def test_subscribers_of_one_task_all_see_its_end(opened: Open, subscribers: int) -> None:
    """Each has an object of its own, which comes to the same content in its own time."""
    store = opened()
    queues = Counted(subscribers)
    agent = Stepping(1 + subscribers, queues.are_all_there)
    card = AgentCard(name="slow", capabilities=AgentCapabilities(streaming=True))
    handler = LegacyRequestHandler(
        agent_executor=agent, task_store=store.tasks, agent_card=card, queue_manager=queues
    )
    said = Message(role=Role.ROLE_USER, message_id="m", parts=[Part(text="go")])
    begun: asyncio.Future[Task] = asyncio.get_running_loop().create_future()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        sending = handler.on_message_send_stream(SendMessageRequest(message=said), ANN)
        running = [group.create_task(followed(sending, agent, begun))]
        task = await begun
        for _ in range(subscribers):
            following = handler.on_subscribe_to_task(SubscribeToTaskRequest(id=task.id), ANN)
            running.append(group.create_task(followed(following, agent)))
    first, *others = (one.result() for one in running)
    stored = await store.tasks.get(task.id, ANN)

    assert 2 * STEPS + 1 == len(first)
    assert [first] * subscribers == others
    assert stored is not None
    assert TaskState.TASK_STATE_COMPLETED == stored.status.state
    assert [f"{number}" for number in range(STEPS)] == [one.parts[0].text for one in stored.artifacts]
