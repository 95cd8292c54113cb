"""Describe whether the events of a session are those that were appended."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryBreak:
    """Where the events of a session stop being proven: those before are as they were appended."""

    position: int
    """Number of the first event that is not proven, from 0; the hash chain has a value for runs of events."""
    last: int
    """Number of the last event of its run; below *position* if the run is missing or empty."""
    event_id: str
    """Id of the first event that is not proven; empty if it is missing or cannot be read."""
    path: str
    """The document that holds it: ids, never content."""
    says: str
    """What is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryProof:
    """What the hash chain of a session proves."""

    app_name: str
    user_id: str
    session_id: str
    events: int
    """Number of stored events."""
    unchained: int
    """Events at the begin that the chain does not cover: those of a session from format 1."""
    head: str
    """The head of the chain after the last event, in hex digits; empty without a chain. Keep it with *events*
    outside of the store, and pass both to a later call: then nobody can rewrite the events unnoticed."""
    broken: HistoryBreak | None
    """The first place that is not proven; ``None`` if all events are."""
