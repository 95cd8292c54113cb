"""Compare sessions side by side: this store, ADK's own service, and one raw RPC, on one emulator.

``make bench`` runs it. Rounds are interleaved and medians taken, so that a busy machine slows all alike;
read the ratios, not the milliseconds.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from google.adk.events import Event, EventActions
from google.adk.integrations.firestore import FirestoreSessionService as AdkFirestoreSessionService
from google.adk.sessions import BaseSessionService, Session
from google.cloud import firestore
from google.genai import types
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from gcp_adk_store import FirestoreSessionService
from gcp_adk_store.backends.firestore import open_documents
from gcp_adk_store.codec.writes import Write
from gcp_adk_store.settings import SessionLimits
from gcp_adk_store.testing.emulators import firestore_emulator

WHO: dict[str, Any] = {"app_name": "bench", "user_id": "ada", "session_id": "s"}
Work = Callable[[], Awaitable[object]]


@dataclass(frozen=True)
class Figure:
    """How long one operation took."""

    scenario: str
    subject: str
    wall_ms: float
    """Median of the rounds."""
    cpu_ms: float
    """Median of this process's own CPU time."""


def event(number: int, delta: dict[str, Any]) -> Event:
    """Return an event of a usual size: some 600 bytes as JSON."""
    return Event(
        author="agent",
        invocation_id=f"i{number}",
        content=types.Content(role="model", parts=[types.Part(text="lorem ipsum " * 20)]),
        actions=EventActions(state_delta=delta),
    )


async def session_of(service: BaseSessionService, events: int) -> Session:
    """Return a new session with so many events."""
    session = await service.create_session(**{**WHO, "session_id": uuid.uuid4().hex})
    for number in range(events):
        await service.append_event(session, event(number, {}))
    return session


async def measure(scenario: str, subjects: dict[str, Work], *, rounds: int) -> list[Figure]:
    """Run the subjects in turn, *rounds* times; return the medians."""
    walls: dict[str, list[float]] = {name: [] for name in subjects}
    cpus: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(rounds):
        for name, work in subjects.items():
            wall, cpu = time.perf_counter(), time.process_time()
            await work()
            walls[name].append((time.perf_counter() - wall) * 1000)
            cpus[name].append((time.process_time() - cpu) * 1000)
    return [
        Figure(scenario, name, statistics.median(walls[name]), statistics.median(cpus[name]))
        for name in subjects
    ]


async def scenarios(rounds: int, progress: Progress) -> list[Figure]:
    """Measure everything."""
    project = f"demo-{uuid.uuid4().hex[:12]}"
    ours = FirestoreSessionService(project=project)
    theirs = AdkFirestoreSessionService(client=firestore.AsyncClient(project=f"{project}-adk"))
    raw = open_documents(
        project=project,
        database="(default)",
        credentials=None,
        client=None,
        interceptors=(),
        limits=SessionLimits(),
    )
    task = progress.add_task("measuring", total=4)
    figures: list[Figure] = []

    async def floor_commit() -> None:
        write = Write(path="floor/one", fields={"n": rounds}, mask=[("n",)])
        await raw.commit([write], what="floor", repeatable_when_unanswered=True)

    for scenario, delta in (
        ("append, no state", {}),
        ("append, all scopes", {"mine": 1, "user:n": 2, "app:m": 3}),
    ):
        mine, adks = await session_of(ours, 0), await session_of(theirs, 0)
        subjects: dict[str, Work] = {
            "gcp_adk_store": lambda held=mine, d=delta: ours.append_event(held, event(0, dict(d))),  # type: ignore[misc]  # bound now
            "ADK's own": lambda held=adks, d=delta: theirs.append_event(held, event(0, dict(d))),  # type: ignore[misc]  # bound now
            "one raw Commit": floor_commit,
        }
        figures += await measure(scenario, subjects, rounds=rounds)
        progress.advance(task)
    for events in (20, 200):
        mine, adks = await session_of(ours, events), await session_of(theirs, events)
        subjects = {
            "gcp_adk_store": lambda held=mine: ours.get_session(**{**WHO, "session_id": held.id}),  # type: ignore[misc]  # bound now
            "ADK's own": lambda held=adks: theirs.get_session(**{**WHO, "session_id": held.id}),  # type: ignore[misc]  # bound now
        }
        figures += await measure(f"get, {events} events", subjects, rounds=max(10, rounds // 5))
        progress.advance(task)
    await ours.close()
    await raw.close()
    return figures


def table(figures: list[Figure]) -> Table:
    """Return the figures with ratios to this store."""
    shown = Table("scenario", "subject", "wall ms", "x", "client CPU ms", "x")
    ours = {figure.scenario: figure for figure in figures if figure.subject == "gcp_adk_store"}
    for figure in figures:
        base = ours[figure.scenario]
        shown.add_row(
            figure.scenario,
            figure.subject,
            f"{figure.wall_ms:.2f}",
            f"{figure.wall_ms / base.wall_ms:.2f}",
            f"{figure.cpu_ms:.2f}",
            f"{figure.cpu_ms / base.cpu_ms:.2f}",
        )
    return shown


def main(arguments: Sequence[str]) -> int:
    """Measure, print the table, and write the figures if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200, help="appends measured for each subject")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    options = parser.parse_args(arguments)
    console = Console()
    with firestore_emulator() as emulator, Progress(console=console, transient=True) as progress:
        os.environ[emulator.variable] = emulator.address
        figures = asyncio.run(scenarios(options.rounds, progress))
    console.print(table(figures))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps([asdict(figure) for figure in figures], indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
