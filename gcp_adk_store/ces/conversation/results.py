"""Hold what came of a message."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.adk.events import Event
from google.genai import types

from gcp_adk_store.ces.conversation.decisions import MODEL, USER, calls_of
from gcp_adk_store.ces.host.logs import RunLog, logs_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """A call of a function in a turn, and its response."""

    agent: str
    name: str
    args: Mapping[str, Any]
    response: Mapping[str, Any] | None
    """None for a call without a response, such as that of ``end_session``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationTurn:
    """What came of a message."""

    events: tuple[Event, ...]
    """Of ADK, as they are stored, without the user's."""
    agent: str
    """Who answers next."""
    variables: Mapping[str, Any]
    """After the turn."""
    ended: bool
    """Whether an agent ended the session."""

    @property
    def text(self) -> str:
        """What agents said, one line for each part."""
        said = (part.text for part in self._parts() if part.text and not part.thought)
        return "\n".join(said)

    @property
    def said(self) -> tuple[tuple[str, str], ...]:
        """What the client gets, in order: who says it, and the text, or a payload's type and text."""
        shown = []
        for event in self.events:
            for part in _parts_of(event):
                if part.inline_data is not None:
                    data = (part.inline_data.data or b"").decode("utf-8", "replace")
                    shown.append((event.author, f"[{part.inline_data.mime_type}] {data}"))
                elif part.text and not part.thought:
                    shown.append((event.author, part.text))
        return tuple(shown)

    @property
    def payloads(self) -> tuple[types.Blob, ...]:
        """Inline data for the client, such as that of ``Part.from_json``."""
        return tuple(part.inline_data for part in self._parts() if part.inline_data is not None)

    @property
    def calls(self) -> tuple[ToolUse, ...]:
        """The calls of functions, in order; transfers and ends of the session too."""
        responses = {
            response.id: response.response
            for event in self.events
            if event.author != USER
            for response in event.get_function_responses()
        }
        return tuple(
            ToolUse(
                agent=event.author,
                name=str(call.name),
                args=dict(call.args or {}),
                response=responses.get(call.id),
            )
            for event in self.events
            for call in calls_of(event.content)
        )

    @property
    def logs(self) -> tuple[RunLog, ...]:
        """What code told, as far as ``RuntimeSettings.stored_log_characters`` allow."""
        return tuple(log for event in self.events for log in logs_of(event))

    @property
    def error(self) -> str | None:
        """Why the turn failed: the code and the message of its last event; None on success."""
        failed = next((event for event in reversed(self.events) if event.error_code), None)
        return None if failed is None else f"{failed.error_code}: {failed.error_message}"

    def _parts(self) -> list[types.Part]:
        return [part for event in self.events for part in _parts_of(event)]


def _parts_of(event: Event) -> list[types.Part]:
    """Return what an agent says in *event*."""
    content = event.content
    return (content.parts or []) if event.author != USER and content and content.role == MODEL else []
