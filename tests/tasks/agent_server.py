"""Serve an agent over HTTP in a process of its own: ``python -m tests.tasks.agent_server FOLDER``.

Each turn adds an artifact to the task of the message. The text "wait" leaves the turn in the middle, until
the process is killed.
"""

import asyncio
import sys

import uvicorn
from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, Part, TaskState
from starlette.applications import Starlette

from gcp_adk_store import Store


class Notes(AgentExecutor):
    """Notes down what it receives."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Take a turn."""
        task = context.current_task
        if task is None:
            assert context.message is not None
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.add_artifact([Part(text=context.get_user_input())])
        if context.get_user_input() == "wait":
            await updater.update_status(TaskState.TASK_STATE_WORKING)
            await asyncio.Event().wait()
        done = context.get_user_input() == "done"
        await (updater.complete() if done else updater.requires_input())

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Cancel the task."""
        assert context.task_id is not None
        assert context.context_id is not None
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def card_at(url: str) -> AgentCard:
    """Return the card of an agent that is served at *url*."""
    return AgentCard(
        name="notes",
        description="Notes down",
        version="1",
        supported_interfaces=[AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True),
        default_input_modes=["text"],
        default_output_modes=["text"],
    )


def app(store: Store) -> Starlette:
    """Return the server of the agent."""
    card = card_at("/")
    handler = DefaultRequestHandler(
        agent_executor=Notes(),
        task_store=store.tasks,
        push_config_store=store.push_notification_configs,
        agent_card=card,
    )
    return Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])


if __name__ == "__main__":
    uvicorn.run(app(Store.local(sys.argv[1])), port=0)
