"""Count the billed operations of memories, for this store and for the service that ADK ships."""

from dataclasses import dataclass
from functools import cache
from typing import Final

from gcp_adk_store.costs.counts import Operations

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
