"""Decide how the memories of a user lie in documents, and which of them a search may return."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gcp_adk_store.model.json_values import is_equal

DIGEST_BYTES: Final = 8
"""Bytes that stand for the id of a memory. Of a million ids, two are taken for one with a chance of 1 to 37
million; then the second memory is not kept."""

SEAL_BYTES: Final = 64 * 1024
"""UTF-8 bytes of memories that the head holds before they become a shard."""

FULL_BYTES: Final = 4 * 1024 * 1024
"""UTF-8 bytes of memories in a full shard, which no longer grows."""

FULL_PACKED_BYTES: Final = 700 * 1024
"""The same for the shard's body and ids, which must fit a document."""


class _Ending:
    """What may have a time to live."""

    __slots__ = ()
    until: float | None

    def has_ended(self, now: float) -> bool:
        """Return whether its time to live is over."""
        return self.until is not None and self.until <= now


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory(_Ending):
    """What a search must know of a memory without its content."""

    id: str
    time: float
    """When it happened, as Unix time in seconds."""
    session: str | None = None
    author: str | None = None
    until: float | None = None
    """When it ends, as Unix time; ``None`` keeps it."""
    stamp: str | None = None
    """The time as the caller wrote it."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    life: str | None = None
    """Names its payloads; ``None`` without payloads."""
    excerpt: str | None = None
    """The beginning of its text, if the text lies in a payload."""

    @property
    def digest(self) -> bytes:
        """What stands for its id in the list of all ids that were ever taken in."""
        return digest_of(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(_Ending):
    """What the head says of a shard, or of a document of vectors."""

    number: int
    count: int
    """Memories in it, or rows."""
    size: int
    """UTF-8 bytes of its texts, or bytes of its rows."""
    packed: int = 0
    """Bytes of a shard's body and its ids; 0 for vectors."""
    until: float | None
    """When the last of its memories ends; ``None`` if one is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vectors:
    """What the head says of the vectors of a user's memories, all of one embedder.

    A row is 8 bytes that stand for the text of its memory, as it is stored, and one signed byte a dimension.
    """

    embedder: str = ""
    """The name of the embedder; empty if nothing was embedded."""
    dimensions: int = 0
    fresh: tuple[bytes, ...] = ()
    """The newest rows."""
    parts: tuple[Part, ...] = ()
    """From the oldest to the newest."""

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.fresh) + sum(part.count for part in self.parts)

    def is_of(self, embedder: str, dimensions: int) -> bool:
        """Return whether rows of this embedder may be among them."""
        return not self.embedder or (self.embedder, self.dimensions) == (embedder, dimensions)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryHead:
    """The head of a user's memories."""

    epoch: str
    revision: int = 0
    tail: tuple[str, ...] = ()
    """Texts of the newest memories."""
    gone: bytes = b""
    """Digests of the ids that were removed from the tail."""
    next_number: int = 0
    shards: tuple[Part, ...] = ()
    """From the oldest to the newest."""
    spilled: bool = False
    """Whether a memory has, or had, payloads."""
    until: float | None = None
    """When the last memory ends; ``None`` if one is kept."""
    is_ending: bool = False
    """Whether all memories are being removed."""
    vectors: Vectors = Vectors()
    update_time: str = ""
    """Empty if it is not stored."""
    read_time: float = 0.0

    @property
    def tail_bytes(self) -> int:
        """UTF-8 bytes of the texts in the tail."""
        return sum(len(text.encode()) for text in self.tail)

    @property
    def living(self) -> list[Part]:
        """The shards with a memory that has not ended."""
        return [shard for shard in self.shards if not shard.has_ended(self.read_time)]

    def has_ended(self) -> bool:
        """Return whether all of it is over, even if the document is still there."""
        return self.until is not None and self.until <= self.read_time


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFilter:
    """Which memories a search or a listing may return; a part that is ``None`` accepts all."""

    session_id: str | None = None
    author: str | None = None
    after: float | None = None
    """Unix time in seconds, inclusive."""
    before: float | None = None
    """Unix time in seconds, exclusive."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Keys and values that the memory's metadata must have; True is not 1."""

    def accepts(self, memory: Memory, *, now: float) -> bool:
        """Return whether *memory* fits and has not ended."""
        return (
            not memory.has_ended(now)
            and self.session_id in (None, memory.session)
            and self.author in (None, memory.author)
            and (self.after is None or memory.time >= self.after)
            and (self.before is None or memory.time < self.before)
            and all(
                name in memory.metadata and is_equal(memory.metadata[name], value)
                for name, value in self.metadata.items()
            )
        )


def digest_of(memory_id: str) -> bytes:
    """Return what stands for the id of a memory."""
    return hashlib.blake2b(memory_id.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()


def digests_in(joined: bytes) -> set[bytes]:
    """Return the digests that lie one after the other in *joined*."""
    return {joined[at : at + DIGEST_BYTES] for at in range(0, len(joined), DIGEST_BYTES)}


def row_key(text: str) -> bytes:
    """Return what stands for a memory's stored *text* in the row of its vector."""
    return digest_of(text)


def merged_with(
    parts: Sequence[Part], *, size: int, packed: int = 0, full: int = FULL_BYTES, most: int = FULL_BYTES
) -> list[Part]:
    """Return the newest of *parts* that a new one of *size* and *packed* bytes takes in, the oldest first.

    It takes in a neighbour that is no larger than what it has and is not *full*, up to *most* bytes. So the
    number of parts, and how often a memory is written again, grow as the logarithm of their bytes.
    """
    taken: list[Part] = []
    for part in reversed(parts):
        is_larger = part.size > min(size, full)
        if is_larger or size + part.size > most or packed + part.packed > FULL_PACKED_BYTES:
            break
        taken.insert(0, part)
        size += part.size
        packed += part.packed
    return taken


def end_of_all(tail: Sequence[Memory], shards: Sequence[Part], gone: bytes) -> float | None:
    """Return when the last memory of a user ends; ``None`` if one is kept, or the ids of removed ones are."""
    if gone or not (tail or shards):
        return None
    return last_end([end_of(tail), *(shard.until for shard in shards)])


def end_of(memories: Iterable[Memory]) -> float | None:
    """Return when the last of *memories* ends; ``None`` if one is kept."""
    return last_end(memory.until for memory in memories)


def last_end(ends: Iterable[float | None]) -> float | None:
    """Return the last of *ends*, where ``None`` is never; without any it is 0."""
    last = 0.0
    for end in ends:
        if end is None:
            return None
        last = max(last, end)
    return last
