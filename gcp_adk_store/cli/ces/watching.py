"""Work again whenever files are saved."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

import click

from gcp_adk_store.cli.failures import CannotLookError
from gcp_adk_store.cli.terminal import visible

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent

_SAVES: Final = frozenset({"created", "deleted", "modified", "moved"})
_SUFFIXES: Final = frozenset({".json", ".py", ".txt", ".yaml", ".yml"})
"""Of the files of an app; reports and bytecode have others."""
_QUIET_S: Final = 0.1
"""Editors write, rename and touch files for one save; a command may save several files."""

Saved = Callable[[], frozenset[Path]]
Once = Callable[[frozenset[Path] | None], bool]
"""Does the work that saved files concern, or all of it, and returns whether something failed."""


@contextmanager
def saved_files(*folders: Path) -> Iterator[Saved]:
    """Yield a function that waits until files in *folders* are saved or removed, and returns them.

    Files that are saved between two calls belong to the second.

    Raises:
        CannotLookError: the system watches no more files.
    """
    from watchdog.events import FileSystemEventHandler  # noqa: PLC0415  # a third of a second
    from watchdog.observers import Observer  # noqa: PLC0415  # likewise

    saved: SimpleQueue[Path] = SimpleQueue()

    class Handler(FileSystemEventHandler):
        def on_any_event(self, event: "FileSystemEvent") -> None:
            if event.event_type in _SAVES and not event.is_directory:
                for name in (event.src_path, event.dest_path):
                    path = Path(os.fsdecode(name))
                    if path.suffix in _SUFFIXES:
                        saved.put(path)

    observer = Observer()
    try:
        for folder in folders:
            observer.schedule(Handler(), str(folder), recursive=True)
        observer.start()
    except OSError as exc:
        raise CannotLookError(f"{folders[0]} cannot be watched: {exc.strerror}") from exc
    try:
        yield partial(_next, saved)
    finally:
        observer.stop()
        observer.join()


def again_and_again(once: Once, saved: Saved) -> bool:
    """Do all of the work, then what saved files concern, until Ctrl-C; return whether the last one failed."""
    failed, changed = False, None
    try:
        while True:
            try:
                failed = once(changed)
            except CannotLookError as exc:
                failed = True
                click.echo(visible(str(exc)), err=True)
            click.echo("waiting until a file is saved; Ctrl-C ends", err=True)
            changed = saved()
    except KeyboardInterrupt:
        return failed


def _next(saved: "SimpleQueue[Path]") -> frozenset[Path]:
    found = {saved.get()}
    with suppress(Empty):
        while True:
            found.add(saved.get(timeout=_QUIET_S))
    return frozenset(found)
