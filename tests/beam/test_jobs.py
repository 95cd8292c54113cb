"""Bulk jobs read and change what a store holds, once, in this process and in others."""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow.parquet as pq
import pytest

from gcp_adk_store import InvalidInputError, PruneReport, SessionInfo, Store, StoreError, StoreSettings
from gcp_adk_store.bulk import (
    BulkStore,
    EraseUsers,
    PruneSessions,
    ReadEvents,
    ReadSessions,
    Retention,
    VerifySessions,
    WriteParquet,
    jobs,
    run,
)
from gcp_adk_store.bulk.jobs import StoreDoFn, as_json_line
from gcp_adk_store.bulk.transforms import _erase, _list, _prune, _read
from gcp_adk_store.codec.writes import EVERY_NAME
from gcp_adk_store.moving import export_parquet, records_of
from gcp_adk_store.testing.conformance.running import event
from tests.beam.conftest import lines
from tests.moving.hardest import APP, fill
from tests.support.lengths import at_length
from tests.support.peak_memory import Peak
from tests.support.stored import at_once, change, session_path

Counts = Callable[..., dict[str, int]]
APART = ("--direct_num_workers", at_length("1", "2"), "--direct_running_mode", "multi_processing")
"""Workers that are processes of their own, which import Beam."""


def listed(folder: Path, app: str = APP) -> list[tuple[str, str]]:
    """Return user and id of each session."""
    found = at_once(folder, lambda store: store.sessions.list_sessions(app_name=app))
    return sorted((one.user_id, one.id) for one in found.sessions)


def infos_of(folder: Path) -> list[SessionInfo]:
    """Return what a page says of each session."""
    return at_once(folder, lambda store: store.sessions.list_sessions_page(app_name=APP, page_size=100)).infos


def put(folder: Path, session: tuple[str, str], **fields: Any) -> None:
    """Set fields of a session document, past the service."""
    user, name = session
    path = session_path({"app_name": APP, "user_id": user, "session_id": name})
    at_once(folder, lambda store: change(store, path, fields))


@pytest.mark.parametrize("partitions", [1, 5, 256])
def test_every_session_is_read_once(folder: Path, tmp_path: Path, counts: Counts, partitions: int) -> None:
    """As a listing shows them, in any number of ranges."""

    def build(pipeline: beam.Pipeline, store: BulkStore) -> None:
        infos = pipeline | ReadSessions(store, app_name=APP, partitions=partitions)
        infos | beam.Map(as_json_line) | beam.io.WriteToText(str(tmp_path / "out"))

    counted = counts(build)
    found = [json.loads(line) for line in lines(tmp_path, "out")]

    assert listed(folder) == sorted((each["user_id"], each["session_id"]) for each in found)
    assert {json.dumps(each) for each in found} == {as_json_line(info) for info in infos_of(folder)}
    assert (24, 1) == (counted["sessions"], min(counted["ranges"], partitions) if partitions == 1 else 1)


def table_of(folder: Path, name: str, keys: list[str]) -> list[dict[str, Any]]:
    """Return the rows of the Parquet files whose names begin so, in order."""
    rows = [row for path in folder.glob(f"{name}*.parquet") for row in pq.read_table(path).to_pylist()]
    return sorted(rows, key=lambda row: [row[key] for key in keys])


