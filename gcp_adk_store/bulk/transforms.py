"""The transforms of Beam that read, erase, prune, verify and write anew what a store holds.

Functions do the work of each: Beam knows nothing of their types, and would make a schema of a dataclass.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, Final

import apache_beam as beam
from apache_beam.io.parquetio import WriteToParquet

from gcp_adk_store.bulk.jobs import BulkStore, StoreDoFn, count, report_unreadable
from gcp_adk_store.bulk.reading import ranges_of, rows_of, sessions_within
from gcp_adk_store.codec.writes import NameRange
from gcp_adk_store.erasure.pruning import Pruner, Retention
from gcp_adk_store.errors import InvalidInputError, PayloadMissingError, SessionMissingError, StoredDataError
from gcp_adk_store.model.erasures import ErasureReceipt
from gcp_adk_store.moving.parquet import EVENT_COLUMNS, SESSION_COLUMNS, schema
from gcp_adk_store.sessions.describe.decide import SessionInfo
from gcp_adk_store.sessions.describe.run import key_of

PARTITIONS: Final = 256
"""Ranges of users that a job begins with, unless it gets another number."""

_ROW_GROUP_BYTES: Final = 16 * 1024 * 1024
_ROWS_AT_ONCE: Final = 100
"""Rows that a writer collects before it packs them; an event may have megabytes."""
_DAMAGED: Final = (StoredDataError, PayloadMissingError)
_PRUNED: Final = (
    *("pruned_sessions", "pruned_artifacts", "archived_sessions", "archived_events"),
    *("pruned_states", "pruned_memories"),
)


class ReadSessions(beam.PTransform):
    """Read the sessions of an app: a :class:`~gcp_adk_store.SessionInfo` each, without events and state.

    Each worker reads ranges of whole users, by name: the sessions of a user follow each other. Sessions that
    are made or deleted meanwhile may or may not be among them. Takes 1 query for 300 sessions.

    The metric ``sessions`` counts them, ``unreadable`` those whose documents are damaged, which are left out.
    """

    def __init__(self, at: BulkStore, *, app_name: str, partitions: int = PARTITIONS) -> None:
        """Prepare; *partitions* is the most ranges, some times the number of threads of all workers."""
        super().__init__()
        self._given = (at, app_name, _required(partitions))

    def expand(self, begin: Any) -> Any:
        """Apply it to the begin of a pipeline."""
        at, app, _ = self._given
        listing = StoreDoFn(at, partial(_list, app))
        return _ranges(begin, *self._given) | "list sessions" >> beam.ParDo(listing)


class ReadEvents(beam.PTransform):
    """Read whole sessions: a mapping of ``events`` and ``sessions`` to rows, as docs/moving.md has them.

    The input is that of :class:`ReadSessions`. Each session is of one moment; its events come in order, as
    they are read, so that one of any length takes little memory. A session that is gone has no rows. The
    metric ``unreadable`` counts damaged ones: these have no row in ``sessions``, and perhaps some in
    ``events``. Takes 2 reads a session, and those of its segments and payloads.
    """

    def __init__(self, at: BulkStore) -> None:
        super().__init__()
        self._at = at

    def expand(self, infos: Any) -> Any:
        """Apply it to sessions."""
        rows = infos | "read events" >> beam.ParDo(StoreDoFn(self._at, _read)).with_outputs(
            "events", "sessions"
        )
        return {"events": rows["events"], "sessions": rows["sessions"]}


class WriteParquet(beam.PTransform):
    """Write the rows of :class:`ReadEvents` to Parquet files in a folder, also of a bucket.

    They are ``sessions-*.parquet`` and ``events-*.parquet``, with the schema of ``export --format parquet``.
    They appear when all are whole; a bundle that runs twice leaves one file.
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = folder.rstrip("/")

    def expand(self, rows: Any) -> Any:
        """Apply it to a mapping of rows."""
        columns = {"events": EVENT_COLUMNS, "sessions": SESSION_COLUMNS}
        return {
            name: rows[name]
            | f"write {name}"
            >> WriteToParquet(
                f"{self._folder}/{name}",
                schema(columns[name]),
                file_name_suffix=".parquet",
                codec="zstd",
                row_group_buffer_size=_ROW_GROUP_BYTES,
                record_batch_size=_ROWS_AT_ONCE,
            )
            for name in rows
        }


