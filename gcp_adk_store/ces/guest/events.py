"""Hold what happened in a session."""

import math
from typing import Annotated, Any

import pydantic

from .content import Content, Part
from .models import MessageModel, Model


def _whole_seconds(value: object) -> object:
    return math.floor(value) if isinstance(value, float) and math.isfinite(value) else value


class EventActions(MessageModel):
    """What an event does beside saying something."""

    skip_summarization: bool | None = None
    state_delta: dict[str, Any] = pydantic.Field(default_factory=dict)
    artifact_delta: dict[str, Any] = pydantic.Field(default_factory=dict)
    transfer_to_agent: str | None = None
    escalate: bool | None = None
    requested_auth_configs: dict[str, dict[str, Any]] = pydantic.Field(default_factory=dict)
    end_invocation: bool | None = None


class Event(Model):
    """One event of a session."""

    id: str
    invocation_id: str
    author: str
    """``user``, or the name of an agent."""
    timestamp: Annotated[int, pydantic.BeforeValidator(_whole_seconds)]
    """In seconds; of fractions the whole ones."""
    content: Content | None = None
    actions: EventActions = pydantic.Field(default_factory=EventActions)
    long_running_tool_ids: set[str] | None = None
    partial: bool | None = None
    turn_complete: bool | None = None
    error_code: str | None = None
    error_message: str | None = None
    interrupted: bool | None = None
    branch: str | None = None
    grounding_metadata: Any = None

    def is_user(self) -> bool:
        """Return whether it is the user's."""
        return self.author == "user"

    def is_agent(self, agent_name: str | None = None) -> bool:
        """Return whether it is an agent's, or that of *agent_name*."""
        return not self.is_user() and agent_name in {None, self.author}

    def has_error(self) -> bool:
        """Return whether it tells of an error."""
        return bool(self.error_code)

    def parts(self) -> list[Part]:
        """Return the parts of its content, if there are any."""
        return (self.content.parts or []) if self.content else []
