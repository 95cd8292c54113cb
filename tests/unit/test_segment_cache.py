"""Show what the cache of segments keeps, and what it forgets."""

from gcp_adk_store.model.sessions import Segment
from gcp_adk_store.sessions.segment_cache import SegmentCache


def segment(size: int) -> Segment:
    """Return a segment of so many bytes."""
    return Segment(texts=["x" * size], running_max=1.0)


def test_what_was_put_is_there() -> None:
    """Under its own path."""
    cache = SegmentCache(100)
    one = segment(10)
    cache.put("a", one)

    assert one is cache.get("a")
    assert cache.get("b") is None


def test_the_least_recently_used_is_forgotten_first() -> None:
    """As many as it takes to stay within the bound."""
    cache = SegmentCache(100)
    for path in "abc":
        cache.put(path, segment(33))
    cache.get("a")
    cache.put("d", segment(60))

    assert ["a", "d"] == [path for path in "abcd" if cache.get(path) is not None]


def test_one_that_does_not_fit_is_not_kept() -> None:
    """And drives nothing out."""
    cache = SegmentCache(100)
    cache.put("a", segment(100))
    cache.put("b", segment(101))

    assert ["a"] == [path for path in "ab" if cache.get(path) is not None]


def test_bytes_are_counted_not_characters() -> None:
    """What a text takes as UTF-8."""
    cache = SegmentCache(100)
    cache.put("a", Segment(texts=["ü" * 51], running_max=1.0))

    assert cache.get("a") is None


def test_putting_again_counts_once() -> None:
    """Two readers may have fetched the same segment."""
    cache = SegmentCache(100)
    for _ in range(5):
        cache.put("a", segment(50))
    cache.put("b", segment(50))

    assert ["a", "b"] == [path for path in "ab" if cache.get(path) is not None]
