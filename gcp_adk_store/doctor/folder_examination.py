"""Examine the folder of a local store: read its file, run the probes, and look at its disk."""

import asyncio
import os
import shutil
import sqlite3
import stat
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from gcp_adk_store.doctor.folder import FolderFacts, mount_of
from gcp_adk_store.doctor.measures import count_memories
from gcp_adk_store.doctor.probes import probe_document, probe_object
from gcp_adk_store.errors import StoredDataError, StoreError
from gcp_adk_store.local.backend import DATABASE, OBJECTS, open_backend
from gcp_adk_store.local.database import Database
from gcp_adk_store.settings import ArtifactLimits, SessionLimits

SAMPLES: Final = 20
DEADLINE_S: Final = 15.0
MOUNTS: Final = Path("/proc/self/mountinfo")

_FINDINGS: Final = 3
_STEPS: Final = 1000
"""Of SQLite's machine, some microseconds: how often the integrity check looks at the time."""


async def examine_folder(
    path: str, *, prefix: str, samples: int = SAMPLES, deadline_s: float = DEADLINE_S
) -> FolderFacts:
    """Return the facts of the store in the folder *path*, which exists, and leave nothing behind.

    Args:
        path: The folder.
        prefix: As in :class:`~gcp_adk_store.StoreSettings`.
        samples: How often each probe reads its document or object.
        deadline_s: The deadline of each call of a probe, and of the integrity check, in seconds.
    """
    facts = await asyncio.to_thread(_looked_at, Path(path))
    facts = await _read(facts, deadline_s)
    return facts if facts.refusal else await _probed(facts, prefix, samples=samples, deadline_s=deadline_s)


def _looked_at(path: Path) -> FolderFacts:
    """Return the facts that the file system reports."""
    folder = path.resolve()
    used = shutil.disk_usage(folder)
    return FolderFacts(
        folder=str(folder),
        database=str(folder / DATABASE),
        mode=stat.S_IMODE(folder.stat().st_mode),
        unwritable=_unwritable(folder),
        free_bytes=used.free,
        total_bytes=used.total,
        mount=mount_of(str(folder), os.fsdecode(MOUNTS.read_bytes())) if MOUNTS.exists() else None,
    )


def _unwritable(folder: Path) -> list[str]:
    places = {folder: os.R_OK | os.W_OK | os.X_OK, folder / OBJECTS: os.R_OK | os.W_OK | os.X_OK}
    files = (f"{DATABASE}{suffix}" for suffix in ("", "-wal", "-shm"))
    places |= {folder / name: os.R_OK | os.W_OK for name in files}
    return [str(place) for place, needs in places.items() if place.exists() and not os.access(place, needs)]


async def _read(facts: FolderFacts, deadline_s: float) -> FolderFacts:
    """Return the facts with what the file itself says."""
    database = Database(Path(facts.database))

    def check(connection: sqlite3.Connection) -> list[str] | None:
        return _integrity(connection, ends_at=time.monotonic() + deadline_s)

    try:
        mode: str = await database.read(lambda sql: sql.execute("PRAGMA journal_mode").fetchone()[0])
        facts = replace(facts, journal_mode=mode)
        return replace(facts, damage=await database.read(check))
    except StoredDataError as exc:
        # Before the mode was known, the file has another format, or its first page is damaged.
        return replace(facts, damage=[str(exc)]) if facts.journal_mode else replace(facts, refusal=str(exc))
    except StoreError as exc:
        return replace(facts, refusal=str(exc))
    finally:
        await database.close()


def _integrity(connection: sqlite3.Connection, *, ends_at: float) -> list[str] | None:
    """Return the first damages that SQLite finds; ``None`` if it does not end in time."""
    connection.set_progress_handler(lambda: time.monotonic() > ends_at, _STEPS)
    try:
        rows = connection.execute(f"PRAGMA integrity_check({_FINDINGS})").fetchall()
    except sqlite3.OperationalError as exc:
        if exc.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            return None
        raise
    finally:
        connection.set_progress_handler(None, 0)
    return [line for (text,) in rows for line in text.splitlines() if line != "ok"]


async def _probed(facts: FolderFacts, prefix: str, *, samples: int, deadline_s: float) -> FolderFacts:
    """Return the facts with the probes' results; one follows the other, so that times do not overlap."""
    backend = open_backend(
        facts.folder,
        SessionLimits(deadline_s=deadline_s),
        ArtifactLimits(deadline_s=deadline_s, request_timeout_s=deadline_s),
    )
    try:
        documents = await probe_document(backend.documents, prefix, samples=samples)
        objects = await probe_object(backend.objects, samples=samples)
        memories = await count_memories(backend.documents, prefix)
    finally:
        await backend.objects.close()
    return replace(facts, documents=documents, objects=objects, prefix=prefix, memories=memories)
