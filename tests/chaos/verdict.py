"""Say what a run's store holds, and which promises were not kept."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

LOST: Final = "lost"
DUPLICATED: Final = "duplicated"


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was not kept."""

    kind: str
    what: str
    """Ids, never content."""


@dataclass(slots=True)
class Verdict:
    """What was looked at, and what is wrong with it."""

    violations: list[Violation] = field(default_factory=list)
    stored: Counter[str] = field(default_factory=Counter)
    """How many sessions, events, memories, segments, payloads and versions there are."""
