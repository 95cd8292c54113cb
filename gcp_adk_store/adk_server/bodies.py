"""What the routes for applications receive and return, as JSON."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gcp_adk_store.artifacts.copies import Which
from gcp_adk_store.model.history import Point
from gcp_adk_store.sessions.describe.decide import SessionInfo, UnreadableSession


class _Fields(BaseModel):
    """Fields of a request; one that is not named here is refused."""

    model_config = ConfigDict(extra="forbid")


class PointFields(_Fields):
    """A point of a session's history: exactly one of the four."""

    position: Annotated[int, Field(ge=0)] | None = None
    """After so many events."""
    after_event: str | None = None
    """After the event of this id."""
    before_invocation: str | None = None
    """Before the first event of this invocation, such as a message that the user edits."""
    as_of: datetime | None = None
    """After the events that were stored at this time."""

    @model_validator(mode="after")
    def _is_one(self) -> "PointFields":
        if len(self.model_dump(exclude_none=True)) != 1:
            raise ValueError("give exactly one of position, after_event, before_invocation, as_of")
        return self

    @property
    def point(self) -> Point:
        """The point."""
        ((name, value),) = self.model_dump(exclude_none=True).items()
        point: Point = getattr(Point, name)(value)
        return point


class ChangedInfo(_Fields):
    """What to change of a session's title and labels; what is left out stays."""

    title: str | None = None
    """``null`` removes it."""
    labels: dict[str, str | None] | None = None
    """Labels that are not named stay, a value of ``null`` removes one, ``null`` as a whole removes all."""


class ForkFields(_Fields):
    """A fork to make."""

    at: PointFields | None = None
    """By default now."""
    to_session_id: str | None = None
    """By default a random one."""
    to_user_id: str | None = None
    """By default the same user. The client must be allowed to use the sessions of both."""
    artifacts: Which = "at_point"


class RestoreFields(_Fields):
    """Where a session goes back to."""

    at: PointFields
    keep_as: str | None = None
    """The id of a fork that keeps what is cut off."""


class RedactFields(_Fields):
    """Which event to redact, and why."""

    event_id: str
    reason: str
    state: bool = False
    """Whether state keys that still have the event's values become null."""
    memories: bool = False
    """Whether the memory that was made of the event goes, too."""
    dry_run: bool = False


class UploadFields(_Fields):
    """A file that a browser uploads."""

    filename: str
    mime_type: str = "application/octet-stream"
    max_bytes: Annotated[int, Field(ge=0)] | None = None


class FinishedUpload(_Fields):
    """A file that a browser has uploaded."""

    filename: str
    display_name: str | None = None


class SessionsPage(BaseModel):
    """Sessions of a user, by their last update."""

    sessions: Sequence[SessionInfo]
    unreadable: Sequence[UnreadableSession]
    """Sessions of the page that are damaged; an operator looks at them."""
    next_cursor: str | None
    """For the next page; ``null`` on the last one."""


class PlacedEvent(BaseModel):
    """An event and its place."""

    cursor: str
    """Continues after this event in the same direction."""
    event: dict[str, Any]
    """As ADK's ``/run_sse`` has it."""


class EventsPage(BaseModel):
    """Events of a session."""

    events: list[PlacedEvent]
    next_cursor: str | None
    """For the next page; ``null`` if this page has the last event."""
