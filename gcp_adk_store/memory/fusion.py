"""Rank by words and by vectors together: pure functions."""

from collections.abc import Sequence
from typing import Final

DEPTH: Final = 100
"""Best texts of each ranking that count."""
VECTORS: Final = 0.35
"""Share of the vectors in a score; the words have the rest. With vectors that find fewer answers than words,
equal shares and reciprocal ranks lose answers that words alone find: docs/memory.md has the measurement."""


def fuse(
    by_words: Sequence[tuple[float, int]],
    by_vectors: Sequence[tuple[float, int]],
    *,
    vectors: float = VECTORS,
) -> list[tuple[float, int]]:
    """Return scores and numbers of all texts of both rankings, the best first.

    Each ranking has the best first, which counts 1 in it. By words, others count by their share of the best
    score, by vectors by their distance from the last one. A text that a ranking lacks counts 0 in it.
    """
    scores: dict[int, float] = {}
    for ranking, least, weight in (
        (by_words, 0.0, 1 - vectors),
        (by_vectors, by_vectors[-1][0] if len(by_vectors) > 1 else 0.0, vectors),
    ):
        width = (ranking[0][0] - least if ranking else 0.0) or 1.0
        for score, number in ranking:
            scores[number] = scores.get(number, 0.0) + weight * (score - least) / width
    return sorted(((score, number) for number, score in scores.items()), reverse=True)
