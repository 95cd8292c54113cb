"""Keep the bytes of objects in a database in memory."""

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from gcp_adk_store import machine
from gcp_adk_store.local.contents import Content, Summing
from gcp_adk_store.local.database import Database


class MemoryContents:
    """Contents in pieces in a database, for one that is in memory."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def draft(self) -> AsyncIterator["MemoryDraft"]:
        """Write pieces within a block; see :meth:`Contents.draft`."""
        draft = MemoryDraft(self._database)
        try:
            yield draft
        except GeneratorExit:
            raise  # the event loop has ended, and with it soon the process
        except BaseException:
            await self.remove([draft.id])
            raise

    async def read(self, content: str, start: int, end: int) -> bytes | None:
        """Return parts of the pieces, joined; see :meth:`Contents.read`."""

        def work(connection: sqlite3.Connection) -> list[tuple[int, bytes]]:
            return connection.execute(
                "SELECT start, bytes FROM pieces WHERE content = ? AND start <= ? ORDER BY start",
                (content, end),
            ).fetchall()

        found = await self._database.read(work)
        pieces = [data[max(0, start - first) : max(0, end - first)] for first, data in found]
        return b"".join(pieces) if found else None

    def require(self, content: str) -> None:
        """Accept any: nobody else removes them."""

    def doubt(self, contents: Sequence[str]) -> None:
        """Note nothing: they end with the process."""

    async def remove(self, contents: Sequence[str]) -> None:
        """Remove pieces that no object has; see :meth:`Contents.remove`."""

        def work(connection: sqlite3.Connection) -> None:
            for content in contents:
                # A cancelled call may have recorded an object that has them.
                connection.execute(
                    "DELETE FROM pieces WHERE content = :it"
                    " AND NOT EXISTS (SELECT 1 FROM objects WHERE content = :it)",
                    {"it": content},
                )

        if contents:
            await self._database.write(work)

    async def close(self) -> None:
        """Keep all: the database has it."""


class MemoryDraft:
    """Pieces that are being written."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sums = Summing()
        self.id = machine.random_bytes(16).hex()

    async def write(self, data: bytes) -> None:
        """Append *data* as one piece."""
        start = self._sums.size
        await self._database.write(
            lambda connection: connection.execute(
                # An empty piece leaves its place to the next one.
                "INSERT OR REPLACE INTO pieces VALUES (?, ?, ?)",
                (self.id, start, data),
            )
        )
        self._sums.update(data)

    async def finish(self) -> Content:
        """Return the description of all pieces."""
        return self._sums.content(self.id)
