"""What a process knows of a user's memories, and how similar they are to a query."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from gcp_adk_store.codec.memories import decode_memory, searchable_text
from gcp_adk_store.codec.memory_documents import ShardContent
from gcp_adk_store.errors import EmbedderError
from gcp_adk_store.imports import how_to_install
from gcp_adk_store.memory.ranking import DEPTH, Ranking, fuse
from gcp_adk_store.model.memories import DIGEST_BYTES, Memory, MemoryFilter, MemoryHead, digests_in, row_key

if TYPE_CHECKING:
    import numpy as np

    Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]
    Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

_LARGEST: Final = 127
_AT_ONCE: Final = 256
"""Rows that become floats at a time: those of 768 dimensions stay in the processor's cache."""
_BATCH: Final = 64
"""Rows that a search looks at before it asks for the next: a filter may refuse some."""


@cache
def require_numpy() -> Any:
    """Return numpy.

    Raises:
        ModuleNotFoundError: it is not installed; the message has the command that installs it.
    """
    try:
        import numpy  # noqa: ICN001, PLC0415  # of an extra, where it is used
    except ModuleNotFoundError as exc:
        raise ModuleNotFoundError(
            f"vectors of memories need the package numpy: {how_to_install('vectors')}", name="numpy"
        ) from exc
    return numpy


def quantized(
    vectors: Sequence[Sequence[float]], *, count: int, dimensions: int, embedder: str
) -> list[bytes]:
    """Return the directions of *vectors* as one signed byte a dimension.

    Raises:
        EmbedderError: they are not *count* vectors of *dimensions* finite numbers.
    """
    numpy = require_numpy()
    wanted = f"it must return {count} vectors of {dimensions} numbers"
    if not isinstance(vectors, Sized):
        raise EmbedderError(f"the embedder {embedder} returned {type(vectors).__name__}; {wanted}")
    if len(vectors) != count:
        raise EmbedderError(f"the embedder {embedder} returned {len(vectors)} vectors; {wanted}")
    try:
        given: Floats = numpy.asarray(vectors, dtype=numpy.float64)
    except (TypeError, ValueError, OverflowError):
        raise EmbedderError(f"the embedder {embedder} returned no vectors of one length; {wanted}") from None
    if given.shape != (count, dimensions):
        found = given.shape[1] if given.ndim > 1 else "no"
        raise EmbedderError(f"the embedder {embedder} returned vectors of {found} numbers; {wanted}")
    if not numpy.isfinite(given).all():
        raise EmbedderError(f"the embedder {embedder} returned NaN or infinity; {wanted}, all finite")
    largest = numpy.abs(given).max(axis=1, keepdims=True)
    scaled = given / numpy.where(largest > 0, largest, 1)
    return [row.tobytes() for row in numpy.rint(scaled * _LARGEST).astype(numpy.int8)]


