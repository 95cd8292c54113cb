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
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.local import object_rows
from gcp_adk_store.local.content_files import FileContents
from gcp_adk_store.local.contents import Contents
from gcp_adk_store.local.database import Database
from gcp_adk_store.local.file_names import ABANDONED_AGE_S
from gcp_adk_store.local.leftovers import Leftovers

logger = logging.getLogger(__name__)

EVERY_S: Final = 3600.0
"""Seconds from the start of one sweep to that of the next, in all processes of a store together."""

_AT_ONCE: Final = 500
"""Documents, objects or files of one step, so that no step keeps other writers waiting for long."""

_STEPS: Final = 20
"""Steps of one sweep for each kind: what it leaves, the next one removes."""

_LOOKED_AT: Final = 10_000
"""Files that one sweep looks at: some tens of milliseconds."""


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

    A file that a killed process left goes at once, any other that no object has if it is older than a day,
    and none that is being written. One sweep removes at most 10,000 objects, and looks at some 10,000 files.

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
        expired, unowned = await database.write(lambda connection: _remove_expired(connection, contents, now))
        await contents.remove(unowned)
        removed += expired
        if expired < _AT_ONCE:
            break
    if isinstance(contents, FileContents):
        removed += await _remove_left(Leftovers(database, contents), contents, now)
    return removed


def _begin(connection: sqlite3.Connection, now: float) -> bool:
    # A time in the future is of a clock that was wrong.
    return bool(
        connection.execute(
            "UPDATE sweeps SET time = ? WHERE time <= ? OR time > ?", (now, now - EVERY_S, now)
        ).rowcount
    )


def _remove_expired(connection: sqlite3.Connection, contents: Contents, now: float) -> tuple[int, list[str]]:
    rows = object_rows.expired(connection, at=int(now * 1e6), at_most=_AT_ONCE)
    unowned = object_rows.remove(connection, rows)
    contents.doubt(unowned)
    return len(rows), unowned


async def _remove_left(left: Leftovers, contents: FileContents, now: float) -> int:
    pending = await contents.pending(now=now)
    unowned = [each.content for each in await left.unowned(pending) if each.is_there]
    held = await left.settle([each.content for each in pending])
    removed = len({*unowned} - {*held})
    looked_at = 0
    # In random order, so that each file is reached some day if one sweep cannot look at all.
    for number in sorted(await contents.folders(), key=lambda _: machine.random_bytes(8)):
        listed = await contents.listed(number)
        old = [each for each in listed if each.time < now - ABANDONED_AGE_S]
        unowned = [each.content for each in await left.unowned(old)]
        removed += len(unowned) - len(await left.settle(unowned))
        looked_at += len(listed)
        if looked_at >= _LOOKED_AT:
            break
    return removed
