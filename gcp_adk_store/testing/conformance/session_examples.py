"""Make the events that the session suite appends, and read sessions back."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from google.adk.events import Event, EventActions
from google.adk.sessions import BaseSessionService, Session
from google.genai import types

Ids = dict[str, Any]
"""Arguments that say which session, or which user, a call is about."""

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
