"""Decide which events of a session are archived, and which segments go to the bucket."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from google.adk.events import Event

from gcp_adk_store.model.session_fields import Archived


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionArchive:
    """What is archived of a session, or would be."""

    app_name: str
    user_id: str
    session_id: str
    is_dry_run: bool
    events: int
    """The session's first events that a read of all leaves out, those of earlier calls included."""
    segments: int
    """Segments whose events this call moved to the bucket."""
    bytes: int
    """Bytes of these events there."""
    folder: str
    """Where they are: the start of the names of the session's objects in the bucket."""


@dataclass(frozen=True, slots=True)
class EventFacts:
    """What the choice of events to archive needs to know of one: a long history takes little memory."""

    id: str
    invocation_id: str
    timestamp: float
    calls: tuple[str, ...]
    """The ids of its calls of tools."""
    responses: tuple[str, ...]
    """The ids of the calls that it has responses to."""

    @classmethod
    def of(cls, event: Event) -> Self:
        """Return the facts of *event*."""
        calls = tuple(call.id for call in event.get_function_calls() if call.id)
        responses = tuple(response.id for response in event.get_function_responses() if response.id)
        return cls(event.id, event.invocation_id, event.timestamp, calls, responses)


def before_whole_turns(events: Sequence[EventFacts], most: int) -> int:
    """Return the largest number of *events*, at most *most*, that no later event needs in a read.

    The events of an invocation stay together, and so do a call of a tool and its response: ADK raises an
    error for a response without its call, and a model refuses it.
    """
    turns: dict[str, int] = {}
    calls: dict[str, int] = {}
    needs: list[int] = []
    for place, event in enumerate(events):
        first = turns.setdefault(event.invocation_id, place) if event.invocation_id else place
        calls |= dict.fromkeys(event.calls, first)
        needs.append(min([first, *(calls[call] for call in event.responses if call in calls)]))
    earliest = len(events)
    for count in reversed(range(len(events) + 1)):
        earliest = min([earliest, *needs[count : count + 1]])
        if count <= min(most, earliest):
            return count
    return 0


def archived_with(before: Archived, numbers: Sequence[int], kept: int) -> Archived:
    """Return what is archived after the first *kept* events are, and the segments *numbers* moved."""
    below = numbers[-1] + 1 if numbers else before.segments
    return Archived(events=max(kept, before.events), segments=below)
