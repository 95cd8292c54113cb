"""What became of tests, and how much a report shows. The process of pytest imports this, and so no ADK."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Final, Literal, Self

Status = Literal["passed", "failed", "error", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Where one test is, and what it is about."""

    path: str
    """Of the file with the test."""
    line: int
    """Counted from 1."""
    name: str
    subject: str
    """The tool, the callback and its agent, or the file of an evaluation."""

    def ended(self, status: Status, says: Iterable[str], *, stdout: str, began: float) -> "Outcome":
        """Return what became of it; *began* is by ``time.perf_counter``."""
        where = {each.name: getattr(self, each.name) for each in fields(Case)}
        took = time.perf_counter() - began
        return Outcome(**where, status=status, says=tuple(says), stdout=stdout, duration_s=took)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Case):
    """What became of one test."""

    status: Status
    """``error`` if the test could not run, for example because it is malformed."""
    says: tuple[str, ...] = ()
    """What is wrong, each thing in its own text."""
    stdout: str = ""
    """What the code printed."""
    duration_s: float = 0.0

    @classmethod
    def of_file(cls, path: str, says: str, *, line: int = 1) -> Self:
        """Return the error of a file that has no test which could run."""
        return cls(path=path, line=line, name="the file", subject="", status="error", says=(says,))


_OUTCOMES: Final = 10_000
"""Of a report; those beyond are counted."""
_ORDER: Final = ("failed", "error", "skipped", "passed")
_NAME: Final = 1000
_SAYS: Final = 20
_TEXT: Final = 16 * 1024
_SHORTEST: Final = 16
_ALL: Final = 1024 * 1024
"""Characters of a name; texts of an outcome, characters of one, the least of one, and of all."""


def bounded(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return *outcomes* as reports show them: the first 10,000, each text by its end, a megabyte of all.

    What code prints, and what test files report, can be as much as the sandbox lets out. All texts have one
    limit, by which a flood loses its beginning and leaves out none of the others. Tests that failed go before
    those that did not. The last outcome counts those that are left out, and failed if one of them did.
    """
    kept = list(outcomes)
    if len(kept) > _OUTCOMES:
        by_status = sorted(range(len(kept)), key=lambda number: _ORDER.index(kept[number].status))
        left_out = (f"[{len(kept) - _OUTCOMES:,} tests are left out]",)
        others = replace(kept[by_status[_OUTCOMES]], name="others", says=left_out, stdout="")
        kept = [*(kept[number] for number in sorted(by_status[:_OUTCOMES])), others]
    texts = [text for each in kept for text in (each.name, each.subject, *_texts(each))]
    most = _TEXT
    while most > _SHORTEST and sum(min(len(text), most) for text in texts) > _ALL:
        most //= 2
    return [_cut(each, most) for each in kept]


def _texts(outcome: Outcome) -> tuple[str, ...]:
    more = len(outcome.says) - _SAYS
    said = (*outcome.says[:_SAYS], f"[{more:,} more are left out]") if more > 0 else outcome.says
    return (*said, outcome.stdout)


def _cut(outcome: Outcome, most: int) -> Outcome:
    """Return *outcome* with the last *most* characters of each text, and the first of its names."""
    *says, stdout = (_end_of(text, most) for text in _texts(outcome))
    name, subject = (name[: min(most, _NAME)] for name in (outcome.name, outcome.subject))
    return replace(outcome, name=name, subject=subject, says=tuple(says), stdout=stdout)


def _end_of(text: str, most: int) -> str:
    cut = len(text) - most
    return text if cut <= 0 else f"[{cut:,} characters are left out]\n{text[cut:]}"
