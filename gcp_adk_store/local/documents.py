"""Read and write documents in a SQLite file as Firestore does: atomically, with its order and its limits."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from google.adk.platform import time as platform_time

from gcp_adk_store.codec.writes import (
    Delete,
    Document,
    FieldPath,
    Must,
    Page,
    Write,
    Written,
    field_path,
    fields_after,
    order_of,
    value_at,
)
from gcp_adk_store.errors import StoredDataError, StoreError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.operation import part_of
from gcp_adk_store.kernel.ports import ConditionFailedError, TargetExistsError
from gcp_adk_store.local import changes, encoding, queries
from gcp_adk_store.local.database import Database, Snapshot
from gcp_adk_store.local.encoding import Encoded, document_key, parent_of, path_of, split_points
from gcp_adk_store.local.sweep import Sweeper
from gcp_adk_store.local.watchers import Watchers
from gcp_adk_store.settings import SessionLimits

T = TypeVar("T")

_MICROS: Final = 1_000_000
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 0.5
"""Between two looks for commits of other processes. A look takes 0.1 ms, and reads one row's time."""
_NAME: Final = "__name__"


class MachineClock:
    """The time of this machine."""

    is_set: Final = True
    """No answer has to bring the time."""

    def now(self) -> float:
        """Return the Unix time in seconds."""
        return platform_time.get_time()


class LocalReads:
    """Reads of the documents of one local database, as :class:`gcp_adk_store.kernel.ports.Reads` says."""

    def __init__(self, reading: Database | Snapshot, deadline_s: float) -> None:
        """Prepare reads through *reading*; without I/O."""
        self.clock = MachineClock()
        """The time that decides about ages and expiry."""
        self.deadline_s = deadline_s
        """The longest wait for other processes within one call."""
        self._reading = reading

    async def get(
        self, paths: Sequence[str], *, fields: Sequence[str] | None = None
    ) -> list[Document | None]:
        """As the port.

        Raises:
            UnavailableError, AccessDeniedError, StoredDataError: as :meth:`commit`.
            InvalidInputError: a path or a field is malformed.
        """
        keys = [document_key(path) for path in paths]
        reader = _Reader(_field_paths(fields), self.clock.now())
        return await self._call(
            self._reading.read, lambda sql: [reader.at(sql, key) for key in keys], sum(map(len, keys))
        )

    async def query(
        self,
        parent: str,
        collection: str,
        *,
        fields: Sequence[str] | None = None,
        all_descendants: bool = False,
        page: Page | None = None,
    ) -> list[Document]:
        """As the port; it needs no index.

        Raises:
            UnavailableError, AccessDeniedError, StoredDataError: as :meth:`commit`.
            InvalidInputError: a path, a field or the number of documents is malformed.
        """
        query = queries.compile_query(parent, collection, all_descendants=all_descendants, page=page)
        reader = _Reader(_field_paths(fields), self.clock.now())
        work = partial(_found, query=query, page=page, reader=reader)
        return await self._call(self._reading.read, work, len(parent) + len(collection))

    async def _call(
        self, run: Callable[..., Awaitable[T]], work: Callable[[sqlite3.Connection], T], size: int
    ) -> T:
        telemetry.count_attempt(1, None)
        telemetry.count_rpc(lambda: size)
        with part_of(self.deadline_s):
            return await run(work)


