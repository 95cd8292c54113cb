"""Collect the changes of a session's state, and lay them out by key and position."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from google.adk.events import Event

from gcp_adk_store.inspector.conversation import moment
from gcp_adk_store.inspector.masking import json_text

MAX_KEYS: Final = 200
"""Keys of one matrix."""

MAX_CHANGES: Final = 5_000
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
    """The changes of a session's state."""

    rows: tuple[Row, ...]
    events: int
    changes: int
    is_cut: bool
    """Whether there are more keys or changes than the matrix has."""


class MatrixCollector:
    """Takes the events of a session one by one, and keeps no value."""

    def __init__(self, initial: Mapping[str, Any]) -> None:
        self._events = 0
        self._changes = 0
        self._is_cut = False
        self._rows: dict[str, list[Change]] = {}
        for key in initial:
            self._put(key, Change(position=0, event_id="", place=None, author="creation", moment=""))

    def add(self, event: Event, place: str | None) -> None:
        """Take the next event, in append order."""
        self._events += 1
        for key in event.actions.state_delta:
            change = Change(
                position=self._events,
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
                            x=round(each.position * step, 1),
                        )
                        for each in changes
                    ),
                )
                for key, changes in sorted(self._rows.items())
            ),
            events=self._events,
            changes=self._changes,
            is_cut=self._is_cut,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChange:
    """The value of one key before and after one event."""

    key: str
    before: str | None
    """As JSON; ``None`` if it had no value, or an unknown one."""
    after: str | None
    position: int
    event: Event | None
    place: str | None


class KeyFollower:
    """Follows one key through the events of a session, up to the event that is asked for."""

    def __init__(self, key: str, event_id: str, initial: Mapping[str, Any]) -> None:
        self._key = key
        self._event_id = event_id
        self._position = 0
        self._value = json_text(initial[key]) if key in initial else None
        self._found = None if event_id else self._change(None, self._value, None, None)

    def found(self) -> KeyChange | None:
        """Return the change, once its event was added; that of the creation from the start."""
        return self._found

    def add(self, event: Event, place: str | None) -> None:
        """Take the next event, in append order."""
        self._position += 1
        delta = event.actions.state_delta
        if self._key not in delta:
            return
        before, self._value = self._value, json_text(delta[self._key])
        if event.id == self._event_id:
            self._found = self._change(before, self._value, event, place)

    def _change(
        self, before: str | None, after: str | None, event: Event | None, place: str | None
    ) -> KeyChange:
        return KeyChange(
            key=self._key, before=before, after=after, position=self._position, event=event, place=place
        )
