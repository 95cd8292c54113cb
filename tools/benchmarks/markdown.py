"""Write a run as tables of Markdown, one row a scenario: those of docs/performance.md."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tools.benchmarks.figures import Figure
from tools.benchmarks.subjects import ADKS, DATABASE, IN_MEMORY, OURS, PARSING, SLEEPING, SMALLER, SQLITE
from tools.benchmarks.targets import Target

_NOT_FLOORS = {OURS, SMALLER, ADKS, SQLITE, DATABASE, IN_MEMORY}


def write_markdown(
    path: Path, figures: Sequence[Figure], targets: Iterable[Target], delays: Sequence[str]
) -> None:
    """Write targets, latencies, and what operations take to *path*."""
    scenarios: dict[str, dict[str, Figure]] = {}
    for figure in figures:
        scenarios.setdefault(figure.scenario, {})[figure.subject] = figure
    tables = (_targets(targets), _latencies(scenarios, delays), _costs(scenarios))
    path.write_text("\n\n".join("\n".join(table) for table in tables) + "\n")


def _targets(targets: Iterable[Target]) -> Iterable[str]:
    yield from _head("what", "wanted", "found", "")
    words = {True: "reached", False: "**missed**", None: "not measured"}
    for target in targets:
        yield _row(target.what, target.wanted, target.found, words[target.reached])


def _latencies(scenarios: dict[str, dict[str, Figure]], delays: Sequence[str]) -> Iterable[str]:
    yield from _head("scenario", "gcp_adk_store, p50 ms", "p99", "ADK's own", "SQLite", "SQL", "floor")
    for scenario, subjects in scenarios.items():
        ours = subjects[OURS]
        if not ours.timings:
            continue
        # Parsing and sleeping send nothing: they are beside an operation, not below it.
        floors = [name for name in subjects if name not in {*_NOT_FLOORS, PARSING, SLEEPING}]
        yield _row(
            scenario,
            " / ".join(_ms(ours.p50_ms(delay)) for delay in delays),
            _ms(ours.timings[delays[0]].p99_ms),
            *(_ratios(subjects.get(name), ours, delays) for name in (ADKS, SQLITE, DATABASE)),
            "; ".join(_ratios(subjects[name], ours, delays) for name in floors),
        )


def _costs(scenarios: dict[str, dict[str, Figure]]) -> Iterable[str]:
    columns: dict[str, Callable[[Figure], str]] = {
        "CPU ms": lambda figure: _ms(figure.cpu_ms),
        "trips": lambda figure: "" if figure.round_trips is None else f"{figure.round_trips}",
        "RPCs": lambda figure: f"{figure.counted.rpc_count}" if figure.counted else "",
        "read, write, delete": _billed,
        "KB sent, received": _kilobytes,
        "peak MB": lambda figure: "" if figure.peak_bytes is None else f"{figure.peak_bytes / 1e6:.1f}",
        "stall ms": lambda figure: _ms(figure.stall_ms),
        "by default": lambda figure: _ms(figure.stall_by_default_ms),
    }
    yield from _head("scenario", *columns)
    for scenario, subjects in scenarios.items():
        pair = [subjects[name] for name in (OURS, ADKS) if name in subjects]
        yield _row(scenario, *(_versus([text_of(figure) for figure in pair]) for text_of in columns.values()))


def _billed(figure: Figure) -> str:
    counted = figure.counted
    if counted is None:
        return ""
    if counted.class_a or counted.class_b:
        return f"A {counted.class_a}, B {counted.class_b}"
    return f"{counted.reads}, {counted.writes}, {counted.deletes}"


def _kilobytes(figure: Figure) -> str:
    counted = figure.counted
    return f"{counted.sent_bytes / 1000:.1f}, {counted.received_bytes / 1000:.1f}" if counted else ""


def _versus(cells: list[str]) -> str:
    return " : ".join(cells) if any(cells) else ""


def _ratios(figure: Figure | None, ours: Figure, delays: Sequence[str]) -> str:
    """Return how many times as long as ours, for each delay that was measured."""
    if figure is None:
        return ""
    pairs = [(figure.p50_ms(delay), ours.p50_ms(delay)) for delay in delays]
    return " / ".join(f"{theirs / base:.2f}" for theirs, base in pairs if theirs is not None and base)


def _ms(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"  # noqa: PLR2004  # three digits are enough


def _head(*cells: str) -> Iterable[str]:
    yield _row(*cells)
    yield "|" + "---|" * len(cells)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