class LocalDocuments(LocalReads):
    """The documents of one local database, as :class:`gcp_adk_store.kernel.ports.Documents` says.

    Any number of processes may have it open.
    """

    def __init__(self, database: Database, limits: SessionLimits, *, sweeper: Sweeper | None = None) -> None:
        """Prepare the documents of *database*, which :meth:`close` closes; without I/O.

        Commits let *sweeper*, if any, remove expired data first.
        """
        super().__init__(database, limits.deadline_s)
        self._database = database
        self._sweeper = sweeper
        self._watchers = Watchers()

    async def commit(self, writes: Sequence[Write | Delete]) -> list[Written]:
        """As the port.

        Raises:
            ConditionFailedError: also if a document with a required update time does not exist.
            OutcomeUnknownError: the disk failed while it stored the commit.
            UnavailableError: others hold the file until the deadline, or the disk is full or fails.
            AccessDeniedError: this user may not write the file or its folder.
            StoredDataError: the file is damaged, or has the format of another release.
        """
        if self._sweeper is not None:
            with part_of(self.deadline_s):
                await self._sweeper.sweep_if_due()
        keys = [document_key(item.path) for item in writes]
        changes.require_consistent(writes)
        size = changes.require_commit(writes)
        now = int(self.clock.now() * _MICROS)
        try:
            return await self._call(
                self._database.write, partial(_commit, writes=writes, keys=keys, now=now), size
            )
        finally:  # also if it is cancelled: a commit that has begun completes
            self._watchers.wake(keys)

    async def split_points(self, collection: str, *, most: int) -> list[str]:
        """As the port.

        Raises:
            UnavailableError, AccessDeniedError, StoredDataError: as :meth:`commit`.
        """
        return await self._call(
            self._database.read, partial(split_points, collection=collection, most=most), len(collection)
        )

    async def before(self, path: str, time: str, *, fields: Sequence[str]) -> None:
        """As the port: it keeps no earlier version."""

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[LocalReads]:
        """As the port; a store in memory is copied."""
        async with self._database.snapshot() as snapshot:
            yield LocalReads(snapshot, self.deadline_s)

    async def watch(self, path: str) -> AsyncGenerator[Document | None]:
        """As the port, by a look at the document's time after each commit of this object.

        For commits of others there are looks every 0.05 s, and less and less often, down to 2 in a second,
        while nothing changes. A database in memory has no others.

        Raises:
            UnavailableError, AccessDeniedError, StoredDataError: as :meth:`commit`.
        """
        key = document_key(path)
        seen: int | None = None  # 0 stands for a missing document
        is_shared = self._database.path is not None
        closings, pause_s = self._watchers.closings, _FIRST_PAUSE_S
        with self._watchers.of(key) as news:
            while True:
                with part_of(self.deadline_s):
                    reader = _Reader(None, self.clock.now())
                    look = partial(_if_changed, key=key, seen=seen, reader=reader)
                    time, document = await self._database.read(look)
                if time != seen:
                    telemetry.count_rpc(lambda: len(key))
                    yield document
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S) if time == seen else _FIRST_PAUSE_S
                with suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), pause_s if is_shared else None)
                if self._watchers.closings != closings:
                    raise StoreError("the store was closed while a session was followed")
                news.clear()
                seen = time

    async def scrub(self) -> None:
        """As the port: the file is written anew, without the pages of removed documents.

        Raises:
            OutcomeUnknownError: as the port.
            AccessDeniedError, StoredDataError: as :meth:`commit`.
        """
        with part_of(self.deadline_s):
            await self._database.compact()

    async def close(self) -> None:
        """Close the file; a later call opens it again."""
        self._watchers.close()
        await self._database.close()


class _Row(NamedTuple):
    id: int
    update_time: int
    """In microseconds since 1970."""
    encoded: Encoded


@dataclass(slots=True)
class _Change:
    """What one commit makes of one document."""

    stored: _Row | None
    encoded: Encoded | None
    """What it is so far; ``None`` if it is missing."""
    expire_at: int | None = None
    is_removed: bool = False

    @property
    def time(self) -> int:
        return 0 if self.stored is None else self.stored.update_time

    @property
    def is_unchanged(self) -> bool:
        """Whether the document stays as it is: it then keeps its update time."""
        was = None if self.stored is None else self.stored.encoded
        return self.encoded == was and not (self.is_removed and self.encoded is not None)


def _commit(
    sql: sqlite3.Connection,
    *,
    writes: Sequence[Write | Delete],
    keys: Sequence[bytes],
    now: int,
) -> list[Written]:
    """Apply *writes* within a transaction, one after the other."""
    changed: dict[bytes, _Change] = {}
    counters = []
    for item, key in zip(writes, keys, strict=True):
        if key not in changed:
            row = _row(sql, key)
            changed[key] = _Change(row, None if row is None else row.encoded)
        counters.append(_apply(item, changed[key]))
    time = 0
    times = {}
    for key, change in changed.items():
        if change.is_unchanged:
            times[key] = change.time
        elif change.encoded is None:
            sql.execute("DELETE FROM documents WHERE key = ?", (key,))
            times[key] = 0
        else:
            time = time or _next_time(sql, now)
            _store(sql, key, change, time)
            times[key] = time
    return [
        Written(update_time=_time_text(times[key]), incremented=counter)
        for key, counter in zip(keys, counters, strict=True)
    ]


def _apply(item: Write | Delete, change: _Change) -> dict[str, int]:
    """Let *change* include one write, and return its new counters."""
    if item.must is Must.BE_ABSENT and change.encoded is not None:
        raise TargetExistsError("a document that must be absent exists")
    if isinstance(item.must, str) and _nanos(item.must) != change.time * 1000:
        raise ConditionFailedError("a document does not have the required update time")
    if isinstance(item, Delete):
        change.is_removed = change.is_removed or change.stored is not None
        change.encoded = None
        return {}
    fields = None
    if change.encoded is not None and item.mask is not None:
        fields = encoding.read(change.encoded, what=item.path)
    after, counters = fields_after(item, fields)
    change.encoded = encoding.encode(after)
    change.expire_at = changes.expires_at(item.path.split("/")[-2], after)
    if not changes.is_surely_small(change.encoded):
        changes.require_document(item.path, after)
    return counters