@pytest.mark.parametrize("options", [(), pytest.param(APART, marks=pytest.mark.processes)])
def test_parquet_equals_an_export_and_a_raw_scan(
    folder: Path, tmp_path: Path, counts: Counts, options: tuple[str, ...]
) -> None:
    """Row by row and column by column, with a worker in this process and in others."""

    async def export() -> list[dict[str, Any]]:
        async with Store.local(folder) as store:
            await export_parquet(records_of(store.sessions, APP), tmp_path / "one", on_event=lambda _: None)
            listing = await store.sessions.list_sessions(app_name=APP)
            scanned = []
            for each in listing.sessions:
                found = await store.sessions.get_session(
                    app_name=APP, user_id=each.user_id, session_id=each.id
                )
                assert found is not None
                scanned += [json.loads(one.model_dump_json(exclude_none=True)) for one in found.events]
            return scanned

    def build(pipeline: beam.Pipeline, store: BulkStore) -> None:
        pipeline | ReadSessions(store, app_name=APP) | ReadEvents(store) | WriteParquet(str(tmp_path / "job"))

    counted = counts(build, options)
    scanned = asyncio.run(export())
    tables = {"events": ["user_id", "session_id", "position"], "sessions": ["user_id", "session_id"]}
    job, one = (
        {name: table_of(tmp_path / folder, name, keys) for name, keys in tables.items()}
        for folder in ("job", "one")
    )

    assert (24, len(scanned)) == (len(job["sessions"]), len(job["events"]))
    assert one == job
    assert sorted(json.dumps(each, sort_keys=True) for each in scanned) == sorted(
        json.dumps(json.loads(row["event"]), sort_keys=True) for row in job["events"]
    )
    assert (24, len(scanned)) == (counted["sessions_read"], counted["events_read"])
    for path in (tmp_path / "job").iterdir():
        name = path.name.partition("-")[0]
        assert pq.read_schema(tmp_path / f"one/{name}.parquet").equals(pq.read_schema(path))


def test_users_are_erased_with_receipts(folder: Path, tmp_path: Path, counts: Counts) -> None:
    """Those that are named, once more without a trace; nobody else."""

    def build(pipeline: beam.Pipeline, store: BulkStore) -> None:
        users = pipeline | beam.Create(["u01", "u02", "b/\u00f6b", "nobody"])
        receipts = users | EraseUsers(store, app_name=APP)
        receipts | beam.Map(json.dumps) | beam.io.WriteToText(str(tmp_path / "receipts"))

    before = listed(folder)
    first = counts(build)
    receipts = [json.loads(line) for line in lines(tmp_path, "receipts")]
    second = counts(build)

    assert [each for each in before if each[0] not in ("u01", "u02", "b/\u00f6b")] == listed(folder)
    assert (4, 4) == (first["users"], second["users"])
    assert [0, 1, 2, 2] == sorted(each["erased"]["sessions"]["count"] for each in receipts)
    assert 4 == len({each["subject"] for each in receipts})


def test_sessions_are_pruned_user_by_user(folder: Path, counts: Counts) -> None:
    """A range never splits a user: of each, as many stay as the retention says."""

    def build(pipeline: beam.Pipeline, store: BulkStore) -> None:
        pipeline | PruneSessions(store, app_name=APP, retention=Retention(keep_latest=1), dry_run=dry_run)

    dry_run = True
    before = listed(folder)
    would = counts(build)
    unchanged = listed(folder)
    dry_run = False
    did, again = counts(build), counts(build)

    assert before == unchanged
    assert [11, 11, 0] == [each["pruned_sessions"] for each in (would, did, again)]
    assert sorted({user for user, _ in before}) == [user for user, _ in listed(folder)]


def test_a_broken_session_is_found_and_does_not_stop_the_others(
    folder: Path, tmp_path: Path, counts: Counts
) -> None:
    """One that was rewritten by hand is broken; one that cannot be read is, too, and others are exported."""
    put(folder, ("u03", "s1"), chain=b"x" * 32)
    put(folder, ("u05", "s2"), format=99)

    def verify(pipeline: beam.Pipeline, store: BulkStore) -> None:
        broken = pipeline | ReadSessions(store, app_name=APP) | VerifySessions(store)
        broken | beam.Map(as_json_line) | beam.io.WriteToText(str(tmp_path / "broken"))

    counted = counts(verify)
    (found,) = [json.loads(line) for line in lines(tmp_path, "broken")]

    assert (22, 1, 1) == (counted["verified"], counted["broken"], counted["unreadable"])
    assert ("u03", "s1") == (found["user_id"], found["session_id"])


