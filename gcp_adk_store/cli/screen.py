"""Print a command's result as text or as JSON, and the progress of long work."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import click
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.status import Status
from rich.text import Text

from gcp_adk_store.cli.terminal import in_one_line

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


def finish(result: Result, *, as_json: bool) -> None:
    """Print *result*, as JSON or for people, and end the command with its status."""
    if as_json:
        click.echo(json.dumps(result.data))
    else:
        show(*result.lines)
    click.get_current_context().exit(result.status)


def show(*shown: RenderableType) -> None:
    """Print texts and tables on standard output, each from the start of a line.

    A text is printed as it is. A table fits the terminal. In a pipe or a file each of its rows is one line of
    any width, so that other programs read whole rows.
    """
    for each in shown:
        if isinstance(each, str):
            click.echo(each)
        elif sys.stdout.isatty():
            Console().print(each)
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
