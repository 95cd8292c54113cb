"""Remove what has expired, and files that no object has.

Services hide what has expired without it: a sweep only makes room, as Firestore's TTL policies and a bucket's
lifecycle rule do.
"""

import logging
import math
import sqlite3
from typing import Final

from google.adk.platform import time as platform_time

from gcp_adk_store import machine
from gcp_adk_store.errors import StoreError
from gcp_adk_store.local import object_rows
from gcp_adk_store.local.content_files import FileContents
from gcp_adk_store.local.contents import Contents
from gcp_adk_store.local.database import Database
from gcp_adk_store.operations import telemetry

logger = logging.getLogger(__name__)

EVERY_S: Final = 3600.0
"""Seconds from the start of one sweep to that of the next, in all processes of a store together."""

_AT_ONCE: Final = 500
"""Documents, objects or files of one step, so that no step keeps other writers waiting for long."""

_STEPS: Final = 20
"""Steps of one sweep for each kind: what it leaves, the next one removes."""


class Sweeper:
    """Sweeps a store once an hour, for all processes that use it together."""

    def __init__(self, database: Database, contents: Contents) -> None:
        self._database = database
        self._contents = contents
        self._look_at = -math.inf

    async def sweep_if_due(self) -> int:
        """Sweep if the last sweep began an hour ago, in any process; return how much was removed.

        Between two sweeps it takes no I/O. A failure is logged and not raised: the call that made room for it
        goes on. If the store cannot be opened, that call says so.
        """
        if machine.monotonic() < self._look_at:
            return 0
        self._look_at = machine.monotonic() + EVERY_S
        now = platform_time.get_time()
        try:
            if not await self._database.write(lambda connection: _begin(connection, now)):
                return 0
        except StoreError:
            return 0
        try:
            documents = await sweep_documents(self._database, now=now)
            return documents + await sweep_objects(self._database, self._contents, now=now)
        except StoreError as exc:
            logger.warning(
                "the sweep of expired data failed; the next one is in an hour: %s",
                exc,
                extra=telemetry.log_fields(exc),
            )
            return 0


async def sweep_documents(database: Database, *, now: float) -> int:
    """Remove up to 10,000 documents that have expired, the first to expire first.

    Args:
        database: Has the table of documents.
        now: Unix time in seconds.

    Returns:
        The number of removed documents.

    Raises:
        StoreError: the sweep could not go on; what it has removed stays removed.
    """

    def work(connection: sqlite3.Connection) -> int:
        return connection.execute(
            "DELETE FROM documents WHERE id IN"
            " (SELECT id FROM documents WHERE expire_at <= ? ORDER BY expire_at LIMIT ?)",
            (int(now * 1e6), _AT_ONCE),
        ).rowcount

    removed = 0
    for _ in range(_STEPS):
        some = await database.write(work)
        removed += some
        if some < _AT_ONCE:
            break
    return removed


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


def _begin(connection: sqlite3.Connection, now: float) -> bool:
    # A time in the future is of a clock that was wrong.
    return bool(
        connection.execute(
            "UPDATE sweeps SET time = ? WHERE time <= ? OR time > ?", (now, now - EVERY_S, now)
        ).rowcount
    )


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
