"""Measure the local store beside ADK's two session services on SQLite files.

``make bench-local`` runs it. All write to files of one folder and wait for the disk at each commit
(``synchronous=FULL``, which it checks).
"""

import argparse
import asyncio
import json
import os
import sqlite3
import statistics
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from google.adk.events import Event
from google.adk.sessions import BaseSessionService, DatabaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.timing import timed
from gcp_adk_store import Store

OURS, SQLITE, SQL = "gcp_adk_store", "ADK's SqliteSessionService", "ADK's DatabaseSessionService"
WHO: dict[str, Any] = {"app_name": "bench", "user_id": "ada", "session_id": "s"}
FULL = 2
"""Of ``PRAGMA synchronous``: each commit waits for the disk."""


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


async def grow(service: BaseSessionService, events: int, told: Callable[[], None]) -> None:
    """Append until the session has so many events."""
    session = await service.get_session(**WHO)
    assert session is not None
    for number in range(len(session.events), events):
        await service.append_event(session, event(number))
        told()


async def append_and_read(
    service: BaseSessionService, rounds: int, *, read: bool
) -> tuple[list[float], list[float]]:
    """Return milliseconds of appends through a handle, and of reads of all events."""
    session = await service.get_session(**WHO)
    assert session is not None
    numbers = iter(range(len(session.events), 2**31))
    appends = await timed(rounds, lambda: service.append_event(session, event(next(numbers))))
    reads = await timed(max(rounds // 4, 3), lambda: service.get_session(**WHO)) if read else []
    return appends, reads


async def measure(folder: Path, sizes: list[int], rounds: int) -> dict[str, dict[str, list[float]]]:
    """Return milliseconds by what was measured and by service."""
    rows: dict[str, dict[str, list[float]]] = {}
    with Progress(transient=True) as progress:
        for name in (OURS, SQLITE, SQL):
            task = progress.add_task(name, total=sizes[-1])
            async with opened(name, folder) as service:
                await service.create_session(**WHO)
                for size in sizes:
                    await grow(service, size, lambda task=task: progress.advance(task))  # type: ignore[misc]
                    appends, reads = await append_and_read(service, rounds, read=size <= 1000)  # noqa: PLR2004
                    rows.setdefault(f"append at {size:,} events", {})[name] = appends
                    if reads:
                        rows.setdefault(f"read {size:,} events", {})[name] = reads
    return rows


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
    table = Table("p50 ms", OURS, SQLITE, SQL, box=None)
    medians = {
        name: {who: statistics.median(took) for who, took in row.items()} for name, row in rows.items()
    }
    for name, row in medians.items():
        others = [f"{row[who]:.2f} ({row[who] / row[OURS]:.1f}x)" for who in (SQLITE, SQL)]
        table.add_row(name, f"{row[OURS]:.2f}", *others)
    console = Console()
    console.print(table)
    console.print(f"load of the last minute: {before:.1f} before, {os.getloadavg()[0]:.1f} after")
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(medians))


if __name__ == "__main__":
    main()
