"""Hold what became of tests, and which statements of an app they ran."""

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
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


_OUTCOMES: Final = 10_000
"""Of a report; those beyond are counted."""
_ORDER: Final = ("failed", "error", "skipped", "passed")
_NAME: Final = 1000
_SHORT_NAME: Final = 100
_SAYS: Final = 20
_TEXT: Final = 16 * 1024
_ALL: Final = 1024 * 1024
"""Characters of a name, and of one beyond the last; texts of an outcome, characters of a text, and of all."""


def bounded(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return *outcomes* as reports show them: the first 10,000, each text by its end, a megabyte of all.

    What code prints, and what test files report, can be as much as the sandbox lets out. Short texts come
    first, so that a flood leaves out none of the others, and so do tests that failed. The last outcome counts
    those that are left out, and failed if one of them did.
    """
    found = list(outcomes)
    kept = found
    if len(found) > _OUTCOMES:
        by_status = sorted(range(len(found)), key=lambda number: _ORDER.index(found[number].status))
        kept = [found[number] for number in sorted(by_status[:_OUTCOMES])]
        told = (f"[{len(found) - _OUTCOMES:,} tests are left out]",)
        kept.append(replace(found[by_status[_OUTCOMES]], name="others", says=told, stdout=""))
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
    more = len(outcome.says) - _SAYS
    said = (*outcome.says[:_SAYS], f"[{more:,} more are left out]") if more > 0 else outcome.says
    return (*said, outcome.stdout)


def _end_of(text: str, most: int) -> str:
    cut = len(text) - most
    return text if cut <= 0 else f"[{cut:,} characters are left out]\n{text[cut:]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCoverage:
    """The statements of one file, by the numbers of their first lines."""

    path: str
    statements: tuple[int, ...]
    ran: tuple[int, ...]
    """Those of them that ran."""

    @property
    def missing(self) -> tuple[int, ...]:
        """Those that did not run."""
        return tuple(sorted({*self.statements} - {*self.ran}))

    @property
    def percent(self) -> float:
        """How many of 100 ran; 100 of a file without a statement."""
        return 100 * len(self.ran) / len(self.statements) if self.statements else 100.0


class Coverage:
    """Lines that ran, of files that are known before any code runs.

    Untrusted code reports the lines. It can report any line of its own file, and nothing of another file.
    """

    def __init__(self, files: Iterable[Path]) -> None:
        """Measure *files*; those that are not Python have no statements."""
        self._statements = {path: _statements(_text(path)) for path in dict.fromkeys(files)}
        self._ran: dict[Path, set[int]] = {path: set() for path in self._statements}
        self._same = {path.resolve(): path for path in self._statements}

    def note(self, file: str | Path, lines: Iterable[int]) -> None:
        """Note that *lines* of *file* ran; unknown files and lines without a statement do not count."""
        path = self._same.get(Path(file).resolve())
        if path is not None:
            starts = self._statements[path]
            self._ran[path].update(starts[line] for line in lines if line in starts)

    def files(self) -> list[FileCoverage]:
        """Return what ran of each file until now, by path."""
        return [
            FileCoverage(
                path=str(path),
                statements=tuple(sorted({*starts.values()})),
                ran=tuple(sorted(self._ran[path])),
            )
            for path, starts in sorted(self._statements.items())
        ]


def ranges(numbers: Sequence[int]) -> str:
    """Return sorted *numbers* as people read them: ``3-5, 8``."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):  # lint and the tests report it
        return ""


def _statements(source: str) -> dict[int, int]:
    """Return the first line of the statement that is on each line; empty for code that is not Python.

    Of a compound statement only its head counts, up to its body. ``except`` and ``case`` are statements too.
    Declarations, docstrings and other constants do nothing, and do not count.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    starts: dict[int, int] = {}
    for node in ast.walk(tree):
        for start, first, last in _heads(node):
            for line in range(first, last + 1):
                starts.setdefault(line, start)
    return starts


def _heads(node: ast.AST) -> Iterator[tuple[int, int, int]]:
    """Yield the statement that *node* is: the line that it is known by, its first line and its last."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Global() | ast.Nonlocal() | ast.AnnAssign(value=None):
            return
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            yield node.lineno, first, _end_of_head(node.lineno, node.body)
        case ast.match_case(pattern=pattern, body=body):
            yield pattern.lineno, pattern.lineno, _end_of_head(pattern.lineno, body)
        case ast.Match():
            yield node.lineno, node.lineno, max(node.lineno, node.subject.end_lineno or 0)
        case ast.ExceptHandler() | ast.stmt():
            below: list[ast.stmt] = getattr(node, "body", [])
            last = _end_of_head(node.lineno, below) if below else node.end_lineno or node.lineno
            yield node.lineno, node.lineno, last


def _end_of_head(start: int, body: list[ast.stmt]) -> int:
    """Return the last line before *body*; a body on the same line begins there."""
    return max(start, _first_line(body[0]) - 1)


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)])
