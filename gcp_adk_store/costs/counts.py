"""Count the requests and documents of operations, those of memories too."""

import operator
from dataclasses import astuple, dataclass
from functools import cache
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


SEAL_BYTES: Final = 64 * 1024
"""Bytes of texts, and of vectors, that the head holds."""
FULL_SHARD_BYTES: Final = 4 * 1024 * 1024
FULL_PART_BYTES: Final = 900 * 1024
MERGED_PARTS_BYTES: Final = 2 * 1024 * 1024
KEY_BYTES: Final = 8
"""Bytes of a vector's row beside one for each dimension."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """What a turn does with the memories of its user."""

    known: int
    """Memories that the user has."""
    added: int = 0
    """Memories that the turn adds, in one call."""
    searches: float = 0
    memory_bytes: int = 500
    """UTF-8 bytes of a memory as it is stored."""
    dimensions: int = 0
    """Numbers in a vector; 0 without an embedder."""
    words: int = 5
    """Words of a query that ADK's service asks for."""
    matches: float = 10
    """Memories of the user that have one word of a query, on average."""


@dataclass(slots=True)
class _Sealed:
    """Documents that take in what the head has no room for, as the store writes them."""

    full: int
    """Bytes of a document that takes in no more."""
    merged: int
    """Bytes that are written again at a time."""
    largest: int
    """Bytes of one document."""
    fresh: int = 0
    sizes: tuple[int, ...] = ()
    writes: int = 0
    deletes: int = 0

    def add(self, size: int) -> None:
        """Add so many bytes by one commit."""
        self.fresh += size
        if self.fresh <= SEAL_BYTES:
            return
        grown, sizes = self.fresh, list(self.sizes)
        while sizes and sizes[-1] <= min(grown, self.full) and grown + sizes[-1] <= self.merged:
            grown += sizes.pop()
            self.deletes += 1
        self.fresh = 0
        while grown:
            sizes.append(min(grown, self.largest))
            grown -= sizes[-1]
            self.writes += 1
        self.sizes = tuple(sizes)


@cache
def _grown(known: int, added: int, memory_bytes: int, dimensions: int) -> tuple[_Sealed, _Sealed, int]:
    """Return shards and vectors of a user with *known* memories, and the commits that made them."""
    row = dimensions + KEY_BYTES
    shards = _Sealed(FULL_SHARD_BYTES, FULL_SHARD_BYTES, FULL_SHARD_BYTES)
    vectors = _Sealed(FULL_PART_BYTES * 9 // 10, MERGED_PARTS_BYTES, FULL_PART_BYTES // row * row)
    step = max(1, added)
    commits = max(1, known // step)
    for _ in range(commits if known else 0):
        shards.add(step * memory_bytes)
        if dimensions:
            vectors.add(step * row)
    return shards, vectors, commits


def store_recall(recall: Recall, *, cold: bool) -> Operations:
    """Return the operations of this store for one turn; of additions the mean over all of the user's.

    A search reads the head, and in a process that does not know the user, each sealed document. An addition
    is a write, and of such a process a read as of a search by words.
    """
    shards, vectors, commits = _grown(recall.known, recall.added, recall.memory_bytes, recall.dimensions)
    used = min(1.0, recall.searches)
    reads = recall.searches
    if cold:
        reads += used * (len(shards.sizes) + len(vectors.sizes))
        reads += (1 - used) * (1 + len(shards.sizes)) if recall.added else 0
    if not recall.added:
        return Operations(reads=reads)
    return Operations(
        reads=reads,
        writes=1 + (shards.writes + vectors.writes) / commits,
        deletes=(shards.deletes + vectors.deletes) / commits,
    )


def builtin_recall(recall: Recall) -> Operations:
    """Return the operations of ADK's ``FirestoreMemoryService``: a query for each word, a write a memory."""
    return Operations(
        reads=recall.searches * recall.words * max(1.0, recall.matches if recall.known else 0.0),
        writes=recall.added,
    )
