"""Find and remove files that no object has.

A file loses its object, or gets one, only within a transaction that writes. So does a file go here: no object
is recorded between the look at the table and the removal. A writer holds a lock on its mark until its object
is recorded; if it ends before its transaction does, that transaction finds no file and records nothing.

Services hide what has expired without it: a sweep only makes room, as Firestore's TTL policies and a bucket's
lifecycle rule do.
"""

import logging
import math
import sqlite3
from collections.abc import Sequence
from functools import partial
from typing import Final

from google.adk.platform import time as platform_time

from gcp_adk_store import machine
from gcp_adk_store.errors import StoreError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.local import object_rows
from gcp_adk_store.local.contents import Contents, FileContents
from gcp_adk_store.local.database import Database
from gcp_adk_store.local.file_names import ABANDONED_AGE_S, FileNames
from gcp_adk_store.model.payloads import LeftFile

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
            return await self.sweep_documents(now=now) + await self.sweep_objects(now=now)
        except StoreError as exc:
            logger.warning(
                "the sweep of expired data failed; the next one is in an hour: %s",
                exc,
                extra=telemetry.log_fields(exc),
            )
            return 0

    async def sweep_documents(self, *, now: float) -> int:
        """Remove up to 10,000 documents that have expired *now*, in Unix seconds, the first to expire first.

        Return their number.

        Raises:
            StoreError: the sweep could not go on; what it has removed stays removed.
        """
        removed = 0
        for _ in range(_STEPS):
            some = await self._database.write(lambda connection: _remove_documents(connection, now))
            removed += some
            if some < _AT_ONCE:
                break
        return removed

    async def sweep_objects(self, *, now: float) -> int:
        """Remove objects whose custom time has come, as a lifecycle rule does, and files without an object.

        A file that a killed process left goes at once, any other that no object has if it is older than a
        day, and none that is being written. One sweep removes at most 10,000 objects, and looks at some
        10,000 files. Return the number of removed objects and files.

        Raises:
            StoreError: as :meth:`sweep_documents`.
        """
        removed = 0
        for _ in range(_STEPS):
            some, unowned = await self._database.write(
                lambda connection: _remove_expired(connection, self._contents, now)
            )
            await self._contents.remove(unowned)
            removed += some
            if some < _AT_ONCE:
                break
        if isinstance(self._contents, FileContents):
            removed += await self._remove_left(self._contents, now)
        return removed

    async def left(self, *, every: bool) -> list[LeftFile]:
        """Return the files that marks name, or of *every* file, that no object has; none in memory.

        Takes 1 listing of the marks, and with *every* up to 257 more and 1 look at the table for each file.
        """
        contents = self._contents
        if not isinstance(contents, FileContents):
            return []
        marked = await contents.run(partial(FileNames.pending, now=platform_time.get_time()))
        found = {
            each.content: each for each in await self._unowned([each for each in marked if each.is_there])
        }
        for folder in await contents.run(FileNames.folders) if every else ():
            listed = await contents.run(partial(FileNames.listed, name=folder))
            found |= {each.content: each for each in await self._unowned(listed)}
        return [*found.values()]

    async def remove_left(self, files: Sequence[LeftFile]) -> list[LeftFile]:
        """Remove *files* that still no object has; return those that a writer holds.

        All removals of this process are durable on return.
        """
        contents = self._contents
        if not isinstance(contents, FileContents):
            return []
        held = {*await self._settle(contents, [each.content for each in files])}
        await contents.run(FileNames.synchronise)
        return [each for each in files if each.content in held]

    async def _remove_left(self, contents: FileContents, now: float) -> int:
        pending = await contents.run(partial(FileNames.pending, now=now))
        unowned = [each.content for each in await self._unowned(pending) if each.is_there]
        held = await self._settle(contents, [each.content for each in pending])
        removed = len({*unowned} - {*held})
        looked_at = 0
        # In random order, so that each file is reached some day if one sweep cannot look at all.
        for folder in sorted(await contents.run(FileNames.folders), key=lambda _: machine.random_bytes(8)):
            listed = await contents.run(partial(FileNames.listed, name=folder))
            old = [each for each in listed if each.since < now - ABANDONED_AGE_S]
            unowned = [each.content for each in await self._unowned(old)]
            removed += len(unowned) - len(await self._settle(contents, unowned))
            looked_at += len(listed)
            if looked_at >= _LOOKED_AT:
                break
        return removed

    async def _settle(self, files: FileContents, contents: Sequence[str]) -> list[str]:
        """Remove files without an object, and marks of those that have one; return those that are held."""

        def work(connection: sqlite3.Connection, some: Sequence[str]) -> list[str]:
            unowned = {*object_rows.unowned(connection, some)}
            for content in some:
                if content not in unowned:
                    files.settle(content)
            return [content for content in unowned if not files.unlink(content)]

        held: list[str] = []
        for start in range(0, len(contents), _AT_ONCE):
            held += await self._database.write(partial(work, some=contents[start : start + _AT_ONCE]))
        return held

    async def _unowned(self, files: Sequence[LeftFile]) -> list[LeftFile]:
        """Return those of *files* that no object has."""
        # In this order: the files were listed before, so one without an object now has lost it, or never had
        # one, or is being written.
        contents = [each.content for each in files]
        if not contents:
            return []
        unowned = {*await self._database.read(lambda connection: object_rows.unowned(connection, contents))}
        return [each for each in files if each.content in unowned]


def _begin(connection: sqlite3.Connection, now: float) -> bool:
    # A time in the future is of a clock that was wrong.
    return bool(
        connection.execute(
            "UPDATE sweeps SET time = ? WHERE time <= ? OR time > ?", (now, now - EVERY_S, now)
        ).rowcount
    )


def _remove_documents(connection: sqlite3.Connection, now: float) -> int:
    return connection.execute(
        "DELETE FROM documents WHERE id IN"
        " (SELECT id FROM documents WHERE expire_at <= ? ORDER BY expire_at LIMIT ?)",
        (int(now * 1e6), _AT_ONCE),
    ).rowcount


def _remove_expired(connection: sqlite3.Connection, contents: Contents, now: float) -> tuple[int, list[str]]:
    rows = object_rows.expired(connection, at=int(now * 1e6), at_most=_AT_ONCE)
    unowned = object_rows.remove(connection, rows)
    contents.doubt(unowned)
    return len(rows), unowned
