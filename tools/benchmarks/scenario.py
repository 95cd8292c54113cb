"""Say what is measured: scenarios, their subjects, and one step of each."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tools.benchmarks.lines import Line

Work: TypeAlias = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Step:
    """One operation, to be repeated."""

    work: Work
    """What is measured."""
    before: Work | None = None
    """What has to be done before each time and is not measured."""


Begin: TypeAlias = Callable[[Line], Awaitable[Step | None]]
"""Prepares an operation on a line; ``None`` where the subject is not measured there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One operation in one situation, for all who can do it."""

    name: str
    subjects: Mapping[str, Begin]
    share: float = 1.0
    """How many of the rounds that were asked for."""
    at_least: int = 3
    """Rounds that are made even where time has run out."""
    operations: int = 1
    """How many operations one step does; times and CPU are of one of them."""
    large: bool = False
    """Whether memory is measured."""
    timed: bool = True
    counted: bool = True
    counted_far: bool = False
    """Whether it is counted 20 ms away: how much goes in one commit depends on how long a commit takes."""
