"""Append, save and delete until told to stop, or killed: one process of a run."""

import asyncio
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Final, Literal, Unpack

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
    rpc_timeout_s=0.8,
    deadline_s=3.0,
)
_MODES: Final[tuple[Literal["merge", "raise"], ...]] = ("merge", "raise")
MEMORY_LIMITS: Final = MemoryLimits(deadlines_s={"add_events_to_memory": 3.0, "delete_memory": 3.0})
ARTIFACT_LIMITS: Final = ArtifactLimits(request_timeout_s=0.8, deadline_s=4.0)


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
    """Write until the other end of *run* is closed; say there when it begins."""
    os.environ |= task.environ
    logging.basicConfig(filename=task.journals / f"{task.name}.log", level=logging.WARNING)
    asyncio.run(_work(task, run))


def _open(place: str | tuple[str, str], prefix: str, **options: Unpack[StoreOptions]) -> Store:
    """Return a store; in the cloud, that of one of the prefixes has no bucket."""
    options |= {
        "session_limits": SESSION_LIMITS,
        "artifact_limits": ARTIFACT_LIMITS,
        "memory_limits": MEMORY_LIMITS,
    }
    if isinstance(place, str):
        return Store.local(place, prefix=prefix, **options)
    project, bucket = place
    return Store.connect(
        project=project, bucket=bucket if prefix == WITH_BUCKET else None, prefix=prefix, **options
    )


async def _work(task: Task, run: "Connection[bool, bool]") -> None:
    stores = [
        _open(task.place, prefix, on_conflict=mode)
        for prefix in (WITH_BUCKET, WITHOUT_BUCKET)
        for mode in _MODES
    ]
    behind = [_open(task.place, prefix, durability="turn") for prefix in (WITH_BUCKET, WITHOUT_BUCKET)]
    services = Services(
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
    journal = Journal(task.journals / f"{task.name}.jsonl")
    names = [f"{task.name}-{number}" for number in range(task.writers)]
    stopping = asyncio.Event()
    working = [
        asyncio.create_task(
            Writer(name, Random(f"{task.seed}/{name}"), services, journal).run(stopping)  # noqa: S311
        )
        for name in names
    ]
    run.send(True)  # noqa: FBT003  # any value
    await asyncio.to_thread(run.poll, None)
    stopping.set()
    await asyncio.gather(*working)
    await services.close()
