"""Vectors of texts without a model: what tests and the benchmark embed with.

Each pair and triple of characters of a word has a dimension and a sign, by a hash. So the vectors of texts
with common parts of words are alike, in any language, and the same in every process. Such vectors know less
than a model's: they find no synonym.
"""

import hashlib
import unicodedata
from collections.abc import Sequence
from functools import cache

from gcp_adk_store.kernel.ports import EmbeddingKind


class PartsEmbedder:
    """Counts parts of words; it answers at once."""

    def __init__(self, dimensions: int = 256, name: str = "parts of words") -> None:
        """Make vectors of so many *dimensions*."""
        self.name = name
        self.dimensions = dimensions
        self.calls: list[tuple[EmbeddingKind, int]] = []
        """Kind and number of texts of each call."""

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> list[list[float]]:
        """Return a vector for each of *texts*."""
        self.calls.append((kind, len(texts)))
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self.dimensions
        for word in unicodedata.normalize("NFKD", text).casefold().split():
            for at in range(len(word) + 1):
                for size in (2, 3):
                    where = _hash(f" {word} "[at : at + size])
                    vector[where % self.dimensions] += 1.0 if where >> 63 else -1.0
        return vector


@cache
def _hash(part: str) -> int:
    return int.from_bytes(hashlib.blake2b(part.encode("utf-8", "surrogatepass"), digest_size=8).digest())
