"""Run a scenario in many orders, and show the shortest schedule that breaks it."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import pytest

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.testing.simulation.faults import Faults
from gcp_adk_store.testing.simulation.world import Scenario, World

T = TypeVar("T")

_SHOWN_LINES: Final = 60
"""Lines at the end of a trace that an error shows."""

_MOST_TRIES: Final = 200
"""Runs that look for a shorter schedule."""

_VERDICTS: Final = (Exception, asyncio.CancelledError, pytest.fail.Exception)
"""What a scenario raises if something is wrong. ``pytest.raises`` fails with what is no ``Exception``."""


class ScheduleError(AssertionError):
    """A schedule broke what its scenario asserts.

    Attributes:
        seed: The seed that decides it.
        faults: Names of the requests that meet a fault in it.
        steps: Numbers of the steps that it takes.
        trace: What happened in the shortest schedule that breaks it, in order.
    """

    def __init__(
        self, message: str, *, seed: int, faults: Sequence[str], steps: Sequence[int], trace: Sequence[str]
    ) -> None:
        super().__init__(message)
        self.seed = seed
        self.faults = tuple(faults)
        self.steps = tuple(steps)
        self.trace = tuple(trace)


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What many schedules of one scenario did."""

    schedules: int
    counts: Counter[tuple[str, str]]
    """Requests by what they do and what became of them."""
    digest: str
    """The SHA-256 of the last trace, in hex digits."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """A schedule that failed."""

    exc: BaseException
    world: World


def simulate(
    scenario: Scenario,
    *,
    seeds: Iterable[int] = range(100),
    faults: Faults | None = None,
    repeat: str = "",
    on_progress: Callable[[int], object] | None = None,
) -> Simulated:
    """Run *scenario* once for each of *seeds*, each in a new world.

    A schedule that fails runs again with fewer faults and fewer steps, as long as it fails in the same way.

    Args:
        scenario: A coroutine function that gets the :class:`World`, and raises if something is wrong.
        seeds: Each decides one schedule.
        faults: How often requests fail; without it, none does.
        repeat: A command that repeats one seed, in which ``{seed}`` stands for it; an error names it.
        on_progress: Called with the number of schedules so far.

    Raises:
        ScheduleError: the first schedule that fails; it names the seed, and shows what happened.
        InvalidInputError: *seeds* is empty.
    """
    counts: Counter[tuple[str, str]] = Counter()
    digest = ""
    number = 0
    for number, seed in enumerate(seeds, start=1):
        world = World(seed, faults)
        failure = _run(scenario, world)
        if failure is not None:
            raise _error(scenario, faults, failure, repeat) from failure.exc
        counts += world.fates.counts
        digest = world.digest
        if on_progress is not None:
            on_progress(number)
    if not number:
        raise InvalidInputError(
            "no schedule ran, which shows nothing: give one seed, or one schedule, at least"
        )
    return Simulated(schedules=number, counts=counts, digest=digest)


def _run(scenario: Scenario, world: World) -> _Failure | None:
    try:
        world.run(scenario)
    except _VERDICTS as exc:
        return _Failure(exc, world)
    return None


def _error(scenario: Scenario, faults: Faults | None, failure: _Failure, repeat: str) -> ScheduleError:
    seed = failure.world.seed
    short = _shortened(scenario, faults, failure)
    trace, exc = short.world.trace, short.exc
    again = repeat.replace("{seed}", str(seed)) if repeat else f"simulate(..., seeds=[{seed}])"
    shown = trace[-_SHOWN_LINES:]
    left = f"({len(trace) - len(shown)} lines before)\n" if len(shown) < len(trace) else ""
    return ScheduleError(
        f"seed {seed}: {type(exc).__name__}: {exc}\n"
        f"again: {again}\n"
        f"with {len(short.world.fates.happened)} of {len(failure.world.fates.happened)} faults and "
        f"{len(short.world.taken)} of {len(failure.world.taken)} steps:\n{left}" + "\n".join(shown),
        seed=seed,
        faults=short.world.fates.happened,
        steps=short.world.taken,
        trace=trace,
    )


def _shortened(scenario: Scenario, faults: Faults | None, failure: _Failure) -> _Failure:
    """Return a schedule that fails in the same way with as few steps and faults as leaving out finds."""
    steps, best, tries = _fewest(
        failure.world.taken,
        lambda steps: _again(scenario, faults, failure, steps=steps, happened=None),
        failure,
        _MOST_TRIES // 2,
    )
    _, best, _ = _fewest(
        best.world.fates.happened,
        lambda happened: _again(scenario, faults, failure, steps=steps, happened=happened),
        best,
        _MOST_TRIES - tries,
    )
    return best


def _again(
    scenario: Scenario,
    faults: Faults | None,
    failure: _Failure,
    *,
    steps: Sequence[int],
    happened: Sequence[str] | None,
) -> _Failure | None:
    """Return the failure of the schedule with these steps and faults alone, if it is of the same kind."""
    world = World(failure.world.seed, faults, only_faults=happened, only_steps=steps)
    found = _run(scenario, world)
    return found if found is not None and _kind(found.exc) == _kind(failure.exc) else None


def _kind(exc: BaseException) -> tuple[type[BaseException], str, int | None]:
    """Return what the same failure has in common in two runs: its type, and where it was raised."""
    raised = exc.__traceback__
    while raised is not None and raised.tb_next is not None:
        raised = raised.tb_next
    return (
        (type(exc), "", None)
        if raised is None
        else (type(exc), raised.tb_frame.f_code.co_filename, raised.tb_lineno)
    )


def _fewest(
    items: Sequence[T], fails: Callable[[Sequence[T]], _Failure | None], best: _Failure, tries: int
) -> tuple[Sequence[T], _Failure, int]:
    """Leave out as many of *items* as possible so that it still *fails*; return how many tries it took."""
    tried = 0
    size = len(items) // 2 or len(items)
    while size:
        start = 0
        while start < len(items) and tried < tries:
            fewer = [*items[:start], *items[start + size :]]
            tried += 1
            found = fails(fewer)
            if found is None:
                start += size
            else:
                items, best = fewer, found
        size //= 2
    return items, best, tried
