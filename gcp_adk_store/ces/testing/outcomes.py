"""Hold what became of a test."""

from dataclasses import dataclass
from typing import Literal

Status = Literal["passed", "failed", "error", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one test."""

    path: str
    """Of the file with the test."""
    line: int
    """Counted from 1."""
    name: str
    subject: str
    """The tool, or the callback and its agent."""
    status: Status
    """``error`` where it could not be run, as of a test that is none."""
    says: tuple[str, ...] = ()
    """What is wrong, each thing in its own text."""
    stdout: str = ""
    """What the code printed."""
    duration_s: float = 0.0
