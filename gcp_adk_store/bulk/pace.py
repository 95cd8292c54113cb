"""Pace reads and writes by Firestore's 500/50/5 rule: 500 in a second, half as many more every 5 minutes.

https://firebase.google.com/docs/firestore/best-practices#ramping_up_traffic
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from gcp_adk_store.codec.writes import Delete, Document, Page, Write, Written
from gcp_adk_store.kernel.around import DocumentsAround, Inner, ReadsAround
from gcp_adk_store.kernel.ports import Documents, Reads

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


class PacedReads(ReadsAround[Inner]):
    """Reads that wait as a ramp says; the documents of a query are spent after it."""

    def __init__(self, inner: Inner, ramp: Ramp | None, on_documents: OnDocuments) -> None:
        """Read through *inner*; without a *ramp*, only count."""
        super().__init__(inner)
        self._ramp = ramp
        self._on_documents = on_documents

    async def get(
        self, paths: Sequence[str], *, fields: Sequence[str] | None = None
    ) -> list[Document | None]:
        """As the port."""
        await self._spend("read", len(paths))
        return await super().get(paths, fields=fields)

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
        found = await super().query(
            parent, collection, fields=fields, all_descendants=all_descendants, page=page
        )
        await self._spend("read", max(1, len(found)))
        return found

    async def _spend(self, kind: str, documents: int) -> None:
        wait_s = 0.0 if self._ramp is None else self._ramp.spend(documents)
        self._on_documents(kind, documents, wait_s)
        if wait_s:
            await asyncio.sleep(wait_s)


class PacedDocuments(PacedReads[Documents], DocumentsAround):
    """Documents that wait as a ramp says, before each write, too."""

    async def commit(
        self, writes: Sequence[Write | Delete], *, repeatable_when_unanswered: bool
    ) -> list[Written]:
        """As the port."""
        await self._spend("written", len(writes))
        return await super().commit(writes, repeatable_when_unanswered=repeatable_when_unanswered)

    async def commit_all(self, writes: Sequence[Write | Delete]) -> None:
        """As the port."""
        await self._spend("written", len(writes))
        await super().commit_all(writes)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Reads]:
        """As the port."""
        async with super().snapshot() as reads:
            yield PacedReads(reads, self._ramp, self._on_documents)
