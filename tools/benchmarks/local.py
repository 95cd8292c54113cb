"""Measure the local store beside ADK's two session services on SQLite files.

``make bench-local`` runs it. All write to files of one folder and wait for the disk at each commit
(``synchronous=FULL``, which it checks), and take turns, so that a busy machine slows all alike. Targets of
stores in memory follow: what encryption adds to an append, what a test takes that opens a store, and what a
read takes of a long session whose events are summarized.
"""

import argparse
import asyncio
import json
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from google.adk.events import Event
from google.adk.sessions import BaseSessionService, DatabaseSessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from gcp_adk_store import HistoryConfig, KmsEnvelope, LocalKeyWrapper, SessionLimits, Store
from gcp_adk_store.local.backend import DATABASE
from gcp_adk_store.local.database import Database
from gcp_adk_store.local.documents import LocalDocuments
from tools.benchmarks.floors import RawSession
from tools.benchmarks.meters import Rounds, calm_collector, time_steps
from tools.benchmarks.scenario import Step
from tools.benchmarks.stock import SUMMARIZED, summary

OURS, SQLITE, SQL = "gcp_adk_store", "ADK's SqliteSessionService", "ADK's DatabaseSessionService"
FLOOR = "the same encoding and transaction, alone"
WHO: dict[str, Any] = {"app_name": "bench", "user_id": "ada", "session_id": "s"}
FULL = 2
"""Of ``PRAGMA synchronous``: each commit waits for the disk."""
LONGEST_READ = 1000
"""Events."""
IN_A_ROW = 10
"""Appends of one service before the next one has its turn: the first after another's finds memory and disk
at work for that one, which no service of a process of its own meets."""

TAIL = 50
"""Events in the row that an append changes, on average."""

TIMES_FASTER = 3.0
"""Than `SqliteSessionService`; where that is out of reach, the next one counts."""
OF_THE_FLOOR_AT_MOST = 1.15
ENCRYPTION_AT_MOST = 1.15
"""Times the CPU time of an append without it."""
A_TEST_AT_MOST_MS = 50.0
A_WINDOW_AT_MOST_MS = 5.0


def event(number: int) -> Event:
    """Return an event as a tool's turn makes them: about 600 bytes, with a change of state."""
    content = types.Content(role="model", parts=[types.Part(text=f"{number} " + "word " * 60)])
    made = Event(author="agent", invocation_id=f"i{number // 4}", content=content)
    made.actions.state_delta["step"] = number
    return made


@asynccontextmanager
async def opened(name: str, folder: Path) -> AsyncIterator[BaseSessionService]:
    """Return a session service on files of *folder*."""
    if name == OURS:
        async with Store.local(folder / "ours") as store:
            yield store.sessions
    elif name == SQLITE:
        yield SqliteSessionService(str(folder / "adk.sqlite"))
    else:
        async with DatabaseSessionService(f"sqlite+aiosqlite:///{folder / 'sql.sqlite'}") as service:
            yield service


async def grow(service: BaseSessionService, events: int, report: Callable[[], None]) -> None:
    """Append until the session has so many events at least."""
    session = await service.get_session(**WHO)
    assert session is not None
    for number in range(len(session.events), events):
        await service.append_event(session, event(number))
        report()


async def appending(service: BaseSessionService) -> Step:
    """Append some events through one handle; they are made before."""
    session = await service.get_session(**WHO)
    assert session is not None
    made: list[Event] = []

    async def make() -> None:
        made[:] = [event(len(session.events) + number) for number in range(IN_A_ROW)]

    async def append() -> None:
        for one in made:
            await service.append_event(session, one)

    return Step(work=append, before=make)


@asynccontextmanager
async def appending_alone(folder: Path) -> AsyncIterator[Step]:
    """Encode and commit what :func:`appending` does, to a row of as many events, and nothing else."""
    async with Store.local(folder) as store:
        documents = LocalDocuments(Database(folder / DATABASE), SessionLimits())
        session: RawSession | None = None
        made: list[Event] = []

        async def make() -> None:
            nonlocal session
            session = await RawSession.create(store.sessions, documents)
            await session.append([event(number) for number in range(TAIL)])
            made[:] = [event(TAIL + number) for number in range(IN_A_ROW)]

        async def append() -> None:
            assert session is not None
            for one in made:
                await session.append([one])

        yield Step(work=append, before=make)
        await documents.close()


def reading(service: BaseSessionService, config: GetSessionConfig | None = None) -> Step:
    """Read the events that *config* asks for, by default all."""
    return Step(work=lambda: service.get_session(**WHO, config=config))


