"""Measure the sandbox: its start, a run in a fresh process, a call of the host, and many runs at a time.

It measures runs alone, and calls of tools on sessions in memory.

``make bench-sandbox`` runs it; it prints the load of the machine beside the figures, which they depend on.
"""

import argparse
import asyncio
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

from google.adk.sessions import InMemorySessionService
from rich.console import Console
from rich.table import Table

from gcp_adk_store.ces import PythonRuntime
from gcp_adk_store.ces.sandbox import BubblewrapSandbox, default_folder
from tools.benchmarks.timing import timed

ENTRY = "tools.benchmarks.sandboxed.entry:run"
STARTS = 10
RUNS = 200
AT_A_TIME = 32
PAUSE_S = 0.05
"""Between two calls of a tool: far less than a model takes."""
TOOL = '''def half(number: int) -> dict:
    """Half a number."""
    set_variable("last", number)
    return {"half": number / 2}
'''


async def echo(call: dict[str, Any]) -> dict[str, Any]:
    """Answer a host call with itself."""
    return call


async def measure(folder: Path) -> dict[str, list[float]]:
    """Return milliseconds by what was measured."""
    rows: dict[str, list[float]] = {}
    for name, preload in (("start", ("numpy", "google.protobuf.struct_pb2")), ("start without numpy", ())):
        took = []
        for _ in range(STARTS):
            box = BubblewrapSandbox(entry=ENTRY, environment=folder, preload=preload)
            began = time.perf_counter()
            await box.run({"calls": 0}, echo)
            took.append((time.perf_counter() - began) * 1000)
            await box.close()
        rows[f"{name}, with its first run"] = took
    box = BubblewrapSandbox(entry=ENTRY, environment=folder, runs_at_once=AT_A_TIME)
    await box.start()
    try:
        rows["run"] = await timed(RUNS, lambda: box.run({"calls": 0}, echo))
        rows["run with 10 host calls"] = await timed(RUNS, lambda: box.run({"calls": 10}, echo))
        rows["run that prints 1000 lines"] = await timed(
            RUNS, lambda: box.run({"calls": 0, "lines": 1000}, echo)
        )
        together = lambda: asyncio.gather(*(box.run({"calls": 0}, echo) for _ in range(AT_A_TIME)))  # noqa: E731
        rows[f"{AT_A_TIME} runs at a time, each"] = [each / AT_A_TIME for each in await timed(10, together)]
    finally:
        await box.close()
    return rows | await measure_tools(folder)


async def measure_tools(folder: Path) -> dict[str, list[float]]:
    """Return milliseconds of calls of a tool that changes a variable, on short sessions in memory."""
    rows: dict[str, list[float]] = {}
    sessions = InMemorySessionService()
    keys = [f"bench/ada/s{number}" for number in range(AT_A_TIME)]
    for key in keys:
        app, user, session = key.split("/")
        await sessions.create_session(app_name=app, user_id=user, session_id=session)
    box = BubblewrapSandbox(environment=folder, runs_at_once=AT_A_TIME)
    calls = 0

    async def call(key: str) -> None:
        nonlocal calls
        calls += 1
        number = calls
        ran = await runtime.run_tool(TOOL, "half", {"number": number}, key)
        assert ran.result == {"half": number / 2}, ran.error

    async def after_a_pause() -> None:
        await asyncio.sleep(PAUSE_S)
        rows["run_tool, after a pause"] += await timed(1, lambda: call(keys[calls % AT_A_TIME]))

    try:
        async with PythonRuntime(sessions, sandbox=box) as runtime:
            began = time.perf_counter()
            await call(keys[0])
            rows["start, with the first run_tool"] = [(time.perf_counter() - began) * 1000]
            rows["run_tool"] = await timed(RUNS, lambda: call(keys[calls % AT_A_TIME]))
            rows["run_tool, after a pause"] = []
            await timed(RUNS // 4, after_a_pause)
            together = lambda: asyncio.gather(*(call(key) for key in keys))  # noqa: E731
            rows[f"{AT_A_TIME} of run_tool at a time, each"] = [
                each / AT_A_TIME for each in await timed(10, together)
            ]
    finally:
        await box.close()
    return rows


def main() -> None:
    """Print the table, and keep it as JSON where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environment", type=Path, default=default_folder())
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    before = os.getloadavg()[0]
    rows = asyncio.run(measure(options.environment.absolute()))
    table = Table("", "p50 ms", "p95 ms", box=None)
    for name, took in rows.items():
        table.add_row(name, f"{statistics.median(took):.1f}", f"{sorted(took)[int(len(took) * 0.95)]:.1f}")
    ratio = statistics.median(rows["run_tool, after a pause"]) / statistics.median(rows["run"])
    console = Console()
    console.print(table)
    console.print(f"run_tool, after a pause: {ratio:.2f} times the run")
    console.print(f"load of the last minute: {before:.1f} before, {os.getloadavg()[0]:.1f} after")
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
