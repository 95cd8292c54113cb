"""Compare this store side by side with ADK's own services and with what no client can do without.

``make bench`` runs it; docs/performance.md says how to read it. Subjects take turns within one run and
medians are taken, so that a busy machine slows all alike: read the ratios, not the milliseconds.
"""

import argparse
import asyncio
import logging
import re
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import uvloop
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from gcp_adk_store.testing.emulators import create_bucket, firestore_emulator, storage_emulator
from gcp_adk_store.testing.meters import FirestoreMeter
from tools.benchmarks import scenarios_artifacts, scenarios_listing, scenarios_sessions
from tools.benchmarks.figures import Figure
from tools.benchmarks.lines import Line, Meters, Place, line_place, local_services, open_line
from tools.benchmarks.markdown import write_markdown
from tools.benchmarks.meters import Rounds, calm_collector, count, longest_stall_ms, peak_bytes, time_steps
from tools.benchmarks.plot import draw
from tools.benchmarks.profiling import Profile, profile, profile_table
from tools.benchmarks.report import WIDTH, figures_table, targets_table, write_json
from tools.benchmarks.scenario import Scenario, Step
from tools.benchmarks.slow_line import slow_line
from tools.benchmarks.stock import Stock, event
from tools.benchmarks.storage_bytes import CountingSession
from tools.benchmarks.subjects import ADKS, OURS
from tools.benchmarks.targets import targets

