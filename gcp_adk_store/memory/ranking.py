"""Find the terms of a query and of memories, rank by them, and fuse two rankings.

The index grows text by text: a text that moves from one stored document to another stays indexed.
"""

import heapq
import math
import unicodedata
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

import regex

MAX_CHARACTERS: Final = 64 * 1024
"""A longer text is found by its beginning alone."""

GRAM: Final = 4
"""Characters of a part of a word. Questions inflect words: *book*, *booked* and *booking* share a part."""

_GRAM_MARK: Final = "\0"
"""Begins the parts of words, so that no part is taken for a word."""

_SEPARATE: Final = str.maketrans(
    {"ß": "ss", "ø": "o", "ł": "l", "đ": "d", "\u0131": "i", "æ": "ae", "œ": "oe"}
)


class _Patterns(NamedTuple):
    word: regex.Pattern[str]
    run: regex.Pattern[str]
    """Of scripts that put no spaces between words, and of Hangul."""
    accents: regex.Pattern[str]
    """And the vowel signs that Hebrew and Arabic are usually written without. The marks of other scripts are
    letters: without them, Hindi or Thai words would become others."""
    marks: regex.Pattern[str]
    """More than 30 of them, as in Unicode's Stream-Safe Text Format: normalization sorts a run of marks in a
    time that grows with the square of its length, and holds up the process. The two letters become marks."""


@cache
def _patterns() -> _Patterns:
    return _Patterns(
        regex.compile(r"[\p{L}\p{M}\p{N}]+"),
        regex.compile(
            r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\u30fc]+"
        ),
        regex.compile(r"[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670]+"),
        regex.compile(r"([\p{M}\uff9e\uff9f]{30})[\p{M}\uff9e\uff9f]+"),
    )


def terms_of(text: str) -> Counter[str]:
    """Return the terms of *text*, each with its number.

    Case, accents and the forms of one character do not count. Scripts that put no spaces between words, and
    Hangul, which joins endings to words, give pairs of characters. Other scripts give words, and the parts of
    four characters of longer words.
    """
    terms: Counter[str] = Counter()
    patterns = _patterns()
    for word in patterns.word.findall(fold(text[:MAX_CHARACTERS])):
        at = 0
        for run in patterns.run.finditer(word):
            _add_word(terms, word[at : run.start()])
            _add_run(terms, run[0])
            at = run.end()
        _add_word(terms, word[at:])
    return terms


def fold(text: str) -> str:
    """Return *text* without what a search does not distinguish: case, accents, width."""
    if text.isascii():
        return text.lower()
    patterns = _patterns()
    text = unicodedata.normalize("NFKD", patterns.marks.sub(r"\1", text))
    bare = patterns.accents.sub("", text).casefold().translate(_SEPARATE)
    return unicodedata.normalize("NFKC", patterns.marks.sub(r"\1", bare))  # runs around an accent are one now


def is_part(term: str) -> bool:
    """Return whether *term* is a part of a word."""
    return term.startswith(_GRAM_MARK)


def _add_word(terms: Counter[str], word: str) -> None:
    if not word:
        return
    terms[word] += 1
    if len(word) >= GRAM:
        for at in range(len(word) - GRAM + 1):
            terms[_GRAM_MARK + word[at : at + GRAM]] += 1


def _add_run(terms: Counter[str], run: str) -> None:
    if len(run) == 1:
        terms[run] += 1
    for at in range(len(run) - 1):
        terms[run[at : at + 2]] += 1


_K1: Final = 1.2
"""How fast repetitions of a term stop to count."""
_B: Final = 0.6
"""How much a long text counts less."""
_PART_WEIGHT: Final = 0.35
"""Weight of a part of a word; a word has 1. Some parts of one word count together."""
_DEAD_SHARE: Final = 0.25
"""Share of removed texts from which the index is built anew."""
_SCORED: Final = 10_000
"""Occurrences that one search scores, which take some milliseconds, rare terms first. The more frequent terms
only reorder the best texts that these find."""
_FEW: Final = 200
"""Texts of a term that is always scored."""
_COMPLETED: Final = 300
"""Best texts that the frequent terms reorder."""
_BYTES_PER_TERM: Final = 180
_BYTES_PER_POSTING: Final = 5
_BYTES_PER_TEXT: Final = 120


