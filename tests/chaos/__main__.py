"""Show that nothing is lost and nothing stored twice while workers are killed and the network fails.

``make chaos SECONDS=60 SEED=7`` runs schedules one after the other; the status is 1 where a promise was not
kept.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import SystemRandom

from rich.console import Console
from rich.table import Table

from gcp_adk_store.testing.emulators import firestore_emulator, storage_emulator
from tests.chaos.run import Emulators, Schedule, run

STEPS = 8
"""Of each workload in each worker."""


def main() -> int:
    """Run, print, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long schedules begin (default: 60)")
    parser.add_argument("--seed", type=int, default=None, help="of the first schedule (default: a new one)")
    parser.add_argument(
        "--local", action="store_true", help="on a folder of this machine: workers are killed"
    )
    given = parser.parse_args()
    seed = SystemRandom().randrange(10**6) if given.seed is None else given.seed
    console = Console()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        logs = Path(folder)
        place = (lambda seed: logs / f"{seed}") if given.local else stack.enter_context(_emulators(logs))
        schedules = asyncio.run(_run(seed, given.seconds, place, logs, console))
    console.print(_table(schedules))
    for wrong in schedules[-1].wrong:
        console.print(f"[red]{wrong}[/red]", highlight=False)
    return 1 if schedules[-1].wrong else 0


async def _run(
    seed: int, seconds: float, place: Callable[[int], Emulators | Path], logs: Path, console: Console
) -> list[Schedule]:
    """Run schedules one after the other, until it is time or one is wrong."""
    until = time.monotonic() + seconds
    schedules: list[Schedule] = []
    while not schedules or (time.monotonic() < until and not schedules[-1].wrong):
        console.print(f"seed {seed}")
        schedules.append(await run(seed, place(seed), logs=logs, steps=STEPS))
        seed += 1
    return schedules


@contextmanager
def _emulators(logs: Path) -> Iterator[Callable[[int], Emulators]]:
    """Start the emulators; yield what returns a new place on them."""

    def place(_: int) -> Emulators:
        name = f"chaos-{uuid.uuid4().hex[:8]}"
        return Emulators(name=name, firestore=firestore.address, storage=storage.address)

    with firestore_emulator(logs=logs) as firestore, storage_emulator(logs=logs) as storage:
        os.environ |= {firestore.variable: firestore.address, storage.variable: storage.address}
        yield place


def _table(schedules: list[Schedule]) -> Table:
    calls = [call for schedule in schedules for call in schedule.calls]
    shown = Table(title=f"chaos: {len(schedules)} schedules, {len(calls)} calls", show_header=False)
    shown.add_column()
    shown.add_column()
    shown.add_column(justify="right")
    parts: dict[str, Counter[str]] = {
        "calls": Counter(call.kind for call in calls),
        "outcomes": Counter(call.outcome for call in calls),
        "errors": Counter(call.error for call in calls if call.error),
        "blows": sum((schedule.blows for schedule in schedules), Counter()),
        "requests": sum((schedule.requests for schedule in schedules), Counter()),
        "faults": sum((schedule.faults for schedule in schedules), Counter()),
    }
    for part, counts in parts.items():
        shown.add_section()
        for number, (name, count) in enumerate(sorted(counts.items())):
            shown.add_row(part if number == 0 else "", name, f"{count}")
    return shown


if __name__ == "__main__":
    sys.exit(main())
