"""Decide which events of a session are archived, and which segments go to the bucket."""

from collections.abc import Sequence
from dataclasses import dataclass

from gcp_adk_store.model.session_fields import Archived
from gcp_adk_store.model.sessions import Segment


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


def whole_segments(segments: Sequence[Segment], *, begin: int, kept: int) -> int:
    """Return how many of *segments* have no event after the first *kept* ones of their session.

    *begin* is the number of events before them.
    """
    end = begin
    for count, segment in enumerate(segments):
        end += len(segment.texts)
        if end > kept:
            return count
    return len(segments)


def archived_with(before: Archived, numbers: Sequence[int], kept: int) -> Archived:
    """Return what is archived after the first *kept* events are, and the segments *numbers* moved."""
    below = numbers[-1] + 1 if numbers else before.segments
    return Archived(events=max(kept, before.events), segments=below)
