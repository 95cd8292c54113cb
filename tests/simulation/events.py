"""Events that workloads append, and what their calls see of sessions."""

from typing import Any

from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.genai import types


def said(text: str) -> types.Content:
    """Return a message of the user."""
    return types.Content(role="user", parts=[types.Part(text=text)])


def event_of(name: str, size: int = 0, picture: bytes = b"", /, **delta: Any) -> Event:
    """Return an event of the user whose id is its name, with a text of at least *size*, and a *picture*."""
    parts = [types.Part(text=name + "." * size)]
    if picture:
        parts.append(types.Part.from_bytes(data=picture, mime_type="image/png"))
    content = types.Content(role="user", parts=parts)
    return Event(id=name, author="user", content=content, actions=EventActions(state_delta=delta))


def ids_of(session: Session | None) -> list[str] | None:
    """Return the ids of a session's events."""
    return None if session is None else [event.id for event in session.events]


def nothing(_: object) -> None:
    """Keep nothing of what a call returned."""
