"""Take steps of all workloads in a process of this machine, and report each call to the parent."""

import asyncio
import contextlib
import logging
import os
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from gcp_adk_store import ArtifactLimits, MemoryLimits, StoreError
from tests.chaos.workloads import WORKLOADS
from tests.simulation.fleet import LIMITS, Actor
from tests.simulation.journal import Call, Journal
from tests.support.stores import At, open_store

_LEASE_S: Final = 1.5
"""So that the turn of a worker that was killed ends soon."""
_HASTY: Final[Mapping[str, Any]] = {
    "session_limits": replace(LIMITS, rpc_timeout_s=0.8, deadline_s=3.0),
    "artifact_limits": ArtifactLimits(request_timeout_s=0.8, deadline_s=4.0),
    "memory_limits": MemoryLimits(deadlines_s={"add_events_to_memory": 3.0, "delete_memory": 3.0}),
}
"""So that some calls fail at their deadline."""

Place = Path | tuple[str, str]
"""A folder, or the beginnings of a project's and a bucket's name."""
Report = tuple[str, int, Call, list[list[str]]]
"""A workload, the number of a call of it in the process, the call, and what runs of agents have seen."""


def at(place: Place, workload: str) -> At:
    """Return the store of *workload*."""
    if isinstance(place, Path):
        return {"folder": f"{place / workload}"}
    project, bucket = place
    return {"project": f"{project}-{workload}", "bucket": f"{bucket}-{workload}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a worker is to do."""

    name: str
    seed: int
    place: Place
    steps: int
    """Of each workload."""
    logs: Path
    environ: Mapping[str, str]
    """Where the emulators are."""


class RealWorld:
    """This machine, as far as an actor asks a world for anything."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    @property
    def now(self) -> float:
        """The time of the machine's one monotonic clock."""
        return time.monotonic()

    def note(self, text: str) -> None:
        """Keep no trace: the parent has all calls."""


@dataclass(frozen=True, slots=True)
class Named:
    """This process, as far as an actor asks a process for anything."""

    name: str


class ReportedJournal(Journal):
    """Reports each call as it begins and as it ends: a process that is killed reports no more."""

    def __init__(self, world: Any, report: Callable[[int, Call, list[list[str]]], None]) -> None:
        super().__init__(world)
        self._report = report

    def report(self, number: int) -> None:
        self._report(number, self.calls[number], self.seen)


def work(task: Task, parent: "Connection[Report | str, None]") -> None:
    """Take all steps, unless it is killed; what fails otherwise, the parent gets to know as a text."""
    os.environ |= task.environ
    logging.basicConfig(filename=task.logs / f"{task.name}.log", level=logging.WARNING)
    try:
        asyncio.run(_work(task, parent))
    except Exception:  # noqa: BLE001  # whatever it is, the parent fails
        parent.send(traceback.format_exc())


async def _work(task: Task, parent: "Connection[Report | str, None]") -> None:
    async with asyncio.TaskGroup() as group:
        for name in WORKLOADS:
            group.create_task(_take(task, name, parent))


async def _take(task: Task, name: str, parent: "Connection[Report | str, None]") -> None:
    def report(number: int, call: Call, seen: list[list[str]]) -> None:
        parent.send((name, number, call, seen))

    workload = WORKLOADS[name]
    world: Any = RealWorld(task.seed)
    process: Any = Named(task.name)
    store = open_store(at(task.place, name), **{**_HASTY, **workload.options})
    actor = Actor(world, ReportedJournal(world, report), process, store)
    actor.lease_s = _LEASE_S
    await actor.take(range(task.steps), workload.act, pause_s=0.1, loops=1)
    with contextlib.suppress(StoreError):  # of an append that was to be stored behind
        await store.close()
