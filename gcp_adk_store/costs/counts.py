"""Say what a workload is, and count the requests and documents of its operations, those of memories too."""

import math
import operator
from dataclasses import dataclass, fields
from functools import cache
from typing import ClassVar, Final, Literal, TypeAlias

from gcp_adk_store.errors import InvalidInputError, require_number
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
        return Operations(*map(operator.add, _each(self), _each(other)))

    def times(self, factor: float) -> "Operations":
        """Return these operations times *factor*."""
        return Operations(*(count * factor for count in _each(self)))


_each = operator.attrgetter(*(field.name for field in fields(Operations)))
"""Its numbers, in order."""


BOUNDS: Final[dict[str, tuple[float, float]]] = {
    "turns_per_day": (1, 1e9),
    "events_per_turn": (1, 1_000),
    "history": (0, 100_000),
    "event_bytes": (1, 256 * 1024),  # a larger event becomes a payload
    "artifacts_per_turn": (0, 1_000),
    "artifact_loads_per_turn": (0, 1_000),
    "artifact_bytes": (0, 8 * 2**20),  # a larger upload takes more requests
    "sessions_per_day": (0.001, 1e9),
    "retention_days": (1, 36_500),
    "cold_share": (0, 1),
    "memories": (0, 100_000),
    "memories_per_turn": (0, 1_000),
    "searches_per_turn": (0, 1_000),
    "memory_bytes": (1, 48 * 1024),  # a larger one becomes a payload
    "vector_dimensions": (0, 4096),
    "query_words": (1, 1_000),
    "word_matches": (0, 100_000),
    "turn_seconds": (0.01, 86_400),
}
"""The least and the greatest value of each number of :class:`Workload`."""
_WHOLE: Final = frozenset(
    {"events_per_turn", "history", "event_bytes", "artifact_bytes"}
    | {"memories", "memories_per_turn", "memory_bytes", "vector_dimensions", "query_words"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The use of agents, the same every day.

    Raises:
        InvalidInputError: a number is outside of its :data:`BOUNDS`, or a scope is unknown.
    """

    turns_per_day: float
    events_per_turn: int
    history: int
    """Events that a session has before a turn, on average over the turns."""
    event_bytes: int = 600
    scopes: frozenset[Scope] = frozenset()
    """Scopes of state that each turn changes, once."""
    artifacts_per_turn: float = 0
    """Artifacts that each turn saves."""
    artifact_loads_per_turn: float = 0
    artifact_bytes: int = 100_000
    sessions_per_day: float | None = None
    """New sessions a day; by default as many as conversations of :attr:`conversation_turns` need."""
    retention_days: float = 30
    """Days from the creation of a session to its deletion, with its artifacts."""
    cold_share: float = 1
    """The share of turns in processes that do not know the session, nor its user's memories; by default the
    worst, 1."""
    memories: int = 0
    """Memories that a user has."""
    memories_per_turn: int = 0
    """Memories that each turn adds, in one call."""
    searches_per_turn: float = 0
    """Searches of the user's memories in each turn."""
    memory_bytes: int = 500
    """UTF-8 bytes of a memory as it is stored."""
    vector_dimensions: int = 0
    """Numbers in the vector of a memory; 0 without an embedder."""
    query_words: int = 5
    """Words of a query that ADK's service asks for."""
    word_matches: float = 10
    """Memories of a user that have one word of a query, on average: ADK's service reads them."""
    turn_seconds: float = 10
    """Seconds from the message of a turn to its last event."""

    def __post_init__(self) -> None:
        for name, (least, most) in BOUNDS.items():
            value = getattr(self, name)
            kinds, kind = (int, "a whole number") if name in _WHOLE else ((int, float), "a number")
            if value is None and name == "sessions_per_day":
                continue
            if isinstance(value, int):
                require_number(name, value)
            if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= most:
                says = f"it must be {kind} from {least:,.12g} to {most:,.12g}"
                raise InvalidInputError(f"{name} is {value!r}, {says}")
        if unknown := sorted(self.scopes - {"session", "user", "app"}):
            raise InvalidInputError(f"scopes has {unknown[0]!r}, it may have 'session', 'user' and 'app'")

    @property
    def conversation_turns(self) -> int:
        """Turns of a conversation whose turns find :attr:`history` events on average, rounded."""
        return max(1, math.floor(2 * self.history / self.events_per_turn + 1.5))

    @property
    def new_sessions(self) -> float:
        """Sessions that are created, and deleted, in a day."""
        given = self.sessions_per_day
        return self.turns_per_day / self.conversation_turns if given is None else given

    @property
    def of_a_turn(self) -> tuple[int, float, float]:
        """Events, artifacts that are saved, and artifacts that are loaded."""
        return self.events_per_turn, self.artifacts_per_turn, self.artifact_loads_per_turn

    @property
    def shared_scopes(self) -> int:
        """Scopes that a turn changes with a document of their own."""
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

    def turn(self, workload: Workload, history: int, *, cold: bool) -> Operations:
        """Return the operations of a turn before which the session has so many events.

        A turn reads session, user and app, and the segments that the process does not know: all if it is
        *cold*, otherwise those sealed since its last read, one turn of as many events before. An append is
        a write, and one more for each of app and user state that it changes; a seal is a read and two writes.
        """

        def sealed(events: int) -> int:
            return self.segments(events, event_bytes=workload.event_bytes)

        events, saves, loads = workload.of_a_turn
        known = 0 if cold else sealed(max(0, history - events))
        seals = sealed(history + events) - sealed(history)
        return Operations(
            reads=3 + sealed(history) - known + seals,
            writes=events + workload.shared_scopes + 2 * seals,
            class_a=2 * saves + loads,
            class_b=2 * loads,
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

    def turn(self, workload: Workload, history: int, *, cold: bool) -> Operations:  # noqa: ARG002  # keeps nothing
        """Return the operations of a turn before which the session has so many events, *cold* or not.

        A turn reads session, user and app, and every event. An append reads the session and writes it and
        the event, and reads and writes each of app and user state that it changes.
        """
        events, saves, loads = workload.of_a_turn
        return Operations(
            reads=3 + max(1, history) + events + workload.shared_scopes,
            writes=2 * events + workload.shared_scopes,
            class_a=2 * saves + loads,
            class_b=2 * loads,
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


@dataclass(slots=True)
class _Sealed:
    """Documents that take in what the head has no room for, as the store writes them."""

    full: int
    """Bytes of a full document: what follows goes into another one."""
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


def store_recall(workload: Workload, *, cold: bool) -> Operations:
    """Return the operations of this store for memories in one turn; of additions the mean over all.

    A search reads the head, and in a process that does not know the user, each sealed document. An addition
    is a write, and of such a process a read as of a search by words.
    """
    added, searches = workload.memories_per_turn, workload.searches_per_turn
    shards, vectors, commits = _grown(
        workload.memories, added, workload.memory_bytes, workload.vector_dimensions
    )
    used = min(1.0, searches)
    reads = searches
    if cold:
        reads += used * (len(shards.sizes) + len(vectors.sizes))
        reads += (1 - used) * (1 + len(shards.sizes)) if added else 0
    if not added:
        return Operations(reads=reads)
    return Operations(
        reads=reads,
        writes=1 + (shards.writes + vectors.writes) / commits,
        deletes=(shards.deletes + vectors.deletes) / commits,
    )


def builtin_recall(workload: Workload) -> Operations:
    """Return the operations of ADK's ``FirestoreMemoryService``: a query for each word, a write a memory."""
    return Operations(
        reads=workload.searches_per_turn
        * workload.query_words
        * max(1.0, workload.word_matches if workload.memories else 0.0),
        writes=workload.memories_per_turn,
    )
