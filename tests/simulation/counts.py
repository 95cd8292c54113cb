"""Show which requests met which faults."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

STREAM = "stream broken"


def table(counts: Mapping[tuple[str, str], int]) -> str:
    """Return a table of requests by what they do and what became of them."""
    fates = _fates()
    rows = [["", *fates]]
    rows += [
        [what, *(str(counts.get((what, fate), 0)) if meets(what, fate) else "-" for fate in fates)]
        for what in sorted({what for what, _ in counts})
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
    )


def _fates() -> list[str]:
    from gcp_adk_store.testing.simulation import Fate  # noqa: PLC0415  # where ADK is used

    return [*(str(fate) for fate in Fate), STREAM]


def meets(what: str, fate: str) -> bool:
    """Return whether a request that does *what* can meet *fate*: only streams break later."""
    return fate != STREAM or what == "listen"


def empty_cells(counts: Mapping[tuple[str, str], int]) -> list[tuple[str, str]]:
    """Return what no request met so far."""
    return [
        (what, fate)
        for what in sorted({what for what, _ in counts})
        for fate in _fates()
        if meets(what, fate) and not counts.get((what, fate))
    ]


@dataclass(slots=True)
class Counts:
    """What the schedules of a run of tests did, in one process or in all of them."""

    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Requests by what they do and what became of them."""
    files: set[str] = field(default_factory=set)
    """Names of the files of this folder of which a test ran."""

    def to_wire(self) -> list[Any]:
        """Return it as xdist takes it from one process to another."""
        requests = [[what, str(fate), count] for (what, fate), count in self.requests.items()]
        return [requests, sorted(self.files)]

    def add(self, wire: list[Any]) -> None:
        """Add what :meth:`to_wire` of another process returned."""
        requests, files = wire
        self.requests.update({(what, fate): count for what, fate, count in requests})
        self.files |= {*files}

    @property
    def is_whole(self) -> bool:
        """Whether tests of all files of this folder ran."""
        return {file.name for file in Path(__file__).parent.glob("test_*.py")} <= self.files


RUN: Final = Counts()
"""That of this process; at the end of a run, that of all."""
