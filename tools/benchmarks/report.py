"""Show figures as tables and write them as JSON."""

import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from tools.benchmarks.figures import Counted, Figure
from tools.benchmarks.subjects import OURS
from tools.benchmarks.targets import Target

WIDTH = 240
"""Columns of the table."""


def figures_table(figures: Sequence[Figure], delays: Sequence[str]) -> Table:
    """Return all figures, with ratios to this store: 5.0 took five times as long."""
    table = Table(title="ms of one operation; x: times what gcp_adk_store takes")
    table.add_column("scenario", no_wrap=True)
    table.add_column("subject", no_wrap=True)
    for delay in delays:
        table.add_column(f"p50 {delay} ms", justify="right", no_wrap=True)
        if delay == delays[0]:
            table.add_column("p99", justify="right", no_wrap=True)
        table.add_column("x", justify="right", no_wrap=True)
    for column in ("CPU ms", "trips", "RPCs", "read/write/del", "A/B", "sent/recv KB", "peak MB", "stall ms"):
        table.add_column(column, justify="right", no_wrap=True)
    ours = {figure.scenario: figure for figure in figures if figure.subject == OURS}
    for number, figure in enumerate(figures):
        if number and figures[number - 1].scenario != figure.scenario:
            table.add_section()
        table.add_row(*_row(figure, ours.get(figure.scenario), delays))
    return table


def targets_table(targets: Sequence[Target]) -> Table:
    """Return what was wanted, and what this run reached."""
    table = Table("what", "wanted", "found", "", title="targets")
    words = {True: "[green]reached[/]", False: "[red]missed[/]", None: "not measured"}
    for target in targets:
        table.add_row(target.what, target.wanted, target.found, words[target.reached])
    return table


def write_json(
    path: Path, figures: Iterable[Figure], targets: Iterable[Target], options: dict[str, Any]
) -> None:
    """Write all of a run to *path*."""
    run = {
        "machine": machine(),
        "options": options,
        "figures": [figure.as_json() for figure in figures],
        "targets": [asdict(target) for target in targets],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(run, indent=2) + "\n")


def machine() -> dict[str, Any]:
    """Return what a run depends on."""
    return {
        "cores": os.cpu_count(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "load": [round(load, 2) for load in os.getloadavg()],
    }


def _row(figure: Figure, ours: Figure | None, delays: Sequence[str]) -> Iterable[str]:
    yield figure.scenario
    yield figure.subject
    for delay in delays:
        timing = figure.timings.get(delay)
        base = ours and ours.p50_ms(delay)
        yield "" if timing is None else _number(timing.p50_ms)
        if delay == delays[0]:
            yield "" if timing is None else _number(timing.p99_ms)
        yield "" if timing is None or not base else f"{timing.p50_ms / base:.2f}"
    yield _number(figure.cpu_ms)
    yield "" if figure.round_trips is None else f"{figure.round_trips}"
    yield from _counted(figure.counted)
    yield "" if figure.peak_bytes is None else f"{figure.peak_bytes / 1e6:.1f}"
    yield _number(figure.stall_ms)


def _counted(counted: Counted | None) -> Iterable[str]:
    if counted is None:
        return [""] * 4
    billed = f"{counted.reads}/{counted.writes}/{counted.deletes}"
    sizes = f"{counted.sent_bytes / 1000:.1f}/{counted.received_bytes / 1000:.1f}"
    return f"{counted.rpc_count}", billed, f"{counted.class_a}/{counted.class_b}", sizes


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"  # noqa: PLR2004  # three digits are enough