async def measure(folder: Path, sizes: list[int], rounds: int) -> dict[str, dict[str, float]]:
    """Return median milliseconds by what was measured and by service; the services take turns."""
    rows: dict[str, dict[str, float]] = {}
    async with AsyncExitStack() as stack:
        services = {
            name: await stack.enter_async_context(opened(name, folder)) for name in (OURS, SQLITE, SQL)
        }
        alone = await stack.enter_async_context(appending_alone(folder / "floor"))
        progress = stack.enter_context(Progress(transient=True))
        task = progress.add_task("events", total=len(services) * sizes[-1])
        for service in services.values():
            await service.create_session(**WHO)
        for size in sizes:
            for service in services.values():
                await grow(service, size, lambda: progress.advance(task))
            if size <= LONGEST_READ:
                reads = {name: reading(service) for name, service in services.items()}
                rows[f"read {size:,} events"] = await medians(reads, max(rounds // 4, 3), operations=1)
            appends = {name: await appending(service) for name, service in services.items()}
            appends[FLOOR] = alone
            in_turn = max(rounds // IN_A_ROW, 3)
            rows[f"append at {size:,} events"] = await medians(appends, in_turn, operations=IN_A_ROW)
    return rows


async def medians(steps: dict[str, Step], rounds: int, *, operations: int) -> dict[str, float]:
    """Return the median milliseconds of one operation, of steps of so many that take turns."""
    enough = Rounds(most=rounds, least=rounds, budget_s=0, warm_up=3)
    with calm_collector():
        found = await time_steps(steps, enough, operations=operations)
    return {name: timed.timing.p50_ms for name, timed in found.items()}


def append_targets(row: dict[str, float]) -> list[list[str]]:
    """Return how an append compares with that of ADK, and with its floor."""
    faster, of_floor = row[SQLITE] / row[OURS], row[OURS] / row[FLOOR]
    says = "reached" if faster >= TIMES_FASTER else "missed"
    return [
        [f"append, of {SQLITE}", f"{TIMES_FASTER:g}x faster", f"{faster:.1f}x", says],
        target(f"append, of {FLOOR}", f"{of_floor:.2f}x", OF_THE_FLOOR_AT_MOST, of_floor, "x"),
    ]


async def encryption_target(rounds: int) -> list[str]:
    """Return what encryption adds to the CPU time of an append, on stores in memory that take turns."""
    async with AsyncExitStack() as stack:
        steps = {}
        for name, encryption in (("plain", None), ("encrypted", KmsEnvelope(key=LocalKeyWrapper(b"k" * 32)))):
            store = await stack.enter_async_context(Store.local(":memory:", encryption=encryption))
            await store.sessions.create_session(**WHO)
            steps[name] = await appending(store.sessions)
        enough = Rounds(most=rounds, least=rounds, budget_s=0, warm_up=3)
        with calm_collector():
            found = await time_steps(steps, enough, operations=IN_A_ROW)
    ratio = found["encrypted"].cpu_ms / found["plain"].cpu_ms
    return target("CPU time of an encrypted append", f"{ratio:.2f}x", ENCRYPTION_AT_MOST, ratio, "x")


async def window_target(size: int, rounds: int) -> list[str]:
    """Return the CPU time of a read since the newest of the summaries that a long session has."""
    async with Store.local(":memory:") as store:
        session = await store.sessions.create_session(**WHO)
        for number in range(size):
            await store.sessions.append_event(session, event(number))
            if number % SUMMARIZED == SUMMARIZED - 1:
                await store.sessions.append_event(session, summary(session))
        configs = {
            "full": HistoryConfig(history="full"),
            "since_compaction": HistoryConfig(history="since_compaction"),
            "newest": GetSessionConfig(num_recent_events=SUMMARIZED),
        }
        steps = {name: reading(store.sessions, config) for name, config in configs.items()}
        enough = Rounds(most=rounds, least=rounds, budget_s=0, warm_up=3)
        with calm_collector():
            found = await time_steps(steps, enough, operations=1)
    full, since, newest = (found[name].cpu_ms for name in configs)
    shown = f"{since:.1f} ms, of all {full:.0f} ms, of the newest {SUMMARIZED} events {newest:.1f} ms"
    what = f"CPU time of a read since a compaction, {size:,} events"
    return target(what, shown, A_WINDOW_AT_MOST_MS, since, " ms")


def memory_target(rounds: int) -> list[str]:
    """Return what a test takes on a store in memory, with an event loop of its own for each of its steps."""

    async def use(store: Store) -> None:
        session = await store.sessions.create_session(**WHO)
        await store.sessions.append_event(session, event(0))
        await store.sessions.get_session(**WHO)

    took = []
    for _ in range(rounds):
        began = time.perf_counter()
        store = Store.local(":memory:")
        asyncio.run(use(store))
        asyncio.run(store.close())
        took.append((time.perf_counter() - began) * 1000)
    ms = statistics.median(took)
    return target("a test on a store in memory", f"{ms:.1f} ms", A_TEST_AT_MOST_MS, ms, " ms")


def target(what: str, shown: str, most: float, found: float, unit: str) -> list[str]:
    """Return a line of the table of targets."""
    return [what, f"<= {most:g}{unit}", shown, "reached" if found <= most else "missed"]


def require_same_durability(folder: Path) -> None:
    """Check that SQLite's own default, which ADK leaves, waits for the disk."""
    with sqlite3.connect(folder / "default.sqlite") as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (FULL,)


def main() -> None:
    """Print the table, and keep it as JSON where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sessions, few rounds")
    parser.add_argument("--folder", type=Path, help="where the files lie; by default a temporary folder")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    sizes, rounds = ([10, 100], 20) if options.quick else ([10, 1000, 10_000], 100)
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        require_same_durability(Path(folder))
        rows = asyncio.run(measure(Path(folder), sizes, rounds))
    table = Table("p50 ms", OURS, SQLITE, SQL, FLOOR, box=None)
    for name, row in rows.items():
        others = [f"{row[who]:.2f} ({row[who] / row[OURS]:.1f}x)" for who in (SQLITE, SQL)]
        table.add_row(name, f"{row[OURS]:.2f}", *others, f"{row[FLOOR]:.2f}" if FLOOR in row else "")
    wanted = Table("target", "wanted", "found", "", box=None)
    window = asyncio.run(window_target(sizes[-1], max(rounds // 4, 3)))
    appends = append_targets(rows[f"append at {sizes[-1]:,} events"])
    for line in (*appends, asyncio.run(encryption_target(rounds)), memory_target(rounds), window):
        wanted.add_row(*line)
    console = Console()
    console.print(table)
    console.print(wanted)
    console.print(f"load of the last minute: {before:.1f} before, {os.getloadavg()[0]:.1f} after")
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
