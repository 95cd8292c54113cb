"""Print tables, JSON and failures, with stored text made harmless."""

import errno
import io
import json
import math
import os
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import click
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.status import Status
from rich.text import Text

from gcp_adk_store.imports import how_to_install
from gcp_adk_store.model.keys import escaped, in_one_line

_KEPT: Final = "\n\t"
_STEERING: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
_TURNING: Final = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})
"""Characters that change the displayed order of text."""


def visible(text: str) -> str:
    r"""Return *text* with control characters escaped as in Python, such as ``\x1b``.

    Line ends and tabs stay; characters that a terminal cannot encode are escaped too.
    """
    text = text.replace("\r\n", "\n")
    return "".join(each if each in _KEPT or not _steers(each) else escaped(each) for each in text)


def _steers(character: str) -> bool:
    if character.isprintable():
        return False
    category = unicodedata.category(character)
    return category in _STEERING or unicodedata.bidirectional(character) in _TURNING


class CannotLookError(click.ClickException):
    """The command cannot do its work and ends with 2; a problem that it finds ends with 1."""

    exit_code = 2

    def format_message(self) -> str:
        """Return the message, made safe for a terminal: it may contain other people's names."""
        return visible(self.message)


class Number(click.FloatRange):
    """The kind of an option that takes a number of a range: neither infinity nor NaN."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number, or end with an error of usage."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class Time(click.DateTime):
    """The kind of an option that takes a date, or a date with a time, in UTC."""

    def __init__(self) -> None:
        times = [f"%Y-%m-%d{between}%H:%M:%S{end}" for between in " T" for end in ("", "Z")]
        super().__init__(["%Y-%m-%d", *times])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the time without a zone, or end with an error of usage."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not a time: write 2026-11-22 or 2026-11-22T15:00:00Z.", param, ctx)


class NotThereError(CannotLookError):
    """The store answers, but lacks the named item; the command ends with 1."""

    exit_code = 1


_PYDANTIC = (2, 11)


@contextmanager
def needs_ces() -> Iterator[None]:
    """Import the packages of the extra ``ces``.

    Raises:
        CannotLookError: one of them is missing or too old.
    """
    try:
        import pydantic  # noqa: PLC0415  # what is asked for here

        if tuple(int(part) for part in pydantic.VERSION.split(".")[:2]) < _PYDANTIC:
            says = f"pydantic {pydantic.VERSION} is too old; upgrade it"
            raise CannotLookError(f"{says}: {how_to_install('ces')}")
        yield
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] == "gcp_adk_store":
            raise
        says = f"the module {exc.name} is missing; this command needs an extra"
        raise CannotLookError(f"{says}: {how_to_install('ces')}") from exc


_WIDEST: Final = 100_000
"""Columns of a pipe or a file: more than the cells of a row have together. An id has 1,500 bytes at most."""


_BAR: Final = 40


@dataclass(frozen=True, slots=True)
class Result:
    """What a command found."""

    data: Any
    """For programs: JSON values."""
    lines: Sequence[RenderableType]
    """For people: texts and tables."""
    status: int = 0
    """The exit status of the command."""
    failure: str = ""
    """For people, on standard error: why the work failed."""


def finish(result: Result, *, as_json: bool) -> None:
    """Print *result*, as JSON or for people, and end the command with its status."""
    if as_json:
        click.echo(_as_json(result.data))
    else:
        show(*result.lines)
        click.echo(visible(result.failure), nl=bool(result.failure), err=True)
    click.get_current_context().exit(result.status)


class StandardOutput:
    """Standard output of a command: what its encoding lacks is escaped.

    A write, or a flush, raises a `CannotLookError` if the output is full, such as a file on a full disk.
    """

    def __init__(self, given: io.TextIOWrapper) -> None:
        self._given = given
        if given.errors == "strict":
            given.reconfigure(errors="backslashreplace")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._given, name)

    def write(self, text: str) -> int:
        """Write *text*."""
        with self._writing():
            return self._given.write(text)

    def flush(self) -> None:
        """Write what the buffer has."""
        with self._writing():
            self._given.flush()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            if exc.errno == errno.EPIPE:
                raise  # the reader closed the pipe, for which click ends silently
            raise CannotLookError(f"standard output cannot be written: {exc.strerror}") from exc

    def discard(self) -> None:
        """Drop what could not be written: Python would try again at its end, and end with 120."""
        try:
            self._given.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._given.fileno())


def _as_json(data: Any) -> str:
    try:
        return json.dumps(data, allow_nan=False)
    except ValueError:  # state holds NaN, or an infinite number
        from gcp_adk_store.model.json_values import finite  # noqa: PLC0415  # where it is used

        return json.dumps(finite(data), allow_nan=False)


def show(*shown: RenderableType) -> None:
    """Print texts and tables on standard output, each from the start of a line.

    A text is printed as it is, and the terminal wraps its lines. A table fits the terminal. In a pipe or a
    file each of its rows is one line of any width, so that other programs read whole rows.
    """
    for each in shown:
        if isinstance(each, str):
            click.echo(each)
        elif sys.stdout is not None and sys.stdout.isatty():
            Console().print(each, soft_wrap=isinstance(each, Text))
        else:
            console = Console(width=_WIDEST)
            with console.capture() as captured:
                console.print(each)
            for line in captured.get().splitlines():
                click.echo(line.rstrip())


def cell(name: str) -> Text:
    """Return a cell with an untrusted name: its markup is text, and control characters are escaped."""
    return Text(in_one_line(name), overflow="fold")


def bar(value: float, most: float, style: str) -> Text:
    """Return a bar whose length shows *value*, with 40 characters for *most*."""
    return Text("█" * (max(1, round(value / most * _BAR)) if value else 0), style=style)


def waiting(what: str) -> Status:
    """Show *what* on standard error while a block runs, if that is a terminal."""
    return Console(stderr=True).status(what)


@contextmanager
def progress(what: str, *, total: int | None = None) -> Iterator[Callable[..., None]]:
    """Show a bar on standard error while a block runs, if that is a terminal.

    The block gets a function that shows the number of finished steps, and the total once it is known.

    Args:
        what: The label.
        total: The number of steps; ``None`` if unknown.
    """
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,}"))
    with Progress(
        *columns, TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as running:
        task = running.add_task(what, total=total)

        def move_to(done: int, total: int | None = None) -> None:
            running.update(task, completed=done, total=total)

        yield move_to
