"""Count the billed operations of turns and sessions, for this store and for the services that ADK ships."""

import operator
from dataclasses import astuple, dataclass
from typing import ClassVar, Final, Literal, TypeAlias

from gcp_adk_store.settings import SessionLimits

Scope = Literal["session", "user", "app"]

BUILTIN_ADK: Final = "2.13"
"""The release of ADK whose services are counted."""


@dataclass(frozen=True, slots=True)
class Operations:
    """Operations as Google bills them; a mean over turns has fractions."""

    reads: float = 0
    """Documents read, missing ones included; a query that finds none counts one."""
    writes: float = 0
    """Documents written."""
    deletes: float = 0
    """Documents deleted."""
    class_a: float = 0
    """Requests to Cloud Storage that write or list."""
    class_b: float = 0
    """Requests to Cloud Storage that read an object or its metadata."""

    @property
    def documents(self) -> float:
        """Operations on documents, all kinds together."""
        return self.reads + self.writes + self.deletes

    def __add__(self, other: "Operations") -> "Operations":
        return Operations(*map(operator.add, astuple(self), astuple(other)))

    def times(self, factor: float) -> "Operations":
        """Return these operations times *factor*."""
        return Operations(*(count * factor for count in astuple(self)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn: ADK's runner reads the session with all its events, then appends to it."""

    history: int
    """Events in the session before the turn."""
    events: int
    """Events that the turn appends."""
    event_bytes: int
    """UTF-8 bytes of an event as JSON."""
    scopes: frozenset[Scope] = frozenset()
    """Scopes of state that the turn changes, each in one of its events."""
    saves: float = 0
    """Artifacts that the turn saves, under new names, in one request each: up to 8 MiB."""
    loads: float = 0
    """Artifacts whose latest version the turn loads."""

    @property
    def shared_scopes(self) -> int:
        """Scopes with a document of their own."""
        return len(self.scopes - {"session"})


@dataclass(frozen=True, slots=True)
class StoreServices:
    """This store: the session document holds the tail, sealed segments hold older events."""

    segment_bytes: int = SessionLimits().seal_tail_bytes
    """``SessionLimits.seal_tail_bytes``."""
    name: ClassVar[str] = "gcp_adk_store"

    def segments(self, events: float, *, event_bytes: int) -> int:
        """Return how many segments are sealed after so many events of one size."""
        events_of_one = max(1, -(-self.segment_bytes // event_bytes))
        return int(events // events_of_one)

    def turn(self, turn: Turn, *, cold: bool) -> Operations:
        """Return the operations of one turn.

        A turn reads session, user and app, and the segments that the process does not know: all if it is
        *cold*, otherwise those sealed since its last read, one turn of as many events before. An append is
        a write, and one more for each of app and user state that it changes; a seal is a read and two writes.
        """

        def sealed(events: int) -> int:
            return self.segments(events, event_bytes=turn.event_bytes)

        known = 0 if cold else sealed(max(0, turn.history - turn.events))
        seals = sealed(turn.history + turn.events) - sealed(turn.history)
        return Operations(
            reads=3 + sealed(turn.history) - known + seals,
            writes=turn.events + turn.shared_scopes + 2 * seals,
            class_a=2 * turn.saves + turn.loads,
            class_b=turn.loads,
        )

    def create_session(self) -> Operations:
        """Return the operations of a creation: a write of the session, and a read of app and user state."""
        return Operations(reads=2, writes=1)

    def delete_session(self, events: float, *, event_bytes: int) -> Operations:
        """Return the operations of a deletion: those of the document, the segments and their note."""
        segments = self.segments(events, event_bytes=event_bytes)
        noted = bool(segments)
        return Operations(reads=2, writes=noted, deletes=1 + segments + noted)


class BuiltinServices:
    """ADK's ``FirestoreSessionService`` and ``GcsArtifactService``: a document for each event."""

    name: ClassVar[str] = f"ADK {BUILTIN_ADK}'s own"

    def turn(self, turn: Turn, *, cold: bool) -> Operations:  # noqa: ARG002  # it keeps nothing between turns
        """Return the operations of one turn, of a *cold* process or not.

        A turn reads session, user and app, and every event. An append reads the session and writes it and
        the event, and reads and writes each of app and user state that it changes.
        """
        return Operations(
            reads=3 + max(1, turn.history) + turn.events + turn.shared_scopes,
            writes=2 * turn.events + turn.shared_scopes,
            class_a=2 * turn.saves + turn.loads,
            class_b=2 * turn.loads,
        )

    def create_session(self) -> Operations:
        """Return the operations of a creation: a transaction that reads session, app and user."""
        return Operations(reads=3, writes=1)

    def delete_session(self, events: float, *, event_bytes: int) -> Operations:  # noqa: ARG002  # any size
        """Return the operations of a deletion: it marks the session, then reads and deletes every event."""
        return Operations(reads=1 + max(1, events), writes=1, deletes=1 + events)


Services: TypeAlias = StoreServices | BuiltinServices
"""A session service and an artifact service whose operations are counted."""
