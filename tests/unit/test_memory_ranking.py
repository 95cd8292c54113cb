"""Terms of text in any script, and how texts are ranked by them and by vectors."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gcp_adk_store import GenaiEmbedder, MemoryService, Store
from gcp_adk_store.memory.contents import Similarity, quantized
from gcp_adk_store.memory.ranking import VECTORS, Ranking, fuse, is_part, terms_of
from tests.memory.conftest import without_numpy
from tests.support.lengths import at_length


def words(text: str) -> list[str]:
    """Return the terms of *text* without parts of words."""
    return sorted(term for term in terms_of(text) if not is_part(term))


def found(texts: list[str], query: str) -> list[str]:
    """Return those of *texts* that a search finds, the best first."""
    ranking = Ranking()
    for text in texts:
        ranking.add(text)
    return [texts[number] for _, number in ranking.search(query, limit=10, accepts=lambda _: True)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I took the Train, at 10!", ["10", "at", "i", "the", "took", "train"]),
        ("Zürich ZURICH Zu\u0308rich", ["zurich"]),
        ("Straße STRASSE", ["strasse"]),
        ("Ελλάδα ΕΛΛΑΔΑ", ["ελλαδα"]),
        ("Ёлка елка", ["елка"]),
        ("مُحَمَّد محمد", ["محمد"]),
        ("हिन्दी", ["हिन्दी"]),
        ("ＡＢＣ ﬁn", ["abc", "fin"]),
        ("東京都", ["京都", "東京"]),
        ("犬", ["犬"]),
        ("カタカナ コーヒー", ["カナ", "カタ", "コー", "タカ", "ヒー", "ーヒ"]),
        ("한국어", ["국어", "한국"]),
        ("ภาษาไทย", ["ทย", "ภา", "ษา", "าษ", "าไ", "ไท"]),
        ("私はPythonを使う", ["python", "を使", "使う", "私は"]),
        ("\ud800 half", ["half"]),
        ("", []),
        ("!?… 🎉", []),
    ],
)
def test_text_of_any_script_has_terms(text: str, expected: list[str]) -> None:
    """Case, accents, width and vowel signs that are usually left out do not count; other marks do."""
    assert sorted(expected) == [*dict.fromkeys(words(text))]


def test_of_a_run_of_marks_the_first_thirty_count() -> None:
    """To sort them, as Unicode does, takes a time that grows with the square of their number."""
    assert ["x" + "\u20d0" * 30] == words("x" + "\u20d0" * 31)
    assert ["a"] == words("a" + "\u0301" * 30_000 + "\u0323" * 30_000)


@pytest.mark.parametrize(
    ("marks", "more"),
    [
        pytest.param("\u20d0" * 30, "\u0640\u20d0", id="runs that join where a letter is left out"),
        pytest.param("\uff9e" * 30, "\u20d0\uff9e", id="letters that are marks in normal form"),
    ],
)
def test_a_run_of_marks_of_which_some_are_letters_is_as_short(marks: str, more: str) -> None:
    """Runs that only normalization, or a search, makes take as long."""
    assert words("x" + marks) == words("x" + marks + more * 10_000)


def test_long_words_have_parts() -> None:
    """Four characters each, which no word is taken for."""
    assert {"booking", "\0book", "\0ooki", "\0okin", "\0king"} == set(terms_of("booking"))
    assert set(terms_of("book")) & set(terms_of("booking")) == {"\0book"}


def test_a_search_returns_as_many_as_it_is_asked_for() -> None:
    """Those that are accepted, also when most are not."""
    ranking = Ranking()
    for number in range(100):
        ranking.add(f"tea {number}")
    accepted = ranking.search("tea", limit=5, accepts=lambda number: number % 10 == 3)

    assert [93, 83, 73, 63, 53] == [number for _, number in accepted]
    assert 100 == len(ranking.search("tea", limit=200, accepts=lambda _: True))


def test_a_removed_text_is_not_found() -> None:
    """Nor does it count; many removed texts make the index sparse."""
    ranking = Ranking()
    for text in ("green tea", "black tea", "coffee"):
        ranking.add(text)
    ranking.remove(0)
    ranking.remove(0)

    assert [1] == [number for _, number in ranking.search("tea", limit=9, accepts=lambda _: True)]
    assert 2 == len(ranking)
    assert ranking.is_sparse(len(ranking))


def test_frequent_words_only_reorder_when_there_are_many_texts() -> None:
    """A search stays fast, and still prefers the text with all words."""
    ranking = Ranking()
    for number in range(6000):
        ranking.add(f"the and of with {'saw' if number % 2 else 'met'} number{number}")
    best = ranking.search("the and of with saw number4001", limit=1, accepts=lambda _: True)

    assert 4001 == best[0][1]


def test_the_score_is_the_formula_of_the_page() -> None:
    """Of docs/memory.md, term by term."""
    texts = ["book a flight to Zurich", "booking of a hotel, booking of a car", "tea"]
    query = "booking flights"

    def weight(term: str) -> float:
        return 0.35 if is_part(term) else 1.0

    def idf(term: str) -> float:
        holders = sum(term in terms_of(text) for text in texts)
        return weight(term) * math.log(1 + (len(texts) - holders + 0.5) / (holders + 0.5))

    def length(text: str) -> float:
        return sum(count * weight(term) for term, count in terms_of(text).items())

    mean = sum(map(length, texts)) / len(texts)
    expected = [
        sum(idf(t) * terms_of(text)[t] / (terms_of(text)[t] + k) for t in terms_of(query))
        / sum(idf(t) for t in terms_of(query))
        for text in texts
        for k in [1.2 * (0.4 + 0.6 * length(text) / mean)]
    ]
    ranking = Ranking()
    for text in texts:
        ranking.add(text)
    scores = {number: score for score, number in ranking.search(query, limit=9, accepts=lambda _: True)}

    assert {number: pytest.approx(score) for number, score in enumerate(expected) if score} == scores
    assert {0, 1} == scores.keys()


def test_a_missing_extra_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the memory of a store with an embedder is asked for, not when the package is imported."""
    with monkeypatch.context() as patch:
        without_numpy(patch)
        store = Store.local(":memory:", embedder=GenaiEmbedder())
        with pytest.raises(ModuleNotFoundError, match=r"\[vectors\]"):
            _ = store.memory
    assert isinstance(store.memory, MemoryService)


