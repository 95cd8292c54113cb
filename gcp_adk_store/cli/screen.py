"""Print tables, and the progress of long work."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.status import Status
from rich.text import Text

from gcp_adk_store.cli.terminal import in_one_line

_WIDEST: Final = 100_000
"""Columns of a pipe or a file: more than the cells of a row have together. An id has 1,500 bytes at most."""


def show(*shown: RenderableType) -> None:
    """Print tables and lines on standard output.

    A terminal's width limits them. In a pipe or a file each row of a table is one line of any width, so that
    other programs read whole rows. A text is printed as it is, without rich's markup.
    """
    if sys.stdout.isatty():
        Console().print(*shown, sep="\n", markup=False, emoji=False, highlight=False)
        return
    console = Console(width=_WIDEST)
    with console.capture() as captured:
        console.print(*shown, sep="\n", markup=False, emoji=False, highlight=False)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


def cell(name: str, style: str = "") -> Text:
    """Return a cell with an untrusted name: its markup is text, and control characters are escaped."""
    return Text(in_one_line(name), style=style, overflow="fold")


def waiting(what: str) -> Status:
    """Show *what* on standard error while a block runs, if that is a terminal."""
    return Console(stderr=True).status(what)


@contextmanager
def progress(what: str, *, total: int | None = None) -> Iterator["Bar"]:
    """Show a bar on standard error while a block runs, if that is a terminal.

    Args:
        what: The label.
        total: The number of steps; ``None`` if unknown.
    """
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,}"))
    with Progress(
        *columns, TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as running:
        yield Bar(running, what, total)


class Bar:
    """A progress bar of a block."""

    def __init__(self, running: Progress, what: str, total: int | None) -> None:
        self._running = running
        self._task = running.add_task(what, total=total)

    def move_to(self, done: int, total: int | None = None) -> None:
        """Show the number of finished steps, and *total* once it is known."""
        self._running.update(self._task, completed=done, total=total)
