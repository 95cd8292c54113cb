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
    """``error`` if the test could not run, for example because it is malformed."""
    says: tuple[str, ...] = ()
    """What is wrong, each thing in its own text."""
    stdout: str = ""
    """What the code printed."""
    duration_s: float = 0.0