class EraseUsers(beam.PTransform):
    """Erase the users of an app whose ids come in; receipts come out, as their JSON values.

    As :meth:`gcp_adk_store.Store.erase_user`. A user that comes twice, or whose bundle runs twice, has two
    receipts, the second perhaps of nothing. The metric ``users`` counts them.
    """

    def __init__(self, at: BulkStore, *, app_name: str, dry_run: bool = False, quiet_s: float = 0.0) -> None:
        super().__init__()
        how = {"app_name": app_name, "dry_run": dry_run, "quiet_s": quiet_s}
        self._fn = StoreDoFn(at, partial(_erase, how))

    def expand(self, users: Any) -> Any:
        """Apply it to ids of users."""
        return users | "spread users" >> beam.Reshuffle() | "erase" >> beam.ParDo(self._fn)


class PruneSessions(beam.PTransform):
    """Delete sessions of an app that were kept long enough; a report for each range of users comes out.

    As :meth:`gcp_adk_store.Store.prune`. The metrics have the names of the report's counts.
    """

    def __init__(
        self,
        at: BulkStore,
        *,
        app_name: str,
        retention: Retention,
        dry_run: bool = False,
        partitions: int = PARTITIONS,
    ) -> None:
        super().__init__()
        self._given = (at, app_name, _required(partitions))
        how = {"retention": retention, "dry_run": dry_run}
        self._fn = StoreDoFn(at, partial(_prune, app_name, how))

    def expand(self, begin: Any) -> Any:
        """Apply it to the begin of a pipeline."""
        return _ranges(begin, *self._given) | "prune" >> beam.ParDo(self._fn)


class VerifySessions(beam.PTransform):
    """Verify sessions by their hash chains; those that are not proven come out, as JSON values.

    As the session service's ``verify_session``. The metrics ``verified`` and ``broken`` count sessions
    that are proven, and those that are not or are damaged.
    """

    def __init__(self, at: BulkStore) -> None:
        super().__init__()
        self._at = at

    def expand(self, infos: Any) -> Any:
        """Apply it to sessions."""
        return infos | "verify" >> beam.ParDo(StoreDoFn(self._at, _verify))


def _ranges(begin: Any, at: BulkStore, app: str, partitions: int) -> Any:
    """Return ranges of users, each for a worker of its own."""
    split = StoreDoFn(at, partial(_split, partitions))
    ranges = begin | "app" >> beam.Create([app]) | "split" >> beam.ParDo(split)
    return ranges | "spread ranges" >> beam.Reshuffle()


def _split(partitions: int, on: StoreDoFn, app: str) -> Iterator[Any]:
    ranges = on.run(ranges_of(on.store.sessions.storage, app, most=partitions))
    count("ranges", len(ranges))
    yield from ranges


def _list(app: str, on: StoreDoFn, within: NameRange) -> Iterator[Any]:
    storage = on.store.sessions.storage
    for info in on.each(sessions_within(storage, app, within, lambda bad: report_unreadable(bad.reason))):
        count("sessions")
        yield info


def _read(on: StoreDoFn, info: SessionInfo) -> Iterator[Any]:
    try:
        for table, row in on.each(rows_of(on.store.sessions, info)):
            count(f"{table}_read")
            yield beam.pvalue.TaggedOutput(table, row)
    except _DAMAGED as exc:
        report_unreadable(str(exc))


def _erase(how: Mapping[str, Any], on: StoreDoFn, user: str) -> Iterator[Any]:
    async def erase() -> ErasureReceipt:
        return await on.store.erase_user(user_id=user, **how)

    receipt = on.run(erase())
    count("users")
    yield receipt.to_dict()


def _prune(app: str, how: Mapping[str, Any], on: StoreDoFn, within: NameRange) -> Iterator[Any]:
    artifacts = on.store.artifacts if on.store.has_artifacts else None
    report = on.run(Pruner(on.store.sessions, artifacts, within=within, **how).prune(app_name=app))
    for name in ("sessions", *_PRUNED, "in_use", "unreadable"):
        count(name, getattr(report, name))
    yield report


def _verify(on: StoreDoFn, info: SessionInfo) -> Iterator[Any]:
    ids = key_of(info).ids
    try:
        proof = on.run(on.store.sessions.verify_session(**ids))
    except SessionMissingError:
        return
    except _DAMAGED as exc:
        count("broken")
        yield {**ids, "broken": {"says": str(exc)}}
        return
    count("verified" if proof.broken is None else "broken")
    if proof.broken is not None:
        yield asdict(proof)


def _required(partitions: int) -> int:
    if partitions < 1:
        raise InvalidInputError(f"partitions is {partitions}, it must be 1 or more")
    return partitions
