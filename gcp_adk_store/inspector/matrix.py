"""Collect the changes of a session's state, and lay them out by key and position."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from google.adk.events import Event

from gcp_adk_store.model.keys import moment

MAX_KEYS: Final = 200
"""Keys of one matrix."""

MAX_CHANGES: Final = 1_000
"""Marks of one matrix."""

WIDTH: Final = 600
"""Width of a row, in units of the drawing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of one key by one event."""

    position: int
    """The number of the event, from 1 on; 0 for the session's creation."""
    event_id: str
    place: str | None
    """As :attr:`~gcp_adk_store.inspector.conversation.EventView.place`."""
    author: str
    moment: str


@dataclass(slots=True)
class Matrix:
    """The changes of a session's state by events, which it takes one by one; it keeps no value."""

    first: int = 1
    """The number of its first event, from 1 on."""
    events: int = 0
    """How many it is of."""
    changes: int = 0
    rows: dict[str, list[Change]] = field(default_factory=dict)
    """The changes of each key."""
    is_cut: bool = False
    """Whether there are more keys or changes than the matrix has."""

    def begin(self, initial: Mapping[str, Any]) -> None:
        """Take the state that the session was created with."""
        for key in initial:
            self._put(key, Change(position=0, event_id="", place=None, author="creation", moment=""))

    def has_room(self, changes: Mapping[str, Any]) -> bool:
        """Return whether the matrix has room for the changes of the next event.

        It takes its first event in any case, so that each matrix comes farther than the one before.
        """
        return not self.events or self.changes + len(changes) <= MAX_CHANGES

    def add(self, event: Event, place: str | None) -> None:
        """Take the next event, in append order."""
        change = Change(
            position=self.first + self.events,
            event_id=event.id,
            place=place,
            author=event.author,
            moment=moment(event.timestamp),
        )
        self.events += 1
        for key in event.actions.state_delta:
            self._put(key, change)

    def x_of(self, change: Change) -> float:
        """Return the place of a change in the drawing, once all events were added."""
        return round(max(0, change.position - self.first + 1) * WIDTH / max(1, self.events), 1)

    def _put(self, key: str, change: Change) -> None:
        room = self.changes < MAX_CHANGES and (key in self.rows or len(self.rows) < MAX_KEYS)
        if not room:
            self.is_cut = True
            return
        self.rows.setdefault(key, []).append(change)
        self.changes += 1
