"""Remove objects that have expired, and files that no object has."""

import sqlite3
from typing import Final

from gcp_adk_store.local import object_rows
from gcp_adk_store.local.contents import Contents, FileContents
from gcp_adk_store.local.database import Database

_AT_ONCE: Final = 500
"""Objects or files of one step, so that no step keeps other writers waiting for long."""

_STEPS: Final = 20
"""Steps of one sweep: what it leaves, the next one removes."""


async def sweep_objects(database: Database, contents: Contents, *, now: float) -> int:
    """Remove objects whose custom time has come, as a lifecycle rule does, and files without an object.

    A file goes if it is older than a day and nobody writes it. One sweep removes at most 10,000 objects and
    10,000 files.

    Args:
        database: Has the table of objects.
        contents: Has their bytes.
        now: Unix time in seconds.

    Returns:
        The number of removed objects and files.

    Raises:
        StoreError: the sweep could not go on; what it has removed stays removed.
    """
    removed = 0
    for _ in range(_STEPS):
        expired, unowned = await database.write(lambda connection: _remove_expired(connection, now))
        await contents.remove(unowned)
        removed += expired
        if expired < _AT_ONCE:
            break
    if isinstance(contents, FileContents):
        removed += await _remove_orphans(database, contents, now)
    return removed


def _remove_expired(connection: sqlite3.Connection, now: float) -> tuple[int, list[str]]:
    rows = object_rows.expired(connection, at=int(now * 1e6), at_most=_AT_ONCE)
    return len(rows), object_rows.remove(connection, rows)


async def _remove_orphans(database: Database, contents: FileContents, now: float) -> int:
    removed = 0
    old = await contents.old(now=now)
    for start in range(0, len(old), _AT_ONCE):
        # In this order: a writer that has released its file has recorded its object before, or never will.
        unlocked = await contents.unlocked(old[start : start + _AT_ONCE])
        orphans = await database.read(
            lambda connection, some=unlocked: object_rows.unowned(connection, some)  # type: ignore[misc]
        )
        await contents.remove(orphans)
        removed += len(orphans)
    return removed
