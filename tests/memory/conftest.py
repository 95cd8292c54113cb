"""Whose memories the tests are about, and what is said."""

from typing import Any

from google.adk.events import Event
from google.genai import types

USER: dict[str, Any] = {"app_name": "app", "user_id": "user"}


def content(text: str) -> types.Content:
    """Return *text* as content."""
    return types.Content(role="user", parts=[types.Part(text=text)])


def said(text: str, author: str = "user", *, at: float | None = None, **fields: Any) -> Event:
    """Return an event with *text*."""
    made = Event(author=author, content=content(text), **fields)
    if at is not None:
        made.timestamp = at
    return made
