"""Show what a bounded memory of values keeps, and what it forgets."""

import pytest

from gcp_adk_store.kernel.concurrency import Lru


@pytest.fixture
def cache() -> Lru[str, str]:
    """Texts of 100 characters together."""
    return Lru(100, size_of=len)


def known(cache: Lru[str, str]) -> str:
    """Return the keys whose values *cache* has, without a use of them that it would count."""
    return "".join(sorted(cache._known))


def test_the_least_recently_used_is_forgotten_first(cache: Lru[str, str]) -> None:
    """As many as it takes to stay within the bound."""
    for key in "abc":
        cache.put(key, "x" * 33)
    cache.get("a")
    cache.put("d", "x" * 60)

    assert "ad" == known(cache)


def test_without_sizes_the_values_are_counted() -> None:
    """A capacity of 0 keeps none."""
    three, none = Lru[int, str](3), Lru[int, str](0)
    for number in range(5):
        three.put(number, "x")
        none.put(number, "x")

    assert [2, 3, 4] == [number for number in range(5) if three.get(number)]
    assert [] == [number for number in range(5) if none.get(number)]


def test_one_that_does_not_fit_is_not_kept(cache: Lru[str, str]) -> None:
    """And drives nothing out."""
    cache.put("a", "x" * 100)
    cache.put("b", "x" * 101)

    assert "a" == known(cache)


def test_putting_again_counts_once(cache: Lru[str, str]) -> None:
    """The last value counts."""
    for size in (90, 10, 50):
        cache.put("a", "x" * size)
    cache.put("b", "y" * 50)

    assert "ab" == known(cache)
    assert "x" * 50 == cache.get("a")


def test_what_is_forgotten_leaves_room(cache: Lru[str, str]) -> None:
    """The keys that are meant, and no others."""
    for key in "abc":
        cache.put(key, "x" * 30)
    cache.forget(lambda key: key in "ab")
    cache.put("d", "x" * 70)

    assert "cd" == known(cache)
