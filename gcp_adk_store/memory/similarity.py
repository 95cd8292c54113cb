"""Compare vectors of signed bytes, in memory; numpy is imported by those that use vectors alone."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from gcp_adk_store.errors import EmbedderError
from gcp_adk_store.imports import how_to_install
from gcp_adk_store.model.memories import DIGEST_BYTES

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

    @property
    def count(self) -> int:
        """Number of texts that have a vector."""
        blocks = [*self._blocks.values(), *([self._last] if self._last is not None else [])]
        return sum(int((numbers >= 0).sum()) for _, numbers, _ in blocks)

    def nearest(self, query: bytes, *, limit: int, accepts: Callable[[int], bool]) -> list[tuple[float, int]]:
        """Return cosines and numbers of the *limit* texts nearest to *query* that *accepts* takes."""
        numpy = require_numpy()
        direction = numpy.frombuffer(query, dtype=numpy.int8).astype(numpy.float32)
        length = float(numpy.sqrt(direction @ direction))
        blocks = [*self._blocks.values(), *([self._last] if self._last is not None else [])]
        if not length or not blocks:
            return []
        cosines: Floats = numpy.concatenate([_products(rows, direction) * norms for rows, _, norms in blocks])
        numbers: Numbers = numpy.concatenate([each for _, each, _ in blocks])
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