class Similarity:
    """The vectors of one user's memories, by the numbers of their texts in the index."""

    def __init__(self) -> None:
        self._blocks: dict[int, tuple[Any, Any, Any]] = {}
        """Number of a document -> rows, numbers of texts, and one divided by the length of each row."""
        self._fresh: Sequence[bytes] = ()
        self._last: tuple[Any, Any, Any] | None = None
        self._numbers: Any = None
        """Of the texts of all rows; -1 for a row without a text, and for one of a text that has another."""
        self._dimensions = 0

    def follow(
        self,
        parts: Mapping[int, bytes],
        fresh: Sequence[bytes],
        dimensions: int,
        number_of: Callable[[bytes], int | None],
    ) -> None:
        """Hold the rows in *parts* and *fresh*; *number_of* returns the number of a text by the row's key."""
        if dimensions != self._dimensions:
            self._blocks, self._dimensions, self._fresh, self._last = {}, dimensions, (), None
        self._blocks = {
            number: self._blocks.get(number) or self._block(body, number_of) for number, body in parts.items()
        }
        if self._fresh != fresh or self._last is None:
            self._fresh, self._last = fresh, self._block(b"".join(fresh), number_of)
        numpy = require_numpy()
        numbers: Numbers = numpy.concatenate([each for _, each, _ in (*self._blocks.values(), self._last)])
        _, first = numpy.unique(numbers, return_index=True)
        self._numbers = numpy.full_like(numbers, -1)
        self._numbers[first] = numbers[first]

    @property
    def count(self) -> int:
        """Number of texts that have a vector."""
        return int((self._numbers >= 0).sum())

    def nearest(self, query: bytes, *, limit: int, accepts: Callable[[int], bool]) -> list[tuple[float, int]]:
        """Return cosines and numbers of the *limit* texts nearest to *query* that *accepts* takes."""
        numpy = require_numpy()
        direction = numpy.frombuffer(query, dtype=numpy.int8).astype(numpy.float32)
        length = float(numpy.sqrt(direction @ direction))
        blocks = [*self._blocks.values(), *([self._last] if self._last is not None else [])]
        if not length or not blocks:
            return []
        cosines: Floats = numpy.concatenate([_products(rows, direction) * norms for rows, _, norms in blocks])
        numbers = self._numbers
        cosines[numbers < 0] = -1
        found: list[tuple[float, int]] = []
        for at in _descending(cosines, limit):
            if len(found) == limit or cosines[at] <= 0:
                break
            if accepts(int(numbers[at])):
                found.append((float(cosines[at]) / length, int(numbers[at])))
        return found

    def _block(self, body: bytes, number_of: Callable[[bytes], int | None]) -> tuple[Any, Any, Any]:
        numpy = require_numpy()
        rows = numpy.frombuffer(body, dtype=numpy.int8).reshape(-1, DIGEST_BYTES + self._dimensions)
        size = DIGEST_BYTES + self._dimensions
        found = (number_of(body[at : at + DIGEST_BYTES]) for at in range(0, len(body), size))
        numbers = numpy.fromiter((-1 if each is None else each for each in found), dtype=numpy.int64)
        vectors = rows[:, DIGEST_BYTES:]
        lengths = numpy.sqrt(numpy.einsum("ij,ij->i", vectors, vectors, dtype=numpy.float32))
        return vectors, numbers, (1 / numpy.maximum(lengths, 1)).astype(numpy.float32)


def _products(rows: Any, direction: Any) -> Any:
    numpy = require_numpy()
    parts = [
        rows[at : at + _AT_ONCE].astype(numpy.float32) @ direction for at in range(0, len(rows), _AT_ONCE)
    ]
    return numpy.concatenate(parts) if parts else numpy.zeros(0, dtype=numpy.float32)


def _descending(cosines: Any, limit: int) -> Any:
    """Yield positions of *cosines* from the greatest down; it sorts all only if many are refused."""
    numpy = require_numpy()
    first = min(len(cosines), limit + _BATCH)
    top = numpy.argpartition(-cosines, first - 1)[:first] if first else []
    yield from sorted((int(at) for at in top), key=lambda at: (-cosines[at], at))
    if first < len(cosines):
        yield from numpy.argsort(-cosines, kind="stable")[first:]


_BYTES_PER_MEMORY: Final = 1200
"""Objects of one memory beside its text, roughly."""
_LIGHT_TEXTS: Final = 1000
_LIGHT_CHARACTERS: Final = 4096
"""A search looks for so many characters in so many texts in a few milliseconds."""


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

    def is_light(self, snapshot: Snapshot, query: str) -> bool:
        """Return whether a search takes a few milliseconds: *snapshot* is small, and its index is there.

        It does not while another one is under way: it waits for that.
        """
        is_small = len(self._texts) < _LIGHT_TEXTS and len(query) <= _LIGHT_CHARACTERS
        return is_small and self._indexed is snapshot and not self._guard.locked()

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
            texts = self._texts
            hits = [Hit(text=texts[number], memory=self._at(number), score=score) for score, number in found]
            return Found(hits=hits, without_vector=without)

    def _at(self, number: int) -> Memory:
        return self._memories[self._texts[number]][1]

    def _follow(self, snapshot: Snapshot) -> None:
        """Index what *snapshot* has more, and forget what it lacks."""
        if self._indexed is snapshot:
            return
        if self._indexed is not None and self._indexed.head.epoch != snapshot.head.epoch:
            self._similarity = Similarity()  # numbers of documents begin anew
        current = set(snapshot.texts)
        for text in [text for text in self._memories if text not in current]:
            self._ranking.remove(self._memories.pop(text)[0])
            self._keys.pop(row_key(text), None)
        if self._ranking.is_sparse(len(self._ranking)):
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
