"""Run schedules of fresh seeds for a time, or repeat one: ``python -m tests.simulation --seconds 600``."""

import sys
import time
from argparse import ArgumentParser
from collections import Counter
from random import SystemRandom

from gcp_adk_store.testing.simulation import ScheduleError, simulate
from tests.simulation.counts import table
from tests.simulation.journal import Journal
from tests.simulation.workloads import BUSY, WORKLOADS

_AT_ONCE = 20


def main() -> int:
    """Run the workloads in turn; return 1 if a schedule failed."""
    parser = ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("workload", nargs="*", help=f"of {', '.join(WORKLOADS)}; by default, each")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, help="run this seed alone")
    parser.add_argument(
        "--busy", action="store_true", help="let calls of a process overlap, and cancel callers of some"
    )
    given = parser.parse_args()
    Journal.is_busy = given.busy
    names = given.workload or [*(BUSY if given.busy else WORKLOADS)]
    if given.busy and not {*names} <= {*BUSY}:
        parser.error(f"--busy is for {', '.join(BUSY)}")
    counts: Counter[tuple[str, str]] = Counter()
    schedules: Counter[str] = Counter()
    ends_at = time.monotonic() + given.seconds
    seed = SystemRandom().randrange(10**9) if given.seed is None else given.seed
    failed = 0
    while not schedules or (given.seed is None and time.monotonic() < ends_at):
        for name in [name for name in names if name in BUSY or not Journal.is_busy]:
            seeds = [seed] if given.seed is not None else range(seed, seed + _AT_ONCE)
            repeat = f"python -m tests.simulation {name} --seed {{seed}}{' --busy' * Journal.is_busy}"
            workload = WORKLOADS[name]
            try:
                done = simulate(workload.scenario, seeds=seeds, faults=workload.faults, repeat=repeat)
            except ScheduleError as exc:
                sys.stderr.write(f"{name}: {exc}\n\n")
                failed += 1
                continue
            counts += done.counts
            schedules[name] += done.schedules
        seed += _AT_ONCE
        Journal.is_busy = given.busy or not Journal.is_busy
    ran = ", ".join(f"{name}: {schedules[name]:,}" for name in names)
    sys.stdout.write(f"{table(counts)}\n{ran} schedules; {failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
