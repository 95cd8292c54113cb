"""Hold the memories of one user in this process: what is stored, and the index over it."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from gcp_adk_store.codec.memories import decode_memory, searchable_text
from gcp_adk_store.codec.memory_documents import ShardContent
from gcp_adk_store.memory.fusion import DEPTH, fuse
from gcp_adk_store.memory.ranking import Ranking
from gcp_adk_store.memory.similarity import Similarity
from gcp_adk_store.model.memories import Memory, MemoryFilter, MemoryHead, digests_in, row_key

_BYTES_PER_MEMORY: Final = 1200
"""Objects of one memory beside its text, roughly."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The memories of a user at one time."""

    head: MemoryHead
    shards: Mapping[int, ShardContent]
    """Without those that had ended before."""
    vectors: Mapping[int, bytes] = field(default_factory=dict)
    """Rows by the number of their document, as far as they were read. One that cannot be read is empty."""

    @property
    def is_empty(self) -> bool:
        """Whether all of them have ended or are being removed: the next one begins anew."""
        return self.head.is_ending or self.head.has_ended()

    @property
    def has_vectors(self) -> bool:
        """Whether all documents of vectors were read."""
        return all(part.number in self.vectors for part in self.head.vectors.parts)

    @cached_property
    def texts(self) -> Sequence[str]:
        """The texts of all memories, from the oldest addition to the newest."""
        if self.is_empty:
            return ()
        sealed = (self.shards[shard.number] for shard in self.head.shards if shard.number in self.shards)
        return [*(text for content in sealed for text in content.texts), *self.head.tail]

    @cached_property
    def known(self) -> frozenset[bytes]:
        """Digests of all ids that were taken in, also of removed memories."""
        if self.is_empty:
            return frozenset()
        known = {decode_memory(text).digest for text in self.head.tail} | digests_in(self.head.gone)
        for content in self.shards.values():
            known |= digests_in(content.ids)
        return frozenset(known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A memory that a search found."""

    text: str
    memory: Memory
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search found, and over what."""

    hits: Sequence[Hit]
    without_vector: int
    """Memories that have words, and were ranked by these alone."""


@dataclass(kw_only=True)
class Contents:
    """The newest snapshot that this process knows, and an index that follows it; safe from any thread."""

    snapshot: Snapshot
    _memories: dict[str, tuple[int, Memory]] = field(default_factory=dict)
    """Text -> its number in the ranking, and what it says of the memory."""
    _texts: list[str] = field(default_factory=list)
    _ranking: Ranking = field(default_factory=Ranking)
    _keys: dict[bytes, int] = field(default_factory=dict)
    """What stands for a text with words in the row of its vector -> its number."""
    _similarity: Similarity = field(default_factory=Similarity)
    _indexed: Snapshot | None = None
    _guard: threading.Lock = field(default_factory=threading.Lock)

    @property
    def size(self) -> int:
        """Bytes of memory, estimated."""
        shards = sum(shard.size + shard.packed for shard in self.snapshot.head.shards)
        vectors = self.snapshot.head.vectors
        rows = sum(map(len, (*self.snapshot.vectors.values(), *vectors.fresh)))
        return shards + rows + self._ranking.size + len(self._texts) * _BYTES_PER_MEMORY

    @property
    def is_light(self) -> bool:
        """Whether a search takes little more than a millisecond."""
        return len(self._texts) + len(self.snapshot.head.tail) < 1000 and (  # noqa: PLR2004  # measured
            self._indexed is not None or not self.snapshot.head.shards
        )

    def search(
        self,
        snapshot: Snapshot,
        query: str,
        *,
        limit: int,
        accepts: MemoryFilter,
        min_score: float,
        now: float,
        direction: bytes | None = None,
    ) -> Found:
        """Return the best memories of *snapshot* that have not ended *now*, the best first.

        With *direction*, the vector of *query*, the words and the vectors rank together.
        """

        def fits(number: int) -> bool:
            return accepts.accepts(self._at(number), now=now)

        with self._guard:
            self._follow(snapshot)
            without = len(self._keys)
            if direction is None:
                found = self._ranking.search(query, limit=limit, min_score=min_score, accepts=fits)
            else:
                vectors = snapshot.head.vectors
                self._similarity.follow(snapshot.vectors, vectors.fresh, vectors.dimensions, self._keys.get)
                without -= self._similarity.count
                depth = max(limit, DEPTH)
                by_words = self._ranking.search(query, limit=depth, accepts=fits)
                by_vectors = self._similarity.nearest(direction, limit=depth, accepts=fits)
                fused = fuse(by_words, by_vectors)
                found = [each for each in fused if each[0] >= min_score][:limit]
            hits = [
                Hit(text=self._texts[number], memory=self._at(number), score=score) for score, number in found
            ]
            return Found(hits=hits, without_vector=without)

    def _at(self, number: int) -> Memory:
        return self._memories[self._texts[number]][1]

    def _follow(self, snapshot: Snapshot) -> None:
        """Index what *snapshot* has more, and forget what it lacks."""
        if self._indexed is snapshot:
            return
        current = set(snapshot.texts)
        for text in [text for text in self._memories if text not in current]:
            self._ranking.remove(self._memories.pop(text)[0])
            self._keys.pop(row_key(text), None)
        if self._ranking.is_sparse:
            self._ranking, self._memories, self._texts = Ranking(), {}, []
            self._keys, self._similarity = {}, Similarity()
        for text in snapshot.texts:
            if text not in self._memories:
                memory = decode_memory(text)
                words = searchable_text(text, memory)
                number = self._ranking.add(words)
                self._memories[text] = number, memory
                if words.strip():
                    self._keys[row_key(text)] = number
                self._texts.append(text)
        self._indexed = snapshot


def decoded(texts: Iterable[str]) -> list[Memory]:
    """Return what *texts* say of their memories."""
    return [decode_memory(text) for text in texts]
