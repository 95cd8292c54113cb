"""Measure bulk jobs on a local store, with one worker and with two; needs the extra ``beam``.

``make bench-bulk`` runs it. Each job runs in a process of its own, which reports its own peak of memory and
that of the largest of its workers.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from google.adk.events import Event
from google.genai import types
from rich.console import Console
from rich.table import Table

from gcp_adk_store import Store, StoreSettings
from gcp_adk_store.kernel.concurrency import gather
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.state import ScopedState
from gcp_adk_store.moving.importing import SessionHeader
from gcp_adk_store.moving.records import OwnStore, Record

APP = "bench"
EVENTS = 5
USERS_OF = 10
"""Sessions of each user."""
AT_ONCE = 50
JOBS = ("read", "export")
TWO = ("--direct_num_workers", "2", "--direct_running_mode", "multi_processing")


async def events_of(number: int) -> AsyncIterator[Event]:
    """Yield the events of a session, of about 600 bytes each."""
    for step in range(EVENTS):
        content = types.Content(role="model", parts=[types.Part(text=f"{number} {step} " + "word " * 60)])
        event = Event(author="agent", invocation_id=f"i{step}", content=content)
        event.actions.state_delta["step"] = step
        yield event


async def fill(folder: Path, sessions: int) -> None:
    """Make a store of so many sessions."""
    async with Store.local(folder) as store:
        target = OwnStore(store.sessions, closes=False)

        async def write(number: int) -> None:
            key = SessionKey(app=APP, user=f"u{number // USERS_OF:06}", session=f"s{number}")
            header = SessionHeader(key=key, state={"step": EVENTS - 1}, last_update_time=1.0)
            record = Record(header=header, shared=ScopedState(), stamp="", events=events_of(number))
            await target.write(record, record.events)

        for start in range(0, sessions, AT_ONCE):
            await gather(write(number) for number in range(start, min(start + AT_ONCE, sessions)))


def measure(folder: str, job: str, *, two: bool) -> dict[str, Any]:
    """Run a job in this process, and return seconds, sessions and MiB."""
    from gcp_adk_store.bulk import ReadEvents, ReadSessions, WriteParquet, run  # noqa: PLC0415  # an extra

    def build(pipeline: Any, store: Any) -> None:
        infos = pipeline | ReadSessions(store, app_name=APP)
        if job == "export":
            infos | ReadEvents(store) | WriteParquet(f"{folder}/{job}-{two}")

    began = time.perf_counter()
    counts = run(build, StoreSettings(local=folder), TWO if two else ())
    took_s = time.perf_counter() - began
    peaks = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "job": job,
        "workers": 1 + two,
        "sessions": counts["sessions"],
        "seconds": round(took_s, 2),
        "sessions_per_s": round(counts["sessions"] / took_s),
        "peak_mib": [round(peak / 1024) for peak in peaks],
    }


def measured(folder: Path, job: str, *, two: bool) -> dict[str, Any]:
    """Return what a process of its own measures."""
    arguments = ["--measure", job, "--folder", str(folder), *(["--two"] if two else [])]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tools.benchmarks.bulk", *arguments],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print the table, and keep it as JSON where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1,000 sessions instead of 20,000")
    parser.add_argument("--sessions", type=int, nargs="+", help="other numbers of sessions")
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=JOBS, help="some of the jobs")
    parser.add_argument("--workers", type=int, nargs="+", choices=(1, 2), default=(1, 2))
    parser.add_argument("--folder", type=Path, help="where the store lies; by default a temporary folder")
    parser.add_argument("--measure", choices=JOBS, help=argparse.SUPPRESS)
    parser.add_argument("--two", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(str(options.folder), options.measure, two=options.two)))
        return
    sizes = options.sessions or ([100, 1000] if options.quick else [2000, 20_000])
    rows = []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for size in sizes:
            store = Path(folder) / f"{size}"
            asyncio.run(fill(store, size))
            rows += [
                measured(store, job, two=workers > 1) for job in options.jobs for workers in options.workers
            ]
    table = Table("job", "sessions", "workers", "seconds", "sessions/s", "peak MiB, of a worker", box=None)
    for row in rows:
        peaks = row["peak_mib"]
        shown = f"{peaks[0]}" if row["workers"] == 1 else f"{peaks[0]}, {peaks[1]}"
        table.add_row(
            row["job"],
            f"{row['sessions']:,}",
            f"{row['workers']}",
            f"{row['seconds']}",
            f"{row['sessions_per_s']:,}",
            shown,
        )
    Console().print(table)
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
