"""Run the tests of a suite, on examples of sessions and artifacts."""

import asyncio
import contextlib
import functools
import inspect
import uuid
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, TypeVar

import pytest
from google.adk.artifacts import BaseArtifactService
from google.adk.events import Event, EventActions
from google.adk.memory import BaseMemoryService
from google.adk.sessions import BaseSessionService, Session
from google.genai import types

Suite = TypeVar("Suite", bound=type)


def in_loops_of_their_own(suite: Suite) -> Suite:
    """Make plain tests, which pytest alone can run, of the asynchronous ones of *suite*, in a loop each.

    A fixture may give the service itself, or an asynchronous context manager that yields it: that is
    entered and left in the loop of the test.
    """
    for name, test in [*vars(suite).items()]:
        if inspect.iscoroutinefunction(test):
            setattr(suite, name, _in_its_own_loop(test))
    return suite


def _in_its_own_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(_opened(test, args, kwargs))

    return run


async def _opened(
    test: Callable[..., Coroutine[Any, Any, None]], args: tuple[Any, ...], given: dict[str, Any]
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        opened = {
            # A service may be a context manager as well: that one is for its fixture to leave.
            name: await stack.enter_async_context(value)
            if isinstance(value, contextlib.AbstractAsyncContextManager)
            and not isinstance(value, BaseSessionService | BaseArtifactService | BaseMemoryService)
            else value
            for name, value in given.items()
        }
        await test(*args, **opened)


Ids = dict[str, Any]
"""Arguments that say which artifact, session or user a call is about."""


class OfAnApp:
    """A suite of which each test has an app of its own."""

    @pytest.fixture
    def user(self) -> Ids:
        """A user of an app that no other test has seen."""
        return {"app_name": f"conformance-{uuid.uuid4().hex}", "user_id": "user"}


def text(words: str) -> types.Part:
    """Return an artifact of text."""
    return types.Part(text=words)


def binary(data: bytes, mime_type: str = "image/png", display_name: str | None = None) -> types.Part:
    """Return an artifact of bytes."""
    return types.Part(inline_data=types.Blob(data=data, mime_type=mime_type, display_name=display_name))


def file(uri: str, mime_type: str | None = None) -> types.Part:
    """Return an artifact whose content lies elsewhere."""
    return types.Part(file_data=types.FileData(file_uri=uri, mime_type=mime_type))


def tombstone() -> types.Part:
    """Return what ADK's session rewind saves over an artifact that it removes."""
    return binary(b"", "application/octet-stream")


def reference(target: Ids, version: int = 0) -> types.Part:
    """Return an artifact that points to a version of *target*, in the session that it names, if any."""
    scope = f"/sessions/{target['session_id']}" if target.get("session_id") else ""
    return file(
        f"artifact://apps/{target['app_name']}/users/{target['user_id']}{scope}"
        f"/artifacts/{target['filename']}/versions/{version}"
    )


SCOPES: Final = ("", "user:", "app:")
"""Prefixes of the state that is stored."""


def event(text: str = "hello", *, at: float | None = None, delta: Mapping[str, Any] | None = None) -> Event:
    """Return a user's event that changes state by *delta*, created *at* a Unix time."""
    made = Event(
        author="user",
        invocation_id="invocation",
        content=types.Content(role="user", parts=[types.Part(text=text)]),
        actions=EventActions(state_delta=dict(delta or {})),
    )
    if at is not None:
        made.timestamp = at
    return made


def texts(session: Session) -> list[str | None]:
    """Return what was said in *session*, in order."""
    return [one.content.parts[0].text for one in session.events if one.content and one.content.parts]


def ids(sessions: Iterable[Session]) -> list[str]:
    """Return the ids of *sessions*, in order."""
    return [session.id for session in sessions]


async def read(service: BaseSessionService, who: Ids, **options: Any) -> Session:
    """Return a session that must exist."""
    found = await service.get_session(**who, **options)
    assert found is not None
    return found
