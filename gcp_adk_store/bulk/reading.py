"""Divide a prefix into ranges, read sessions of one, and keep a pace.

https://firebase.google.com/docs/firestore/best-practices#ramping_up_traffic
"""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.writes import Delete, Document, NameRange, Page, Write, Written, in_order_of_names
from gcp_adk_store.kernel.around import OF_READS, Around, Inner
from gcp_adk_store.kernel.ports import Documents, Reads
from gcp_adk_store.moving.parquet import Row, rows_of_record
from gcp_adk_store.moving.records import OwnStore
from gcp_adk_store.sessions.describe.decide import SessionInfo, UnreadableSession
from gcp_adk_store.sessions.describe.run import key_of, living
from gcp_adk_store.sessions.read.storage import SessionStorage
from gcp_adk_store.sessions.service import SessionService

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
        """Begin now; *clock* returns seconds."""
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


class PacedReads(Around[Inner]):
    """Reads that wait as a ramp says; the documents of a query are spent after it."""

    passed_on = OF_READS

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
        return await self.inner.get(paths, fields=fields)

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
        found = await self.inner.query(
            parent, collection, fields=fields, all_descendants=all_descendants, page=page
        )
        await self._spend("read", max(1, len(found)))
        return found

    async def _spend(self, kind: str, documents: int) -> None:
        wait_s = 0.0 if self._ramp is None else self._ramp.spend(documents)
        self._on_documents(kind, documents, wait_s)
        if wait_s:
            await asyncio.sleep(wait_s)


class PacedDocuments(PacedReads[Documents]):
    """Documents that wait as a ramp says, before each write, too."""

    passed_on = OF_READS | {"close", "scrub", "split_points", "watch"}

    async def commit(self, writes: Sequence[Write | Delete]) -> list[Written]:
        """As the port."""
        await self._spend("written", len(writes))
        return await self.inner.commit(writes)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Reads]:
        """As the port."""
        async with self.inner.snapshot() as reads:
            yield PacedReads(reads, self._ramp, self._on_documents)


_TO_THE_USER: Final = 4  # names of a path


def user_ranges(layout: Layout, app: str, points: Iterable[str]) -> list[NameRange]:
    """Return ranges of users of *app* that lie between *points*, which are paths of any documents.

    Every user is in exactly one range, with all of their sessions: a point within the sessions of a user
    counts as the path of that user. Points outside of the app count for nothing.
    """
    start = f"{layout.app(app)}/{layout.users_collection}/"
    users = {"/".join(path.split("/")[:_TO_THE_USER]) for path in points if path.startswith(start)}
    cuts = sorted(users, key=in_order_of_names)
    return [NameRange(start=one, end=other) for one, other in zip([None, *cuts], [*cuts, None], strict=True)]


_PER_PAGE: Final = 300
"""Sessions that one query lists, without their events and state."""


async def ranges_of(storage: SessionStorage, app: str, *, most: int) -> list[NameRange]:
    """Return at most *most* ranges that have each user of *app* once, of similar size in sessions.

    Firestore reports where they lie by ``PartitionQuery``. A database without it, such as the emulator, has
    one range.
    """
    layout = storage.layout
    points = (
        await storage.documents.split_points(layout.sessions_collection, most=most - 1) if most > 1 else []
    )
    return user_ranges(layout, app, points or [])


async def sessions_within(
    storage: SessionStorage, app: str, within: NameRange, on_unreadable: Callable[[UnreadableSession], object]
) -> AsyncGenerator[SessionInfo]:
    """Yield the sessions of the users *within*, by name; 1 query for 300 of them. Expired ones are left out.

    *on_unreadable* is called for each session whose document cannot be read.
    """
    async for found in living(storage, app, limit=_PER_PAGE, within=within):
        if isinstance(found, UnreadableSession):
            on_unreadable(found)
        else:
            yield found[1]


async def rows_of(service: SessionService, info: SessionInfo) -> AsyncGenerator[Row]:
    """Yield the rows of the events of a session, then that of the session, all of one moment.

    A session that is gone has none.

    Raises:
        StoredDataError, PayloadMissingError: something of it is damaged or missing.
    """
    async with OwnStore(service, closes=False).open(key_of(info)) as record:
        if record is not None:
            async for row in rows_of_record(record):
                yield row
