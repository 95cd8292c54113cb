"""Show which requests met which faults."""

from collections.abc import Mapping

from gcp_adk_store.testing.simulation import Fate

STREAM = "stream broken"


def table(counts: Mapping[tuple[str, str], int]) -> str:
    """Return a table of requests by what they do and what became of them."""
    fates = [*Fate, STREAM]
    rows = [["", *(str(fate) for fate in fates)]]
    rows += [
        [what, *(str(counts.get((what, fate), 0)) if meets(what, fate) else "-" for fate in fates)]
        for what in sorted({what for what, _ in counts})
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
    )


def meets(what: str, fate: str) -> bool:
    """Return whether a request that does *what* can meet *fate*: only streams break later."""
    return fate != STREAM or what == "listen"


def empty_cells(counts: Mapping[tuple[str, str], int]) -> list[tuple[str, str]]:
    """Return what no request met so far."""
    return [
        (what, str(fate))
        for what in sorted({what for what, _ in counts})
        for fate in [*Fate, STREAM]
        if meets(what, fate) and not counts.get((what, fate))
    ]
