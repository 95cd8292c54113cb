"""Decide which segments of a session hold its events: restores cut some off, and no number is used twice."""

from collections.abc import Iterable, Sequence

Cut = tuple[range, ...]
"""Numbers that restores cut off, in rising runs that neither overlap nor touch each other."""


def live_numbers(sealed: int, cut: Cut) -> Sequence[int]:
    """Return the numbers of the segments that hold a session's events, oldest first.

    The next segment takes the number *sealed*.
    """
    if not cut:
        return range(sealed)
    starts = (0, *(run.stop for run in cut))
    stops = (*(run.start for run in cut), sealed)
    return [number for start, stop in zip(starts, stops, strict=True) for number in range(start, stop)]


def newest_live(sealed: int, cut: Cut) -> int | None:
    """Return the number of the newest of these segments, ``None`` if the tail holds all events."""
    end = cut[-1].start if cut and cut[-1].stop == sealed else sealed
    return end - 1 if end else None


def is_cut(number: int, cut: Cut) -> bool:
    """Return whether a restore cut off *number*."""
    return any(number in run for run in cut)


def cut_from(first: int, *, sealed: int, cut: Cut) -> Cut:
    """Return what is cut off once all numbers from *first* on are, that of the tail, *sealed*, included.

    Runs that touch each other become one: a session has at most one run more than segments.
    """
    before = [run for run in cut if run.start < first]
    while before and before[-1].stop >= first:
        first = before.pop().start
    return (*before, range(first, sealed + 1))


def runs_of(numbers: Iterable[int]) -> Cut:
    """Return rising *numbers* as runs."""
    runs: list[range] = []
    for number in numbers:
        if runs and runs[-1].stop == number:
            runs[-1] = range(runs[-1].start, number + 1)
        else:
            runs.append(range(number, number + 1))
    return tuple(runs)


def are_runs(found: Iterable[range], *, sealed: int) -> bool:
    """Return whether *found* can be the numbers that were cut off before the number *sealed*."""
    end = -1
    for run in found:
        if not end < run.start < run.stop <= sealed:
            return False
        end = run.stop
    return True
