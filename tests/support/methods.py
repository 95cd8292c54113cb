"""The public methods of a store's services, and arguments that they take."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, get_args

from a2a.server.context import ServerCallContext
from a2a.types import ListTasksRequest, Task, TaskPushNotificationConfig
from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai import types

from gcp_adk_store import Garbage, GarbageKind, Point, Store
from gcp_adk_store.model.payloads import PayloadPlace

INTERNAL: Final = frozenset(
    {
        "begin",
        "delete_push_configs",
        "delete_task",
        "get_task",
        "kept",
        "list_push_configs",
        "list_tasks",
        "save_task",
        "set_push_config",
        "take",
        "through",
    }
)
"""Methods that only other parts of the library call."""
_TAKEN: Final = 3
"""Items that are taken from a stream."""

CONTENT: Final = types.Content(role="user", parts=[types.Part(text="x")])
EVENT: Final = Event(author="user", content=CONTENT)
GOOD: Final[Mapping[str, Any]] = {
    "anchors": "anchors",
    "app_name": "app",
    "artifact": types.Part(text="x"),
    "before": Point.position(0),
    "at": Point.position(0),
    "context": ServerCallContext(),
    "event": EVENT,
    "event_id": "e",
    "events": [EVENT],
    "faults": [],
    "filename": "f",
    "garbage": Garbage(kind=GarbageKind.DELETION, place=PayloadPlace.CHUNKS, name="n", since=0.0),
    "memories": [MemoryEntry(content=CONTENT)],
    "memory_id": "m",
    "message_id": "m",
    "new_message": CONTENT,
    "notification_config": TaskPushNotificationConfig(),
    "owner": "o",
    "params": ListTasksRequest(),
    "query": "q",
    "reason": "r",
    "session": Session(id="s", app_name="app", user_id="user"),
    "session_id": "s",
    "source": __file__,
    "target": "target",
    "task": Task(id="t", context_id="c"),
    "task_id": "t",
    "text": "t",
    "upload_id": "0" * 32,
    "user_id": "user",
}
"""An argument that a method takes, by the name of the parameter; a runner is the caller's."""


def options_of(make: Callable[..., Any]) -> Iterator[str]:
    """Yield the names of the arguments that *make* takes, those of its ``Unpack[...]`` too."""
    for parameter in inspect.signature(make).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            (options,) = get_args(parameter.annotation)
            yield from options.__annotations__
        else:
            yield parameter.name


def services_of(store: Store) -> dict[str, object]:
    """Return all services of *store*, and itself."""
    return {
        "store": store,
        "sessions": store.sessions,
        "artifacts": store.artifacts,
        "memory": store.memory,
        "turns": store.turns,
        "tasks": store.tasks,
        "configs": store.push_notification_configs,
    }


def public_methods(service: object) -> Iterator[Callable[..., Any]]:
    """Yield the methods of *service* that its users call with arguments."""
    for name in dir(type(service)):
        found = inspect.getattr_static(type(service), name)
        if name.startswith("_") or name in INTERNAL or not inspect.isfunction(found):
            continue
        method = getattr(service, name)
        if inspect.signature(method).parameters:
            yield method


def arguments(method: Callable[..., Any], good: Mapping[str, Any], /, **given: Any) -> dict[str, Any]:
    """Return the arguments of a call of *method*: those that it requires of *good*, and those *given*."""
    parameters = inspect.signature(method).parameters.values()
    return {each.name: good[each.name] for each in parameters if _is_required(each)} | given


def _is_required(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD


async def finished(method: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Call *method* and wait for what it returns, or for the first items of a stream."""
    made = method(**given)
    if isinstance(made, AbstractAsyncContextManager):
        async with made:
            return
    if isinstance(made, AsyncIterator):
        for _ in range(_TAKEN):
            if await anext(made, None) is None:
                break
        await made.aclose()  # type: ignore[attr-defined]  # of a generator
    elif inspect.isawaitable(made):
        await made