numbers = st.floats(-1e6, 1e6, allow_nan=False, width=32)


@settings(max_examples=at_length(10, 30))
@given(st.data(), st.integers(1, 12), st.integers(1, 300), st.integers(1, 40))
def test_the_nearest_are_those_of_floats(
    data: st.DataObject, dimensions: int, count: int, limit: int
) -> None:
    """In their order, as far as one byte a number shows; refused ones are left out."""
    seed = data.draw(st.integers(0, 2**32 - 1))
    made = np.random.default_rng(seed)
    vectors = made.standard_normal((count, dimensions))
    query = made.standard_normal(dimensions)
    rows = quantized(vectors.tolist(), count=count, dimensions=dimensions, embedder="e")
    keyed = [number.to_bytes(8) + row for number, row in enumerate(rows)]
    half = count // 2
    near = Similarity()
    near.follow({1: b"".join(keyed[:half])}, keyed[half:], dimensions, int.from_bytes)
    (asked,) = quantized([query.tolist()], count=1, dimensions=dimensions, embedder="e")
    found = near.nearest(asked, limit=limit, accepts=lambda number: number % 3 != 0)

    cosines = vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
    assert all(abs(cosines[number] - score) < 0.03 for score, number in found)
    assert sorted((score for score, _ in found), reverse=True) == [score for score, _ in found]
    better = [n for n in range(count) if n % 3 and cosines[n] > 0.03]
    assert len(found) >= min(limit, len(better))
    assert len(found) <= limit
    assert all(number % 3 for _, number in found)
    if len(found) == limit:
        worst = found[-1][0]
        assert {n for n in better if cosines[n] > worst + 0.06} <= {number for _, number in found}


@settings(max_examples=at_length(15, 50))
@given(st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=1, max_size=5))
def test_the_length_of_a_vector_does_not_count(vectors: list[list[float]]) -> None:
    """A vector and twice the vector are stored alike, in one byte a number; zeros stay zeros."""
    rows = quantized(vectors, count=len(vectors), dimensions=3, embedder="e")
    twice = [[2 * number for number in vector] for vector in vectors]

    assert rows == quantized(twice, count=len(vectors), dimensions=3, embedder="e")
    assert all(len(row) == 3 for row in rows)
    assert all((row == bytes(3)) == (not any(vector)) for row, vector in zip(rows, vectors, strict=True))


def test_words_and_vectors_are_fused_by_the_rule() -> None:
    """The best of each counts 1; a text that one of them lacks counts 0 in it."""
    fused = {number: score for score, number in fuse([(0.8, 1), (0.4, 2)], [(0.9, 2), (0.5, 3), (0.1, 4)])}

    assert {
        1: pytest.approx(1 - VECTORS),
        2: pytest.approx((1 - VECTORS) / 2 + VECTORS),
        3: pytest.approx(VECTORS / 2),
        4: 0,
    } == fused
    assert [] == fuse([], [])
    assert [(1.0, 7)] == [(round(score, 9), number) for score, number in fuse([(0.1, 7)], [(0.2, 7)])]
