"""Pace reads and writes by Firestore's 500/50/5 rule: 500 in a second, half as many more every 5 minutes.

https://firebase.google.com/docs/firestore/best-practices#ramping_up_traffic
"""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from gcp_adk_store.codec.writes import Delete, Document, Page, Write, Written
from gcp_adk_store.ports.documents import Clock, Documents, Reads

FIRST_RATE: Final = 500.0
"""Documents in a second, of all processes together."""
GROWTH: Final = 1.5
PERIOD_S: Final = 300.0

_AHEAD_S: Final = 1.0
"""Seconds of its rate that a process may spend at once."""

OnDocuments = Callable[[str, int, float], object]
"""Called with ``read`` or ``written``, a number of documents, and the seconds of the wait for them."""


class Ramp:
    """The rate of one of several processes, which begin with equal shares; safe for threads."""

    def __init__(self, processes: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin now; *clock* tells seconds."""
        self._share = 1 / processes
        self._clock = clock
        self._begun_at = self._paid_at = clock()
        self._guard = threading.Lock()

    def rate(self) -> float:
        """Return the documents in a second of this process, now."""
        periods = (self._clock() - self._begun_at) // PERIOD_S
        return float(FIRST_RATE * self._share * GROWTH**periods)

    def spend(self, documents: int) -> float:
        """Return the seconds to wait for so many *documents*, which are then spent."""
        with self._guard:
            now = self._clock()
            self._paid_at = max(self._paid_at, now) + documents / self.rate()
            return max(0.0, self._paid_at - now - _AHEAD_S)


class PacedReads:
    """Reads that wait as a ramp says; the documents of a query are spent after it."""

    def __init__(self, reads: Reads, ramp: Ramp | None, on_documents: OnDocuments) -> None:
        """Read through *reads*; without a *ramp*, only count."""
        self._reads = reads
        self._ramp = ramp
        self._on_documents = on_documents

    @property
    def clock(self) -> Clock:
        """As the port."""
        return self._reads.clock

    @property
    def deadline_s(self) -> float:
        """As the port."""
        return self._reads.deadline_s

    async def get(
        self, paths: Sequence[str], *, fields: Sequence[str] | None = None
    ) -> list[Document | None]:
        """As the port."""
        await self._spend("read", len(paths))
        return await self._reads.get(paths, fields=fields)

    async def query(
        self,
        parent: str,
        collection: str,
        *,
        fields: Sequence[str] | None = None,
        all_descendants: bool = False,
        page: Page | None = None,
    ) -> list[Document]:
        """As the port."""
        found = await self._reads.query(
            parent, collection, fields=fields, all_descendants=all_descendants, page=page
        )
        await self._spend("read", max(1, len(found)))
        return found

    async def _spend(self, kind: str, documents: int) -> None:
        wait_s = 0.0 if self._ramp is None else self._ramp.spend(documents)
        self._on_documents(kind, documents, wait_s)
        if wait_s:
            await asyncio.sleep(wait_s)


class PacedDocuments(PacedReads):
    """Documents that wait as a ramp says, before each write, too."""

    def __init__(self, documents: Documents, ramp: Ramp | None, on_documents: OnDocuments) -> None:
        """Read and write through *documents*, which :meth:`close` closes."""
        super().__init__(documents, ramp, on_documents)
        self._documents = documents

    async def commit(
        self, writes: Sequence[Write | Delete], *, repeatable_when_unanswered: bool
    ) -> list[Written]:
        """As the port."""
        await self._spend("written", len(writes))
        return await self._documents.commit(writes, repeatable_when_unanswered=repeatable_when_unanswered)

    async def commit_all(self, writes: Sequence[Write | Delete]) -> None:
        """As the port."""
        await self._spend("written", len(writes))
        await self._documents.commit_all(writes)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Reads]:
        """As the port."""
        async with self._documents.snapshot() as reads:
            yield PacedReads(reads, self._ramp, self._on_documents)

    async def split_points(self, collection: str, *, most: int) -> list[str] | None:
        """As the port; it bills no documents."""
        return await self._documents.split_points(collection, most=most)

    def watch(self, path: str) -> AsyncGenerator[Document | None]:
        """As the port."""
        return self._documents.watch(path)

    async def scrub(self) -> None:
        """As the port."""
        await self._documents.scrub()

    async def close(self) -> None:
        """As the port."""
        await self._documents.close()
