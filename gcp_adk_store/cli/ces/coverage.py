"""Show which lines of tools and callbacks tests ran, and write it as other tools read it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from gcp_adk_store.cli.screen import cell, show
from gcp_adk_store.cli.terminal import in_one_line

if TYPE_CHECKING:
    from gcp_adk_store.ces.testing.coverage import FileCoverage

_ENOUGH: Final = 80.0
"""Percent that the table shows in green; as CI services do by default."""


def show_coverage(files: "Sequence[FileCoverage]") -> None:
    """Print a table of *files*, with the lines that did not run, and a sum."""
    from gcp_adk_store.ces.testing.coverage import ranges  # noqa: PLC0415  # of the extra

    table = Table("file", "statements", "ran", "%", "did not run", box=None)
    for column in table.columns[1:4]:
        column.justify = "right"
    for each in files:
        table.add_row(cell(each.path), *_counts(each.statements, each.ran), ranges(each.missing))
    statements = [line for each in files for line in each.statements]
    ran = [line for each in files for line in each.ran]
    table.add_row("together", *_counts(statements, ran), "")
    show(table)


def _counts(statements: Sequence[int], ran: Sequence[int]) -> tuple[str, str, Text]:
    percent = 100 * len(ran) / len(statements) if statements else 100.0
    color = "green" if percent >= _ENOUGH else "yellow"
    return str(len(statements)), str(len(ran)), Text(f"{percent:.0f}", style=color)


def lcov(files: "Sequence[FileCoverage]") -> bytes:
    """Return *files* in the format of lcov."""
    lines: list[str] = []
    for each in files:
        ran = {*each.ran}
        lines += ["TN:", f"SF:{in_one_line(each.path)}"]
        lines += [f"DA:{number},{int(number in ran)}" for number in each.statements]
        lines += [f"LF:{len(each.statements)}", f"LH:{len(ran)}", "end_of_record"]
    return "".join(f"{line}\n" for line in lines).encode()