_STALL_ROUNDS = 3
_FAR_MS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What is measured, and how often."""

    quick: bool
    only: str
    rounds: int
    rtt: tuple[str, ...]
    profile_s: float
    """Time for a profile of each scenario instead of its figures; 0 for none."""
    budget_s: float
    """Time for the rounds of one scenario without delay, all subjects together; with delay, half of it."""


@asynccontextmanager
async def _lines(place: Place, delays: Sequence[str]) -> AsyncIterator[tuple[list[Line], Line, Line]]:
    """Open a line for each delay, one with meters, and one with the same meters 20 ms away."""
    async with AsyncExitStack() as stack:
        plain = await stack.enter_async_context(open_line(place, local=local_services))
        lines = [plain]
        for delay in delays:
            if float(delay) == 0:
                continue
            far = line_place(
                place,
                firestore=stack.enter_context(slow_line(place.firestore, float(delay))),
                storage=stack.enter_context(slow_line(place.storage.rpartition("/")[2], float(delay))),
            )
            lines.append(await stack.enter_async_context(open_line(far, delay_ms=float(delay))))
        meters = Meters(
            firestore=stack.enter_context(FirestoreMeter(place.firestore)), storage=CountingSession()
        )
        metered = line_place(
            place, firestore=meters.firestore.address, storage=place.storage.rpartition("/")[2]
        )
        far = replace(metered, firestore=stack.enter_context(slow_line(metered.firestore, _FAR_MS)))
        yield (
            lines,
            await stack.enter_async_context(open_line(metered, meters=meters)),
            await stack.enter_async_context(open_line(far, delay_ms=_FAR_MS, meters=meters)),
        )


async def _wake(stock: Stock, *, appends: int) -> None:
    """Let the emulators compile what they are about to run; whoever comes first would pay for it."""
    for subject in (OURS, ADKS):
        session = await stock.new_session(subject)
        for number in range(appends):
            await stock.services()[subject].append_event(session, event(number, {"user:n": 1, "app:m": 2}))


def _scenarios(run: Run, stock: Stock) -> list[Scenario]:
    sessions = scenarios_sessions.QUICK if run.quick else scenarios_sessions.FULL
    listed = scenarios_listing.QUICK_LARGE if run.quick else scenarios_listing.LARGE
    artifacts = scenarios_artifacts.QUICK if run.quick else scenarios_artifacts.FULL
    chosen = [
        *scenarios_sessions.session_scenarios(stock, sessions),
        *scenarios_artifacts.artifact_scenarios(stock, artifacts),
        # Last: emulators look through all that there is.
        *scenarios_listing.listing_scenarios(stock, listed),
    ]
    return [scenario for scenario in chosen if re.search(run.only, scenario.name)]


async def _profile(run: Run, place: Place) -> list[Profile]:
    profiles: list[Profile] = []
    async with open_line(place) as line:
        stock = Stock(line)
        await _wake(stock, appends=5 if run.quick else 300)
        for scenario in _scenarios(run, stock):
            step = await scenario.subjects[OURS](line) if scenario.timed else None
            if step is not None:
                profiles.append(await profile(scenario.name, step, seconds=run.profile_s))
    return profiles


async def _measure(run: Run, place: Place, progress: Progress) -> list[Figure]:
    found: list[Figure] = []
    async with _lines(place, run.rtt) as (lines, near, far):
        stock = Stock(lines[0])
        chosen = _scenarios(run, stock)
        task = progress.add_task("waking the emulators", total=len(chosen))
        began = time.monotonic()
        await _wake(stock, appends=5 if run.quick else 300)
        for scenario in chosen:
            progress.update(task, description=scenario.name, refresh=True)
            figures = {subject: Figure(scenario.name, subject) for subject in scenario.subjects}
            if scenario.timed:
                await _time(run, scenario, lines, figures)
            if scenario.counted:
                metered = far if scenario.counted_far else near
                for subject, step in (await _begin(scenario, metered)).items():
                    assert metered.meters is not None
                    figures[subject].counted = await count(step, metered.meters)
            found += figures.values()
            progress.advance(task)
            if not progress.console.is_terminal:
                print(f"{time.monotonic() - began:6.1f} s  {scenario.name}", file=sys.stderr, flush=True)
    return found


async def _time(run: Run, scenario: Scenario, lines: Sequence[Line], figures: dict[str, Figure]) -> None:
    for line in lines:
        steps = await _begin(scenario, line)
        rounds = _rounds(run, scenario, far=line.delay_ms > 0)
        timed = await time_steps(steps, rounds, operations=scenario.operations)
        for subject, times in timed.items():
            figures[subject].timings[f"{line.delay_ms:g}"] = times.timing
            if line.delay_ms == 0:
                figures[subject].cpu_ms = times.cpu_ms
        if line.delay_ms == 0:
            stall_rounds = 1 if run.quick else min(_STALL_ROUNDS, rounds.most)
            # The quick form is calm from its beginning.
            with nullcontext() if run.quick else calm_collector():
                for subject, step in steps.items():
                    figures[subject].stall_ms = await longest_stall_ms(step, rounds=stall_rounds)
            if not run.quick:
                for subject, step in steps.items():
                    figures[subject].stall_by_default_ms = await longest_stall_ms(step, rounds=stall_rounds)
            if scenario.large:
                for subject, step in steps.items():
                    figures[subject].peak_bytes = await peak_bytes(step)


def _rounds(run: Run, scenario: Scenario, *, far: bool) -> Rounds:
    """Return how often a scenario is measured: far away, each round takes longer and says the same."""
    least = 1 if run.quick else min(scenario.at_least, 2) if far else scenario.at_least
    return Rounds(
        most=max(least, round(run.rounds * scenario.share / (4 if far else 1))),
        least=least,
        budget_s=run.budget_s / (2 if far else 1),
        warm_up=min(scenario.at_least - 1, run.rounds - 1, 1 if far else 2),
    )


async def _begin(scenario: Scenario, line: Line) -> dict[str, Step]:
    steps = {subject: await begin(line) for subject, begin in scenario.subjects.items()}
    return {subject: step for subject, step in steps.items() if step is not None}


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="about a minute: small sizes, few rounds")
    parser.add_argument("--only", default="", metavar="PATTERN", help="scenarios whose name matches")
    parser.add_argument("--rounds", type=int, help="appends measured for each subject; others fewer")
    parser.add_argument("--rtt", help="delays in ms, such as 0,20,80; 0 is always among them")
    parser.add_argument(
        "--profile", type=float, default=0, metavar="SECONDS", help="say where our time goes, instead"
    )
    parser.add_argument("--uvloop", action="store_true", help="in uvloop's event loop, for all subjects")
    parser.add_argument(
        "--json", type=Path, help="file to write the figures to; tables and a plot lie beside it"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Measure, print the tables, and write the figures and the plot if asked to."""
    options = _options(arguments)
    run = Run(
        quick=options.quick,
        only=options.only,
        rounds=options.rounds or (5 if options.quick else 200),
        rtt=tuple((options.rtt or ("0,20" if options.quick else "0,20,80")).split(",")),
        profile_s=options.profile,
        budget_s=0.3 if options.quick else 3.0,
    )
    # A stub of a model uses no tokens, which ADK finds worth a warning at each call.
    logging.getLogger("google_adk").setLevel(logging.ERROR)
    columns = (MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with ExitStack() as stack:
        documents = stack.enter_context(firestore_emulator(lasting=True))
        objects = stack.enter_context(storage_emulator())
        place = Place(
            stamp=uuid.uuid4().hex[:12],
            firestore=documents.address,
            storage=objects.address,
            folder=Path(stack.enter_context(tempfile.TemporaryDirectory())),
        )
        for bucket in (place.bucket, place.adk_bucket):
            create_bucket(bucket, place.storage)
        # Drawn when asked to: a thread that draws would be in the figures.
        progress = Progress(*columns, console=Console(stderr=True), auto_refresh=False)
        loops = uvloop.new_event_loop if options.uvloop else None
        with progress, asyncio.Runner(loop_factory=loops) as loop:
            if run.profile_s:
                profiles = loop.run(_profile(run, place))
                progress.console.print()
                Console(width=WIDTH).print(profile_table(profiles))
                return 0
            if run.quick:
                # Once for all: it goes through all objects that there are, longer than most steps take.
                stack.enter_context(calm_collector())
            figures = loop.run(_measure(run, place, progress))
    reached = targets(figures)
    delays = list(dict.fromkeys(delay for figure in figures for delay in figure.timings))
    console = Console(width=max(WIDTH, Console().width))
    console.print(figures_table(figures, delays))
    console.print(targets_table(reached))
    if options.json:
        asked = {
            "quick": run.quick,
            "only": run.only,
            "rounds": run.rounds,
            "rtt": list(run.rtt),
            "uvloop": options.uvloop,
        }
        write_json(options.json, figures, reached, asked)
        write_markdown(options.json.with_suffix(".md"), figures, reached, delays)
        draw(figures, delays, options.json.with_suffix(".svg"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