def test_a_bundle_that_runs_twice_is_harmless(folder: Path) -> None:
    """As a runner repeats it whose worker was lost after its work: the second run finds it done."""
    at = BulkStore(settings=StoreSettings(local=str(folder)))
    (info,) = [each for each in infos_of(folder) if each.user_id == "b/\u00f6b"]
    given = {"dry_run": False}
    fns: list[tuple[Any, Any]] = [
        (StoreDoFn(at, _read), info),
        (StoreDoFn(at, partial(_erase, {**given, "app_name": APP})), "u01"),
        (StoreDoFn(at, partial(_prune, APP, {**given, "retention": Retention(keep_latest=1)})), EVERY_NAME),
    ]
    twice = []
    for fn, element in fns:
        fn.setup()
        first = [*fn.process(element)]
        left = listed(folder)
        twice.append((first, [*fn.process(element)]))
        fn.teardown()
        assert left == listed(folder)
    (rows, again), (receipt, second), ((pruned,), (nothing,)) = twice

    assert [(each.tag, each.value) for each in rows] == [(each.tag, each.value) for each in again]
    assert 2 == receipt[0]["erased"]["sessions"]["count"]
    assert {0} == {each["count"] for each in second[0]["erased"].values()}
    assert isinstance(pruned, PruneReport)
    assert (10, 0) == (pruned.pruned_sessions, nothing.pruned_sessions)


@pytest.mark.parametrize(("sessions", "events"), [((4, 12), (1, 1)), ((1, 1), (8, 24))])
def test_memory_does_not_grow_with_sessions_and_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sessions: tuple[int, int], events: tuple[int, int]
) -> None:
    """Three times as many take less than half as much again; each event has 66 kB, and a segment."""
    monkeypatch.setattr(jobs, "_AT_ONCE", 2)

    def peak(sessions: int, events: int) -> int:
        folder = tmp_path / f"{sessions}-{events}"
        large = [event(chr(33 + number) * 66_000) for number in range(events)]
        stories = [(f"u{number}", "s", large) for number in range(sessions)]
        at_once(folder, lambda store: fill(store.sessions, stories))
        at = BulkStore(settings=StoreSettings(local=str(folder)))
        listing, reading = StoreDoFn(at, partial(_list, APP)), StoreDoFn(at, _read)
        listing.setup()
        reading.setup()
        with Peak() as held:
            rows = sum(1 for info in listing.process(EVERY_NAME) for _ in reading.process(info))
        reading.teardown()
        listing.teardown()
        assert sessions * (events + 1) == rows
        return held.bytes

    peak(2, 2)  # what is imported and cached once
    small, large = (peak(*each) for each in zip(sessions, events, strict=True))

    assert large < 1.5 * small + 50_000


def test_the_number_of_processes_is_required_where_it_decides(folder: Path) -> None:
    """A runner of other machines has to name it; a store in memory has no workers."""
    with pytest.raises(InvalidInputError, match="--max_num_workers"):
        run(lambda _pipeline, _store: None, StoreSettings(local=str(folder)), ["--runner", "FlinkRunner"])
    with pytest.raises(InvalidInputError, match="in memory"):
        BulkStore(settings=StoreSettings(local=":memory:"))
    with pytest.raises(InvalidInputError, match="partitions is 0"):
        ReadSessions(BulkStore(settings=StoreSettings(local=str(folder))), app_name=APP, partitions=0)


def test_a_store_that_fails_fails_the_job(tmp_path: Path) -> None:
    """With the store's error in it."""
    (tmp_path / "file").write_text("no folder")

    def build(pipeline: beam.Pipeline, store: BulkStore) -> None:
        pipeline | ReadSessions(store, app_name=APP)

    with pytest.raises((StoreError, RuntimeError), match="file"):
        run(build, StoreSettings(local=str(tmp_path / "file")))
