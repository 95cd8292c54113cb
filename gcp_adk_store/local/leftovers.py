"""Find files that no object has, and remove them while writers go on.

A file loses its object, or gets one, only within a transaction that writes. So does a file go here: no object
is recorded between the look at the table and the removal. A writer holds a lock on its mark until its object
is recorded; if it ends before its transaction does, that transaction finds no file and records nothing.
"""

import sqlite3
from collections.abc import Sequence
from typing import Final

from google.adk.platform import time as platform_time

from gcp_adk_store.local import object_rows
from gcp_adk_store.local.content_files import FileContents
from gcp_adk_store.local.database import Database
from gcp_adk_store.local.file_names import FoundFile
from gcp_adk_store.model.payloads import LeftFile

_AT_ONCE: Final = 500
"""Files of one step, so that no step keeps other writers waiting for long."""


class Leftovers:
    """The files of one store that no object has."""

    def __init__(self, database: Database, contents: FileContents) -> None:
        self._database = database
        self._contents = contents

    async def find(self, *, every: bool) -> list[LeftFile]:
        """Return the files that marks name, or of *every* file, that no object has.

        Takes 1 listing of the marks, and with *every* up to 257 more and 1 look at the table for each file.
        """
        marked = await self._contents.pending(now=platform_time.get_time())
        found = {
            each.content: each for each in await self.unowned([each for each in marked if each.is_there])
        }
        for number in await self._contents.folders() if every else ():
            listed = await self._contents.listed(number)
            found |= {each.content: each for each in await self.unowned(listed)}
        return [
            LeftFile(content=each.content, name=each.name, size=each.size, since=each.time)
            for each in found.values()
        ]

    async def remove(self, files: Sequence[LeftFile]) -> list[LeftFile]:
        """Remove *files* that still no object has; return those that a writer holds.

        All removals of this process are durable on return.
        """
        held = {*await self.settle([each.content for each in files])}
        await self._contents.synchronise()
        return [each for each in files if each.content in held]

    async def settle(self, contents: Sequence[str]) -> list[str]:
        """Remove files without an object, and marks of those that have one; return those that are held."""

        def work(connection: sqlite3.Connection, some: Sequence[str]) -> list[str]:
            unowned = {*object_rows.unowned(connection, some)}
            for content in some:
                if content not in unowned:
                    self._contents.settle(content)
            return [content for content in unowned if not self._contents.unlink(content)]

        held: list[str] = []
        for start in range(0, len(contents), _AT_ONCE):
            some = contents[start : start + _AT_ONCE]
            held += await self._database.write(lambda connection, some=some: work(connection, some))  # type: ignore[misc]
        return held

    async def unowned(self, files: Sequence[FoundFile]) -> list[FoundFile]:
        """Return those of *files* that no object has."""
        # In this order: the files were listed before, so one without an object now has lost it, or never had
        # one, or is being written.
        contents = [each.content for each in files]
        if not contents:
            return []
        unowned = {*await self._database.read(lambda connection: object_rows.unowned(connection, contents))}
        return [each for each in files if each.content in unowned]
