"""Compare instructions side by side: this engine, ADK's own and Jinja, on one template of 4 KB.

``make bench-templates`` runs it. Rounds are interleaved and medians of CPU time taken; read the ratios.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from google.adk.agents import LlmAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.sessions import InMemorySessionService
from google.adk.utils.instructions_utils import inject_session_state as adk_inject
from jinja2 import Template
from rich.console import Console
from rich.table import Table

from gcp_adk_store import inject_session_state
from gcp_adk_store.templates.parsing import parse_state_template

PLACEHOLDERS = 20
SIZE = 4096
REPEATS = 50
TARGETS = {"ADK's own": 4, "ADK's own, by Jinja": 10}
"""How many times as long each takes at least: some 12 and 250 where nothing else runs."""


def templates() -> tuple[str, str]:
    """Return an instruction with its placeholders in ADK's syntax, and in Jinja's."""
    filler = "You answer briefly, politely and only what was asked. " * 8
    piece = SIZE // PLACEHOLDERS - len("{key00}")
    texts = [filler[:piece] + f"{{key{number:02}}}" for number in range(PLACEHOLDERS)]
    ours = "".join(texts)
    return ours, ours.replace("{", "{{ ").replace("}", " }}")


async def context() -> ReadonlyContext:
    """Return a context whose session has all keys."""
    service = InMemorySessionService()
    state = {f"key{number:02}": f"value {number}" for number in range(PLACEHOLDERS)}
    session = await service.create_session(app_name="a", user_id="u", state=state)
    agent = LlmAgent(name="agent")
    return ReadonlyContext(
        InvocationContext(session_service=service, invocation_id="i", agent=agent, session=session)
    )


async def measure(rounds: int) -> dict[str, float]:
    """Return microseconds of CPU an instruction by subject: the median of the rounds."""
    ours, jinja = templates()
    where = await context()
    compiled = Template(jinja)
    state = dict(where.state)

    async def render_jinja() -> str:
        return str(compiled.render(state))

    async def parse_anew() -> str:
        parse_state_template.cache_clear()
        return await inject_session_state(ours, where)

    subjects: dict[str, Callable[[], Awaitable[str]]] = {
        "gcp_adk_store": lambda: inject_session_state(ours, where),
        "gcp_adk_store, parsed anew": parse_anew,
        "ADK's own": lambda: adk_inject(ours, where),
        "ADK's own, by Jinja": lambda: adk_inject(jinja, where, use_jinja2=True),
        "Jinja, compiled once": render_jinja,
    }
    expected = await adk_inject(ours, where)
    took: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(rounds):
        for name, render in subjects.items():
            start = time.process_time()
            for _ in range(REPEATS):
                rendered = await render()
            took[name].append((time.process_time() - start) / REPEATS * 1e6)
            if rendered != expected:
                raise RuntimeError(f"{name} filled the template in another way")
    return {name: statistics.median(times) for name, times in took.items()}


def main() -> None:
    """Measure, print the table, and write JSON if asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures = asyncio.run(measure(arguments.rounds))
    best = figures["gcp_adk_store"]
    table = Table(f"{SIZE} characters, {PLACEHOLDERS} placeholders", "µs", "times", box=None)
    for name, took in figures.items():
        table.add_row(name, f"{took:.1f}", f"{took / best:.1f}")
    console = Console()
    console.print(table)
    for name, least in TARGETS.items():
        ratio = figures[name] / best
        console.print(f"{name}, at least {least} times: {'reached' if ratio >= least else 'missed'}")
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
