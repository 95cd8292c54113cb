"""Collect the changes of a session's state, and lay them out by key and position."""

from collections.abc import Mapping
from dataclasses import dataclass
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
    x: float = 0.0
    """Its place in the drawing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A key with its changes."""

    key: str
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """The changes of a session's state by some of its events."""

    rows: tuple[Row, ...]
    first: int
    """The number of its first event, from 1 on."""
    events: int
    """How many it is of."""
    changes: int
    is_cut: bool
    """Whether there are more keys or changes than the matrix has."""


class MatrixCollector:
    """Takes events of a session one by one, and keeps no value."""

    def __init__(self, initial: Mapping[str, Any], *, first: int = 1) -> None:
        self._first = first
        self._events = 0
        self._changes = 0
        self._is_cut = False
        self._rows: dict[str, list[Change]] = {}
        for key in initial:
            self._put(key, Change(position=0, event_id="", place=None, author="creation", moment=""))

    def has_room(self, changes: Mapping[str, Any]) -> bool:
        """Return whether the matrix has room for the changes of the next event.

        It takes its first event in any case, so that each matrix comes farther than the one before.
        """
        return not self._events or self._changes + len(changes) <= MAX_CHANGES

    def add(self, event: Event, place: str | None) -> None:
        """Take the next event, in append order."""
        position = self._first + self._events
        self._events += 1
        for key in event.actions.state_delta:
            change = Change(
                position=position,
                event_id=event.id,
                place=place,
                author=event.author,
                moment=moment(event.timestamp),
            )
            self._put(key, change)

    def _put(self, key: str, change: Change) -> None:
        room = self._changes < MAX_CHANGES and (key in self._rows or len(self._rows) < MAX_KEYS)
        if not room:
            self._is_cut = True
            return
        self._rows.setdefault(key, []).append(change)
        self._changes += 1

    def matrix(self) -> Matrix:
        """Return the matrix of the events that were added."""
        step = WIDTH / max(1, self._events)
        return Matrix(
            rows=tuple(
                Row(
                    key=key,
                    changes=tuple(
                        Change(
                            position=each.position,
                            event_id=each.event_id,
                            place=each.place,
                            author=each.author,
                            moment=each.moment,
                            x=round(max(0, each.position - self._first + 1) * step, 1),
                        )
                        for each in changes
                    ),
                )
                for key, changes in sorted(self._rows.items())
            ),
            first=self._first,
            events=self._events,
            changes=self._changes,
            is_cut=self._is_cut,
        )
