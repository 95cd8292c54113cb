"""Show what happened in a run and what was found."""

from collections import Counter
from typing import Any

from rich.table import Table

from tests.chaos.run import Chaos
from tests.chaos.verdict import DUPLICATED, LOST


def figures(chaos: Chaos) -> dict[str, Any]:
    """Return all counts of a run, as JSON."""
    kinds = Counter(violation.kind for violation in chaos.verdict.violations)
    outcomes = Counter(operation.outcome for operation in chaos.operations)
    return {
        "seed": chaos.seed,
        "operations": _sorted(Counter(operation.kind for operation in chaos.operations)),
        "outcomes": {name: outcomes[name] for name in ("acknowledged", "refused", "unknown", "failed")},
        "errors": _sorted(
            Counter(
                operation.result["error"] for operation in chaos.operations if "error" in operation.result
            )
        ),
        "killed": sum(operation.ended_at is None for operation in chaos.operations),
        "blows": _sorted(chaos.blows),
        "calls": _sorted(chaos.calls),
        "faults": _sorted(chaos.faults),
        "stored": _sorted(chaos.verdict.stored),
        "violations": {LOST: kinds[LOST], DUPLICATED: kinds[DUPLICATED], **_sorted(kinds)},
    }


def table(chaos: Chaos) -> Table:
    """Return the same as a table."""
    shown = Table(title=f"chaos: seed {chaos.seed}, {chaos.begun} operations", show_header=False)
    shown.add_column()
    shown.add_column()
    shown.add_column(justify="right")
    for part, counts in figures(chaos).items():
        if isinstance(counts, dict):
            shown.add_section()
            for number, (name, count) in enumerate(counts.items()):
                shown.add_row(part if number == 0 else "", name, f"{count}")
        elif part == "killed":
            shown.add_row("outcomes", "of these unknown by a kill", f"{counts}")
    return shown


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items()))