class Ranking:
    """An index of texts by number; calls must not overlap."""

    def __init__(self) -> None:
        # A term of one text is by far the most frequent kind: its number alone takes a tenth of the memory.
        self._once: dict[str, array[int] | int] = {}
        self._more: dict[str, list[tuple[int, int]]] = {}
        self._lengths: list[float] = []
        self._alive = bytearray()
        self._removed = 0
        self._total = 0.0
        self._postings = 0
        self._norms: list[float] = []

    def __len__(self) -> int:
        """Return how many texts can be found."""
        return len(self._lengths) - self._removed

    @property
    def size(self) -> int:
        """Bytes of memory, estimated."""
        terms = len(self._once) + len(self._more)
        return (
            terms * _BYTES_PER_TERM
            + self._postings * _BYTES_PER_POSTING
            + len(self._lengths) * _BYTES_PER_TEXT
        )

    def is_sparse(self, left: int) -> bool:
        """Return whether a new index is better where so many of its texts are *left*."""
        return left < (1 - _DEAD_SHARE) * len(self._lengths)

    def add(self, text: str) -> int:
        """Index *text*; return its number, which counts from 0."""
        number = len(self._lengths)
        length = 0.0
        for term, count in terms_of(text).items():
            length += count * (_PART_WEIGHT if is_part(term) else 1.0)
            self._postings += 1
            if count > 1:
                self._more.setdefault(term, []).append((number, count))
                continue
            known = self._once.get(term)
            if known is None:
                self._once[term] = number
            elif isinstance(known, int):
                self._once[term] = array("I", (known, number))
            else:
                known.append(number)
        self._lengths.append(length)
        self._alive.append(1)
        self._total += length
        self._norms = []
        return number

    def remove(self, number: int) -> None:
        """Let no search find the text of this *number*."""
        if self._alive[number]:
            self._alive[number] = 0
            self._removed += 1
            self._total -= self._lengths[number]
            self._norms = []

    def search(
        self, query: str, *, limit: int, accepts: Callable[[int], bool], min_score: float = 0.0
    ) -> list[tuple[float, int]]:
        """Return scores and numbers of the best texts that *accepts* takes, the best first.

        A score is the share of the query's weight that the text has: above 0 and below 1. Rare terms weigh
        more. Of equal scores, the newer text comes first.
        """
        norms = self._norms = self._norms or self._new_norms()
        weighed = [(self._holders(term), term) for term in terms_of(query)]
        weights = {term: self._weight(term, holders) for holders, term in weighed}
        whole = sum(weights.values()) * (_K1 + 1)
        rare, frequent = _split(sorted(weighed))
        scores = self._scores({term: weights[term] for term in rare}, norms)
        self._complete(scores, {term: weights[term] for term in frequent}, norms)
        ranked = [(score / whole, number) for number, score in scores.items() if self._alive[number]]
        found: list[tuple[float, int]] = []
        for score, number in _descending(ranked, limit):
            if score < min_score or len(found) == limit:
                break
            if accepts(number):
                found.append((score, number))
        return found

    def _holders(self, term: str) -> int:
        """Return how many texts hold *term*, removed ones included."""
        once = self._once.get(term, ())
        return (1 if isinstance(once, int) else len(once)) + len(self._more.get(term, ()))

    def _weight(self, term: str, holders: int) -> float:
        idf = math.log(1 + (max(len(self), holders) - holders + 0.5) / (holders + 0.5))
        return idf * (_PART_WEIGHT if is_part(term) else 1.0)

    def _scores(self, weights: Mapping[str, float], norms: Sequence[float]) -> dict[int, float]:
        """Return the scores of all texts that hold a term of *weights*."""
        scores: dict[int, float] = {}
        get = scores.get
        for term, weight in weights.items():
            once = self._once.get(term, ())
            top = weight * (_K1 + 1)
            for number in (once,) if isinstance(once, int) else once:
                scores[number] = get(number, 0.0) + top / (1 + norms[number])
            for number, count in self._more.get(term, ()):
                scores[number] = get(number, 0.0) + top * count / (count + norms[number])
        return scores

    def _complete(
        self, scores: dict[int, float], weights: Mapping[str, float], norms: Sequence[float]
    ) -> None:
        """Add to the best of *scores* what the frequent terms of *weights* give them."""
        if not weights:
            return
        best = heapq.nlargest(_COMPLETED, scores, key=scores.__getitem__)
        for term, weight in weights.items():
            once, more = self._once.get(term, ()), self._more.get(term, ())
            numbers = (once,) if isinstance(once, int) else once
            for number in best:
                count = 0
                at = bisect_left(numbers, number)
                if at < len(numbers) and numbers[at] == number:
                    count = 1
                else:
                    at = bisect_left(more, (number, 0))
                    if at < len(more) and more[at][0] == number:
                        count = more[at][1]
                scores[number] += weight * (_K1 + 1) * count / (count + norms[number])

    def _new_norms(self) -> list[float]:
        average = self._total / max(1, len(self)) or 1.0
        return [_K1 * (1 - _B + _B * length / average) for length in self._lengths]


def _split(weighed: Sequence[tuple[int, str]]) -> tuple[list[str], list[str]]:
    """Return the terms whose texts are all scored, and those that only add to the best of these.

    *weighed* has the number of texts of each term, in ascending order.
    """
    rare: list[str] = []
    texts = 0
    for holders, term in weighed:
        texts += holders
        if texts > _SCORED and rare and holders > _FEW:
            break
        if holders:
            rare.append(term)
    known = [term for holders, term in weighed if holders]
    return rare, known[len(rare) :]


def _descending(ranked: list[tuple[float, int]], limit: int) -> Iterable[tuple[float, int]]:
    """Yield *ranked* from the best down; the sort of all is needed only if a filter refuses many."""
    first = heapq.nlargest(limit, ranked)
    yield from first
    if len(first) < len(ranked):
        yield from sorted(ranked, reverse=True)[len(first) :]


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
