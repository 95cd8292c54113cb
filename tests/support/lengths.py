"""How long tests are: in a short form as a rule, in their long one with ``--long``."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

import pytest

T = TypeVar("T")


class Lengths:
    """Of this run; ``tests/conftest.py`` sets it before it imports a test."""

    are_long = False


def at_length(short: T, long: T) -> T:
    """Return the one that this run is for."""
    return long if Lengths.are_long else short


def of_long_runs(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield the tests that run with ``--long`` alone.

    These are tests with the mark ``long``, and most cases of a test with ``sample(count)``: *count* of its
    cases run always, spread evenly from its first on. Each test of a class with the mark counts by itself.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("long"):
            yield item
        elif item.get_closest_marker("sample"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for of_one in cases.values():
        (count,) = of_one[0].get_closest_marker("sample").args  # type: ignore[union-attr]  # it has one
        kept = {number * len(of_one) // count for number in range(count)}
        yield from (item for number, item in enumerate(of_one) if number not in kept)
