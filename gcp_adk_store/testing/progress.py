"""Show the progress of a download: a bar on a terminal, otherwise a line at each tenth."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from gcp_adk_store.testing.downloads import in_megabytes

_STEPS: Final = 10


@contextmanager
def progress_of(total: int, out: TextIO) -> Iterator[Callable[[int], None]]:
    """Provide a function to call with the number of downloaded bytes of *total*."""
    if out.isatty():
        with _bar(total, out) as told:
            yield told
    else:
        yield _lines(total, out)


@contextmanager
def _bar(total: int, out: TextIO) -> Iterator[Callable[[int], None]]:
    from rich import progress  # noqa: PLC0415  # where it is used
    from rich.console import Console  # noqa: PLC0415

    columns = (
        progress.BarColumn(bar_width=None),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=Console(file=out)) as shown:
        task = shown.add_task("", total=total)
        yield lambda there: shown.update(task, completed=there)


def _lines(total: int, out: TextIO) -> Callable[[int], None]:
    said = 0

    def told(there: int) -> None:
        nonlocal said
        step = there * _STEPS // total
        if step > said:
            out.write(f"  {in_megabytes(there)} of {in_megabytes(total)}\n")
            out.flush()
        said = step

    return told
