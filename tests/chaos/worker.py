"""Append, save and delete until asked to stop, or killed: one process of a run."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Final, Literal, TypedDict, Unpack

from gcp_adk_store import ArtifactLimits, MemoryLimits, SessionLimits, Store
from gcp_adk_store.settings.options import StoreOptions
from tests.chaos.journal import Journal
from tests.chaos.places import WITH_BUCKET, WITHOUT_BUCKET
from tests.chaos.writer import Services, Writer

SESSION_LIMITS: Final = SessionLimits(
    seal_tail_bytes=3000,
    inline_bytes=2000,
    event_text_bytes=6000,
    state_value_bytes=1500,
)
_LEASE_S: Final = 1.5
"""So that the turn of a worker that was killed ends soon."""
_MODES: Final[tuple[Literal["merge", "raise"], ...]] = ("merge", "raise")


class _Times(TypedDict, total=False):
    """How long calls may take."""

    session_limits: SessionLimits
    artifact_limits: ArtifactLimits
    memory_limits: MemoryLimits


_HASTY: Final[_Times] = {
    "session_limits": replace(SESSION_LIMITS, rpc_timeout_s=0.8, deadline_s=3.0),
    "artifact_limits": ArtifactLimits(request_timeout_s=0.8, deadline_s=4.0),
    "memory_limits": MemoryLimits(deadlines_s={"add_events_to_memory": 3.0, "delete_memory": 3.0}),
}
"""So that some calls fail at their deadline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a worker is to do."""

    name: str
    seed: int
    place: str | tuple[str, str]
    """A folder, or a project and a bucket."""
    journals: Path
    """Folder for its journal, and for its log."""
    writers: int
    """Tasks that write, through services that they share."""
    environ: Mapping[str, str]
    """Where the emulators are."""


def work(task: Task, run: "Connection[bool, bool]") -> None:
    """Write until the other end of *run* is closed; say there that it begins, and so for each operation."""
    os.environ |= task.environ
    logging.basicConfig(filename=task.journals / f"{task.name}.log", level=logging.WARNING)
    asyncio.run(_work(task, run))


def _open(place: str | tuple[str, str], prefix: str, **options: Unpack[StoreOptions]) -> Store:
    """Return a store; in the cloud, that of one of the prefixes has no bucket."""
    if isinstance(place, str):
        return Store.local(place, prefix=prefix, **options)
    project, bucket = place
    return Store.connect(
        project=project, bucket=bucket if prefix == WITH_BUCKET else None, prefix=prefix, **options
    )


def _services(place: str | tuple[str, str], **options: Unpack[_Times]) -> Services:
    stores = [
        _open(place, prefix, on_conflict=mode, **options)
        for prefix in (WITH_BUCKET, WITHOUT_BUCKET)
        for mode in _MODES
    ]
    behind = [_open(place, prefix, durability="turn", **options) for prefix in (WITH_BUCKET, WITHOUT_BUCKET)]
    return Services(
        sessions={
            prefix: [store.sessions for store in some]
            for prefix, some in ((WITH_BUCKET, stores[:2]), (WITHOUT_BUCKET, stores[2:]))
        },
        turns={
            WITH_BUCKET: [store.turns for store in (*stores[:2], behind[0])],
            WITHOUT_BUCKET: [store.turns for store in (*stores[2:], behind[1])],
        },
        memories={WITH_BUCKET: stores[0].memory, WITHOUT_BUCKET: stores[2].memory},
        artifacts=stores[0].artifacts,
    )


async def work_alone(task: Task, steps: int) -> None:
    """Let each writer take so many steps, one after the other: what is stored then is always the same."""
    journal = Journal(task.journals / f"{task.name}.jsonl")
    services = _services(task.place, session_limits=SESSION_LIMITS)
    writers = _writers(task, services, journal, lease_s=60)
    for _ in range(steps):
        for writer in writers:
            await writer.step()
    await services.close()


def _writers(task: Task, services: Services, journal: Journal, *, lease_s: float) -> list[Writer]:
    names = [f"{task.name}-{number}" for number in range(task.writers)]
    return [
        Writer(name, Random(f"{task.seed}/{name}"), services, journal, lease_s=lease_s)  # noqa: S311
        for name in names
    ]


async def _work(task: Task, run: "Connection[bool, bool]") -> None:
    services = _services(task.place, **_HASTY)

    def report() -> None:
        with contextlib.suppress(OSError):  # nobody listens at the end
            run.send(True)  # noqa: FBT003  # any value

    journal = Journal(task.journals / f"{task.name}.jsonl", report)
    stopping = asyncio.Event()
    writers = _writers(task, services, journal, lease_s=_LEASE_S)
    working = [asyncio.create_task(writer.run(stopping)) for writer in writers]
    report()
    await asyncio.to_thread(run.poll, None)
    stopping.set()
    await asyncio.gather(*working)
    await services.close()
