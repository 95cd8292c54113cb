"""Measure how long the inspector takes for each page of a session of 10,000 events.

``make bench-inspector`` runs it, on a store in a folder. Each page is asked for in a process
that remembers no segment, and again in one that read them before. The processor's time is that of all
threads; on a busy machine it says more than the time that passed.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx
from google.adk.events import Event
from google.adk.sessions import InMemorySessionService
from google.genai import types
from rich.console import Console
from rich.table import Table

from gcp_adk_store import SessionLimits, Store
from gcp_adk_store.inspector import create_app
from gcp_adk_store.moving import copy
from tools.benchmarks.meters import calm_collector

AT_MOST_MS: Final = 200.0
WHO: Final[dict[str, Any]] = {"app_name": "bench", "user_id": "ada", "session_id": "long"}
PLACE: Final = {"app": "bench", "user": "ada", "session": "long"}


def event(number: int) -> Event:
    """Return an event of about 600 bytes; of a turn of four, two are of a tool and the last changes state."""
    parts = [
        types.Part(text=f"Where is parcel {number}? " + "word " * 60),
        types.Part(function_call=types.FunctionCall(name="find", args={"why": "x" * 300})),
        types.Part(function_response=types.FunctionResponse(name="find", response={"where": "Oslo " * 60})),
        types.Part(text=f"It is in Oslo. {number} " + "word " * 60),
    ]
    made = Event(
        id=f"e{number}",
        invocation_id=f"i{number // 4}",
        author="agent" if number % 4 else "user",
        timestamp=1_700_000_000.0 + number,
        content=types.Content(role="model", parts=[parts[number % 4]]),
    )
    if number % 4 == 3:  # noqa: PLR2004  # the last of a turn
        made.actions.state_delta |= {"turn": number // 4, f"order {number // 4 % 200}": "x" * 50}
    return made


async def fill(store: Store, events: int) -> None:
    """Give the store a session of so many events, and a fork of a part of it."""
    source = InMemorySessionService()
    session = await source.create_session(**WHO)
    for number in range(events):
        await source.append_event(session, event(number))
    await copy(source, store.sessions, app_name="bench")
    await store.fork_session(**WHO, to_session_id="fork")


def pages(events: int) -> list[tuple[str, str, Mapping[str, Any]]]:
    """Return what is measured: its name, the page, and what it is asked."""
    return [
        ("apps", "", {}),
        ("sessions", "sessions", {"app": "bench"}),
        ("usage", "usage", {"app": "bench"}),
        ("search in sessions, by tool", "find", {"app": "bench", "tool": "find"}),
        ("conversation", "session", PLACE),
        ("timeline", "timeline", PLACE),
        ("search, text that 50 events have", "search", {**PLACE, "q": "oslo"}),
        ("search, text that no event has", "search", {**PLACE, "q": "nobody said it"}),
        ("compare with a fork", "compare", {**PLACE, "other": "fork"}),
        ("state by position", "matrix", PLACE),
        ("state in the middle", "state", {**PLACE, "event": events // 2}),
        ("difference of state", "difference", {**PLACE, "from": events // 4, "to": events * 3 // 4}),
        ("event by its link", "event", {**PLACE, "event": f"e{events - 10}"}),
        ("vitals", "vitals", PLACE),
        ("documents", "raw", PLACE),
    ]


async def measure(folder: Path, events: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return the median milliseconds of each page, by whether the process read the segments before."""
    found: dict[str, dict[str, float]] = {name: {} for name, _, _ in pages(events)}
    for name, kept in (("cold", 0), ("warm", SessionLimits().segment_cache_bytes)):
        async with Store.local(folder, session_limits=SessionLimits(segment_cache_bytes=kept)) as store:
            app = create_app(store, authorize=lambda *asked: True, reveal="always")  # noqa: ARG005
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                for what, page, asked in pages(events):
                    answer = await client.get(f"/{page}", params=asked)
                    answer.raise_for_status()
                    passed, processor = list[float](), list[float]()
                    with calm_collector():
                        for _ in range(rounds):
                            begin = time.perf_counter(), time.process_time()
                            await client.get(f"/{page}", params=asked)
                            passed.append((time.perf_counter() - begin[0]) * 1000)
                            processor.append((time.process_time() - begin[1]) * 1000)
                    found[what] |= {
                        name: statistics.median(passed),
                        f"{name} CPU": statistics.median(processor),
                    }
                    found[what]["kB"] = len(answer.content) / 1000
    return found


def main() -> None:
    """Print the table, and which pages take longer than they should."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:

        async def run() -> dict[str, dict[str, float]]:
            async with Store.local(folder) as store:
                await fill(store, options.events)
            return await measure(Path(folder), options.events, options.rounds)

        found = asyncio.run(run())
    columns = ("cold", "cold CPU", "warm", "warm CPU", "kB")
    table = Table("page", *columns, title=f"milliseconds, {options.events:,} events")
    for name, row in found.items():
        table.add_row(name, *(f"{row[column]:.0f}" for column in columns))
    console = Console()
    console.print(table)
    slow = [name for name, row in found.items() if row["cold CPU"] > AT_MOST_MS]
    verdict = f"missed by {', '.join(slow)}" if slow else "reached"
    console.print(f"at most {AT_MOST_MS:.0f} ms of CPU time, cold: {verdict}")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
