"""Points in the history of a session, and redactions of its events."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from gcp_adk_store.errors import InvalidInputError, PointMissingError, require_number

MAX_REASON: Final = 500
"""The most characters of a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redaction:
    """What a redaction replaced and removed, or what it would."""

    app_name: str
    user_id: str
    session_id: str
    event_id: str
    is_dry_run: bool
    is_new: bool
    """Whether this call redacts the event; ``False`` if an earlier one did."""
    positions: tuple[int, ...]
    """Numbers of the events with this id, from 0."""
    sha256: tuple[str, ...]
    """Hash of each of them, in hex digits: what the marker keeps."""
    audit_id: str
    """Id of the event that reports the redaction; empty in a dry run, and if there was nothing to redact."""
    payloads: int
    """Payloads that nothing refers to any more, and that were removed."""
    state_keys: tuple[str, ...]
    """Keys, with their prefixes, whose recorded values went with the event."""
    state_kept: tuple[str, ...]
    """Those of them that still have the value that the event gave them."""
    state_removed: tuple[str, ...]
    """Those that had it, and are ``None`` now."""
    title_removed: bool
    """Whether the title repeated a text of the event, and was removed."""
    compactions: tuple[str, ...]
    """Ids of events that summarise others of the event's time, perhaps also this one."""
    memories: tuple[str, ...] = ()
    """Ids of memories that were made of the event."""
    memories_removed: bool = False
    """Whether these were removed."""


def require_reason(reason: object) -> str:
    """Return why an event is redacted.

    Raises:
        InvalidInputError: it is not one line of 1 to 500 characters.
    """
    if isinstance(reason, str) and reason.strip() and reason.isprintable() and len(reason) <= MAX_REASON:
        return reason
    raise InvalidInputError(
        f"reason must be one line of 1 to {MAX_REASON} characters, such as a ticket's number"
    )


def repeats(title: str | None, texts: Iterable[str]) -> bool:
    """Return whether a session's *title* is part of one of *texts*, without regard to case and spaces."""
    name = " ".join((title or "").casefold().split()).rstrip("\u2026.")
    return bool(name) and any(name in " ".join(text.casefold().split()) for text in texts)


class PastEvent(Protocol):
    """What a point needs to know of an event."""

    @property
    def id(self) -> str:
        """The event's id."""
        ...

    @property
    def invocation_id(self) -> str:
        """The id of the turn that appended it."""
        ...

    @property
    def timestamp(self) -> float:
        """Unix time in seconds."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A point between two events of a session, before the first or after the last; make one by its methods.

    It keeps the events before it, in append order.
    """

    _position: int | None = None
    _event_id: str | None = None
    _invocation_id: str | None = None
    _time: datetime | None = None

    @classmethod
    def position(cls, count: int) -> "Point":
        """Return the point after the first *count* events.

        Raises:
            InvalidInputError: *count* is not an integer of 0 or more.
        """
        require_number("a position", count)
        if type(count) is not int or count < 0:
            raise InvalidInputError("a position is an integer of 0 or more, the number of events to keep")
        return cls(_position=count)

    @classmethod
    def after_event(cls, event_id: str) -> "Point":
        """Return the point after the event of this id; after the first of them, if several have it.

        Raises:
            InvalidInputError: *event_id* is not text.
        """
        return cls(_event_id=_text(event_id, what="event_id"))

    @classmethod
    def before_invocation(cls, invocation_id: str) -> "Point":
        """Return the point before the first event of a turn, as ADK's ``rewind_async`` takes it.

        Raises:
            InvalidInputError: *invocation_id* is not text.
        """
        return cls(_invocation_id=_text(invocation_id, what="invocation_id"))

    @classmethod
    def as_of(cls, time: datetime) -> "Point":
        """Return the last point before any event that has a timestamp after *time*.

        The timestamps are the events' own, and may be out of order: no later event than the first one after
        *time* is kept. Each session has this point; before its first event, it keeps none.

        Raises:
            InvalidInputError: *time* is not a datetime with a time zone.
        """
        if not _has_zone(time):
            raise InvalidInputError(
                "a point in time is a datetime with a time zone, such as datetime.now(UTC)"
            )
        return cls(_time=time)

    def kept(self, events: Sequence[PastEvent], *, skipped: int = 0) -> int:
        """Return how many of *events* this point keeps: all of a session but the first *skipped*.

        Raises:
            PointMissingError: the session does not have this point, or it is among the first *skipped*.
        """
        if self._position is not None:
            if self._position > skipped + len(events):
                raise PointMissingError(
                    f"the session has {skipped + len(events)} events, the point is after {self._position}"
                )
            return max(0, self._position - skipped)
        for place, event in enumerate(events):
            if self._event_id is not None and event.id == self._event_id:
                return place + 1
            if self._invocation_id is not None and event.invocation_id == self._invocation_id:
                return place
            if self._time is not None and event.timestamp > self._time.timestamp():
                return place
        if self._time is not None:
            return len(events)
        what = "event" if self._event_id is not None else "invocation"
        of = f"the session's newest {len(events)} events; its first {skipped} are archived"
        there = of if skipped else f"the session's {len(events)} events"
        raise PointMissingError(f"none of {there} has the {what} id of the point")


def require_point(at: object, *, name: str = "at") -> None:
    """Require that *at*, which errors call *name*, is a point; otherwise raise ``InvalidInputError``."""
    if not isinstance(at, Point):
        raise InvalidInputError(f"{name} must be a Point, such as Point.position(0), not {type(at).__name__}")


def last_values(deltas: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the last value that *deltas*, in append order, give to each key."""
    values: dict[str, Any] = {}
    for delta in deltas:
        values.update(delta)
    return values


def keys_of_initial(kept: Mapping[str, Any], later: Mapping[str, Any]) -> set[str]:
    """Return the keys that have their initial value at a point, and another one now.

    *kept* and *later* hold the values that the events before and after the point give to keys.
    """
    return later.keys() - kept.keys()


def state_at(
    now: Mapping[str, Any],
    *,
    kept: Mapping[str, Any],
    later: Mapping[str, Any],
    initial: Mapping[str, Any],
) -> dict[str, Any]:
    """Return a session's state at a point.

    A key that no event after the point changed has its value of *now*. Any other has the last value that the
    events before the point gave it, or else its *initial* one.
    """
    unset = keys_of_initial(kept, later)
    state = {key: value for key, value in now.items() if key not in later}
    state.update((key, value) for key, value in kept.items() if key in later)
    state.update((key, value) for key, value in initial.items() if key in unset)
    return state


def _has_zone(time: object) -> bool:
    return isinstance(time, datetime) and time.utcoffset() is not None


def _text(value: str, *, what: str) -> str:
    if not isinstance(value, str):
        raise InvalidInputError(f"{what} must be a string, not {type(value).__name__}")
    return value
