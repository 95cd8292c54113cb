"""Measure how Python's garbage collector, set in three ways, holds up appends while many sessions take turns.

A turn reads its session, which makes many objects, and appends to it; what is timed is the append.

``python -m tools.benchmarks.collector`` runs it, in a process that has imported what a server of ADK's
imports. Rounds of the three take turns, so that a busy machine slows all alike: read the ratios.
"""

import argparse
import asyncio
import gc
import importlib
import json
import os
import statistics
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from gcp_adk_store import FirestoreSessionService
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, firestore_emulator
from tools.benchmarks.meters import calm_collector, p99
from tools.benchmarks.stock import APP, USER, event, who

_AS_A_SERVER: Final = "google.adk.cli.fast_api"


@contextmanager
def _no_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


SETTINGS: Final[Mapping[str, Callable[[], AbstractContextManager[None]]]] = {
    "by default": nullcontext,
    "tune_gc()": calm_collector,
    "off": _no_collector,
}


@dataclass(frozen=True, slots=True)
class Measured:
    """What appends took, in milliseconds, while the collector was set in one way."""

    appends: list[float] = field(default_factory=list)
    collections: list[float] = field(default_factory=list)
    """CPU time of each collection: what other processes take of the machine is not in it."""

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Take the time of collections."""
        begun = 0.0

        def watched(phase: str, _: dict[str, int]) -> None:
            nonlocal begun
            if phase == "start":
                begun = time.thread_time()
            else:
                self.collections.append((time.thread_time() - begun) * 1000)

        gc.callbacks.append(watched)
        try:
            yield
        finally:
            gc.callbacks.remove(watched)


async def measure(service: FirestoreSessionService, options: argparse.Namespace) -> dict[str, Measured]:
    """Return what appends took, by how the collector was set."""
    took = {name: Measured() for name in SETTINGS}
    held = [await service.create_session(app_name=APP, user_id=USER) for _ in range(options.sessions)]
    for number in range(options.history):
        await asyncio.gather(*(service.append_event(session, event(number)) for session in held))

    async def talk(session: Mapping[str, Any], times: list[float]) -> None:
        for number in range(options.turns):
            found = await service.get_session(**session)
            assert found is not None
            begun = time.perf_counter()
            await service.append_event(found, event(number, {"n": number}))
            times.append((time.perf_counter() - begun) * 1000)

    for _ in range(options.rounds):
        for name, setting in SETTINGS.items():
            with setting(), took[name].watch():
                talks = (talk(who(session.id), took[name].appends) for session in held)
                await asyncio.gather(*talks)
    await service.close()
    return took


def main(arguments: list[str]) -> None:
    """Measure, print the table, and write JSON if asked for."""
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks.collector", description=__doc__)
    parser.add_argument("--sessions", type=int, default=32, help="that take turns at a time")
    parser.add_argument("--history", type=int, default=100, help="events of each that every turn reads")
    parser.add_argument("--turns", type=int, default=10, help="of each session in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    importlib.import_module(_AS_A_SERVER)
    with firestore_emulator(lasting=True) as emulator:
        os.environ[FIRESTORE_VARIABLE] = emulator.address
        service = FirestoreSessionService(project=f"bench-{uuid.uuid4().hex[:12]}")
        took = asyncio.run(measure(service, options))
    _show(took, options)


def _show(took: Mapping[str, Measured], options: argparse.Namespace) -> None:
    figures = {
        name: {
            "p50": statistics.median(measured.appends),
            "p99": p99(measured.appends),
            "longest": max(measured.appends),
            "longest collection, CPU": max(measured.collections, default=0.0),
            "all collections, CPU": sum(measured.collections),
        }
        for name, measured in took.items()
    }
    table = Table(f"{options.sessions} sessions, {len(took['off'].appends)} appends, ms", box=None)
    for heading in figures["off"]:
        table.add_column(heading, justify="right")
    for name, row in figures.items():
        table.add_row(name, *(f"{value:.1f}" for value in row.values()))
    Console().print(table)
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
