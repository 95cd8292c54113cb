"""Measure steps: latency and CPU in turns, stalls of the event loop, memory, and what is billed."""

import asyncio
import gc
import math
import random
import statistics
import time
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from gcp_adk_store.adk_server.app import tune_gc
from tools.benchmarks.figures import Counted, Timing
from tools.benchmarks.lines import Meters
from tools.benchmarks.scenario import Step

_STALLS_S: Final = 1.0
"""Time after which stalls of a step are looked for no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """How often a step is measured."""

    most: int
    least: int
    budget_s: float
    """For all subjects; no round is begun after it, beyond *least*."""
    warm_up: int
    """Rounds that are not measured, before those that are."""


@dataclass(frozen=True, slots=True)
class Timed:
    """What the rounds took."""

    timing: Timing
    cpu_ms: float


async def time_steps(steps: Mapping[str, Step], rounds: Rounds, *, operations: int) -> dict[str, Timed]:
    """Let the subjects take turns in an order drawn for each round; return the times of one operation.

    In one order each would always follow the same other, which leaves caches and emulator warm or cold.
    """
    walls: dict[str, list[float]] = {name: [] for name in steps}
    cpus: dict[str, list[float]] = {name: [] for name in steps}
    until = time.monotonic() + rounds.budget_s
    names = list(steps)
    order = random.Random(0)  # noqa: S311  # the same orders in each run
    for number in range(-rounds.warm_up, rounds.most):
        if number >= rounds.least and time.monotonic() > until:
            break
        order.shuffle(names)
        for name in names:
            step = steps[name]
            if step.before is not None:
                await step.before()
            wall, cpu = time.perf_counter(), time.process_time()
            await step.work()
            if number >= 0:
                walls[name].append((time.perf_counter() - wall) * 1000 / operations)
                cpus[name].append((time.process_time() - cpu) * 1000 / operations)
    return {
        name: Timed(
            Timing(len(walls[name]), statistics.median(walls[name]), p99(walls[name]), min(walls[name])),
            statistics.median(cpus[name]),
        )
        for name in steps
    }


@contextmanager
def calm_collector() -> Iterator[None]:
    """Set Python's garbage collector as docs/performance.md advises a server to."""
    before = gc.get_threshold()
    tune_gc()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


async def longest_stall_ms(step: Step, *, rounds: int) -> float:
    """Return the most CPU time that the loop's thread took at once, in the worst of *rounds* at most.

    What other processes take of the machine is not in it; garbage collections that it runs into are.
    """
    longest_s = 0.0

    async def ticker() -> None:
        nonlocal longest_s
        last = time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.thread_time()
            longest_s, last = max(longest_s, now - last), now

    until = time.monotonic() + _STALLS_S
    for number in range(rounds):
        if number and time.monotonic() > until:
            break
        if step.before is not None:
            await step.before()
        ticking = asyncio.create_task(ticker())
        await asyncio.sleep(0)  # lets it begin
        await step.work()
        await asyncio.sleep(0.002)  # lets it see the last of it
        ticking.cancel()
        with suppress(asyncio.CancelledError):
            await ticking
    return longest_s * 1000


async def peak_bytes(step: Step) -> int:
    """Return the most memory that Python objects of one step took at a time; native buffers are not in it."""
    if step.before is not None:
        await step.before()
    gc.collect()
    tracemalloc.start()
    try:
        await step.work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


async def count(step: Step, meters: Meters) -> Counted:
    """Return what one step asked of the emulators."""
    if step.before is not None:
        await step.before()
    meters.firestore.take()
    meters.storage.take()
    meters.storage.take_bytes()
    await step.work()
    documents, objects = meters.firestore.take(), meters.storage.take()
    sent, received = meters.storage.take_bytes()
    return Counted(
        rpcs={**documents.rpcs, **objects.requests},
        reads=documents.reads,
        writes=documents.writes,
        deletes=documents.deletes,
        class_a=objects.class_a,
        class_b=objects.class_b,
        sent_bytes=documents.sent_bytes + sent,
        received_bytes=documents.received_bytes + received,
    )


def p99(values: Sequence[float]) -> float:
    """Return what 99 of 100 *values* do not exceed."""
    return sorted(values)[math.ceil(len(values) * 0.99) - 1]
