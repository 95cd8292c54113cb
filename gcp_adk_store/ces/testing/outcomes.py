"""Hold what became of a test."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

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


_NAME: Final = 1000
_SHORT_NAME: Final = 100
_SAYS: Final = 20
_TEXT: Final = 16 * 1024
_ALL: Final = 1024 * 1024
"""Characters of a name, and of one beyond the last; texts of an outcome, characters of a text, and of all."""


def bounded(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return *outcomes* as reports show them: each text by its end, and about a megabyte of all.

    What code prints, and what test files report, can be as much as the sandbox lets out. Short texts come
    first, so that a flood leaves out none of the others.
    """
    kept = list(outcomes)
    left = _ALL
    for number in sorted(range(len(kept)), key=lambda number: sum(map(len, _texts(kept[number])))):
        each, texts = kept[number], []
        for text in _texts(each):
            texts.append(_end_of(text, min(_TEXT, left)))
            left = max(left - len(text), 0)
        *says, stdout = texts
        most = _NAME if left else _SHORT_NAME
        name, subject = each.name[:most], each.subject[:most]
        left = max(left - len(name) - len(subject), 0)
        kept[number] = replace(each, name=name, subject=subject, says=tuple(says), stdout=stdout)
    return kept


def _texts(outcome: Outcome) -> tuple[str, ...]:
    return (*outcome.says[:_SAYS], outcome.stdout)


def _end_of(text: str, most: int) -> str:
    cut = len(text) - most
    return text if cut <= 0 else f"[{cut:,} characters are left out]\n{text[cut:]}"