def _store(sql: sqlite3.Connection, key: bytes, change: _Change, time: int) -> None:
    if change.stored is None:
        sql.execute(
            "INSERT INTO documents (key, parent, collection, update_time, expire_at, fields, pieces, content)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (key, *parent_of(key), time, change.expire_at, *(change.encoded or ())),
        )
    else:
        sql.execute(
            "UPDATE documents SET update_time = ?, expire_at = ?, fields = ?, pieces = ?, content = ?"
            " WHERE id = ?",
            (time, change.expire_at, *(change.encoded or ()), change.stored.id),
        )


def _next_time(sql: sqlite3.Connection, now: int) -> int:
    """Return a time after that of every earlier commit, by the machine's clock if it has moved on."""
    match sql.execute("SELECT time FROM commits").fetchall():
        case [(int(last),)]:
            time = max(last + 1, now)
        case _:
            raise StoredDataError("the time of the last commit is damaged: restore a backup")
    sql.execute("UPDATE commits SET time = ?", (time,))
    return time


def _row(sql: sqlite3.Connection, key: bytes) -> _Row | None:
    found = sql.execute(
        "SELECT id, update_time, fields, pieces, content FROM documents WHERE key = ?", (key,)
    ).fetchone()
    return None if found is None else _Row(found[0], found[1], Encoded(*found[2:]))


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads documents at one time."""

    paths: Sequence[FieldPath] | None
    """The fields that are asked for; ``None`` for all."""
    time: float

    def at(self, sql: sqlite3.Connection, key: bytes) -> Document | None:
        """Return the document of *key*."""
        row = sql.execute(
            "SELECT id, key, update_time, fields, pieces FROM documents WHERE key = ?", (key,)
        ).fetchone()
        return None if row is None else self.document(sql, row)

    def document(self, sql: sqlite3.Connection, row: tuple[int, bytes, int, str, str | None]) -> Document:
        """Return the document of a row, with its content only if that is asked for."""
        row_id, key, update_time, fields, pieces = row
        path = path_of(key)
        if not isinstance(update_time, int):
            raise StoredDataError(f"{path} has a damaged time: restore a backup")
        found = _read(sql, row_id, Encoded(fields, pieces, None), self.paths, path)
        return Document(
            path=path,
            fields=encoding.selected(found, self.paths),
            update_time=_time_text(update_time),
            read_time=self.time,
        )


def _read(
    sql: sqlite3.Connection,
    row_id: int,
    encoded: Encoded,
    paths: Sequence[FieldPath] | None,
    what: str,
) -> dict[str, Any]:
    """Return the fields of a row, or of those at least that *paths* name."""
    if encoding.holds_content(encoded, paths):
        (content,) = sql.execute("SELECT content FROM documents WHERE id = ?", (row_id,)).fetchone()
        encoded = encoded._replace(content=content)
    return encoding.read(encoded, what=what)


def _if_changed(
    sql: sqlite3.Connection, *, key: bytes, seen: int | None, reader: _Reader
) -> tuple[int, Document | None]:
    """Return the time of a document, and the document unless its time is the one that was *seen*."""
    found = sql.execute("SELECT update_time FROM documents WHERE key = ?", (key,)).fetchone()
    time: int = 0 if found is None else found[0]
    return time, None if time == seen else reader.at(sql, key)


def _found(
    sql: sqlite3.Connection, *, query: tuple[str, tuple[Any, ...]], page: Page | None, reader: _Reader
) -> list[Document]:
    # All at once: a statement that an error leaves halfway holds its snapshot as long as the error lives.
    rows = sql.execute(*query).fetchall()
    if page is None or (page.field is None and not page.filters):
        return [reader.document(sql, row) for row in rows]
    ordered_by = None if page.field is None else field_path(page.field)
    wanted = [field_path(each.field) for each in page.filters] + ([ordered_by] if ordered_by else [])
    candidates: list[queries.Candidate] = []
    for row_id, key, _, fields, pieces in rows:
        values = _read(sql, row_id, Encoded(fields, pieces, None), wanted, path_of(key))
        if queries.meets(page, values):
            order = None if ordered_by is None else order_of(value_at(values, ordered_by))
            candidates.append((order, key))
    chosen = [reader.at(sql, key) for _, key in queries.ordered(candidates, page)]
    return [document for document in chosen if document is not None]


def _field_paths(fields: Sequence[str] | None) -> list[FieldPath] | None:
    return None if fields is None else [field_path(name) for name in fields if name != _NAME]


def _time_text(micros: int) -> str:
    """Return a time as ``seconds.nanoseconds``, which is exact and sorts as text."""
    seconds, rest = divmod(micros, _MICROS)
    return f"{seconds}.{rest * 1000:09d}"


def _nanos(text: str) -> int:
    """Return the nanoseconds of :func:`_time_text`; an empty text is time 0."""
    seconds, _, nanos = text.partition(".")
    return int(seconds or 0) * 1_000_000_000 + int(nanos or 0)
