"""Whose memories the tests are about, and what is said."""

import sys
from typing import Any

import pytest
from google.adk.events import Event
from google.genai import types

from gcp_adk_store.memory import contents

USER: dict[str, Any] = {"app_name": "app", "user_id": "user"}


def without_numpy(patch: pytest.MonkeyPatch) -> None:
    """Let *patch* take numpy away, also from what has looked for it before."""
    contents.require_numpy.cache_clear()
    patch.setitem(sys.modules, "numpy", None)


def content(text: str) -> types.Content:
    """Return *text* as content."""
    return types.Content(role="user", parts=[types.Part(text=text)])


def said(text: str, author: str = "user", *, at: float | None = None, **fields: Any) -> Event:
    """Return an event with *text*."""
    made = Event(author=author, content=content(text), **fields)
    if at is not None:
        made.timestamp = at
    return made
