"""After an erasure a raw scan of both stores finds no byte of the user, and all of everybody else.

A reader of an older state, such as an export, is waited for.
"""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any

import pytest
from a2a.types import TaskPushNotificationConfig

from gcp_adk_store import (
    ErasureProgress,
    ErasureReceipt,
    InvalidInputError,
    OutcomeUnknownError,
    Store,
    StoredDataError,
)
from gcp_adk_store.model.erasures import digest_of
from gcp_adk_store.moving import records_of
from tests.erasure.conftest import (
    APP,
    FILLED,
    LIMITS,
    OTHER,
    OWNER,
    PLACES,
    USER,
    Stored,
    canary,
    erase,
    fill,
    said,
)
from tests.support.small_pieces import set_numbers
from tests.support.stored import collection, put
from tests.support.stores import sessions_in
from tests.support.traces import in_folder, traces
from tests.tasks.conftest import of


def counts_of(receipt: ErasureReceipt) -> dict[str, int]:
    """Return how many of each kind were erased."""
    return {kind: erased.count for kind, erased in receipt.erased.items()}


async def test_nothing_of_a_user_is_left(place: tuple[Store, Stored]) -> None:
    """A scan finds each canary before, and none after; another user's stay."""
    store, stored = place
    await fill(store)
    before = stored()
    missing = [name for name in PLACES if not traces(before, canary(name))]

    _, receipt = await erase(store, task_owner=OWNER)

    after = stored()
    assert [] == missing
    assert [] == [name for name in PLACES if traces(after, canary(name))]
    assert [] == traces(after, USER)
    assert [] == traces(after, OWNER)
    fields = receipt.to_dict()
    assert fields == json.loads(receipt.to_json())
    assert fields["digest"] == digest_of(fields)
    assert {} == {
        kind: n for kind, n in fields["erased"].items() if kind in ("keys", "others") and n["count"]
    }
    assert receipt.empty_at is not None
    assert receipt.begun_at <= receipt.empty_at <= receipt.ended_at


async def test_a_push_config_that_is_set_meanwhile_is_erased(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the search of the configs that a note names and the removal of the note."""
    configs, documents = filled.push_notification_configs, filled.sessions.storage.documents
    query = documents.query

    async def query_and_set(parent: str, name: str, *args: Any, **given: Any) -> Any:
        found = await query(parent, name, *args, **given)
        if parent.startswith("adk_pushes/"):
            monkeypatch.undo()
            await configs.set_info("t1", TaskPushNotificationConfig(id="late", url="https://late"), of(OWNER))
        return found

    monkeypatch.setattr(documents, "query", query_and_set)
    _, receipt = await erase(filled, task_owner=OWNER)

    assert [] == await configs.get_info("t1", of(OWNER))
    assert 2 == counts_of(receipt)["push_configs"]


async def test_anchors_hold_nothing_of_a_user(filled: Store, tmp_path: Path) -> None:
    """Neither in their names nor in their content, so they may stay."""
    report = await filled.anchor(app_name=APP, anchors=f"{tmp_path / 'anchors'}")

    kept = in_folder(tmp_path / "anchors")
    assert (2, 2) == (report.sessions, report.written)
    assert [] == [name for name in (USER, *map(canary, PLACES)) if traces(kept, name)]


@pytest.mark.sample(1)
async def test_another_user_keeps_everything(place: tuple[Store, Stored]) -> None:
    """What was theirs is there byte for byte."""
    store, stored = place
    await fill(store, OTHER, "their-owner")
    before = {name: data for name, data in stored().items() if not name.startswith("file ")}
    await fill(store)

    await erase(store, task_owner=OWNER)

    after = {name: data for name, data in stored().items() if not name.startswith("file ")}
    changed = {name for name in before if before[name] != after.get(name)}
    assert {"adk_apps/app"} >= changed
    assert {"adk_erasures/key"} == after.keys() - before.keys()


async def test_a_dry_run_counts_what_an_erasure_removes(filled: Store) -> None:
    """Both report the same, and a dry run changes nothing."""
    before = await collection(filled, "adk_segments")

    _, planned = await erase(filled, dry_run=True, task_owner=OWNER)
    after = await collection(filled, "adk_segments")
    _, receipt = await erase(filled, task_owner=OWNER)

    assert before == after
    assert planned.is_dry_run
    assert "" == planned.subject
    assert planned.erased == receipt.erased
    counts = counts_of(receipt)
    expected = {"sessions": 2, "artifacts": 3, "versions": 4, "uploads": 1, "tasks": 1, "memories": 8}
    expected |= {"state_keys": 3, "push_configs": 1}
    assert expected == {kind: counts[kind] for kind in expected}
    assert min(counts[kind] for kind in ("events", "segments", "payloads", "notes")) > 0
    assert all(erased.bytes for kind, erased in receipt.erased.items() if kind not in ("events", "artifacts"))


async def test_the_intent_names_nobody(filled: Store) -> None:
    """Neither its path nor its fields hold the ids of the user or the app."""
    async with aclosing(filled.erase_user(app_name=APP, user_id=USER)) as steps:
        await anext(steps)

    intents = await collection(filled, "adk_erasures")

    shown = repr([(path, fields) for path, fields in intents.items() if "begun_at" in fields])
    assert USER not in shown
    assert "'app'" not in shown


async def test_the_subject_distinguishes_users_and_apps(store: Store) -> None:
    """The same user has the same subject in every erasure, and nobody else has it."""
    subjects: dict[tuple[str, str], set[str]] = {}
    for app, user in (("a", "bc"), ("ab", "c"), ("a", "bc"), ("a", "x")):
        async for step in store.erase_user(app_name=app, user_id=user):
            if isinstance(step, ErasureReceipt):
                subjects.setdefault((app, user), set()).add(step.subject)

    assert [1, 1, 1] == [len(found) for found in subjects.values()]
    assert 3 == len(set().union(*subjects.values()))


async def test_an_erasure_ends_with_an_error_while_others_write_all_the_time(store: Store) -> None:
    """It is bounded, says what to do, and the next call goes on."""

    async def race() -> None:
        await store.sessions.create_session(app_name=APP, user_id=USER)
        async for _ in store.erase_user(app_name=APP, user_id=USER):
            await store.sessions.create_session(app_name=APP, user_id=USER)

    with pytest.raises(OutcomeUnknownError, match="stop them, then call it again"):
        await race()

    _, receipt = await erase(store)
    assert receipt.erased["sessions"].count >= 20


async def test_a_writer_under_way_is_waited_for(store: Store) -> None:
    """With quiet_s, an empty pass is not the last one before that time."""
    progress, receipt = await erase(store, "nobody", quiet_s=0.05)

    assert {"waiting"} == {step.stage for step in progress}
    assert receipt.empty_at is not None
    assert receipt.empty_at >= receipt.begun_at + 0.05


async def test_documents_that_nobody_can_read_are_erased(store: Store) -> None:
    """Damage, newer formats and unknown collections do not keep a user's data."""
    root = f"adk_apps/{APP}/adk_users/{USER}"
    await put(store, f"{root}/adk_sessions/s", {"format": 99, "tail": "damaged"})
    await put(store, f"{root}/adk_sessions/s/adk_unknown/x/adk_deeper/y", {"text": "deep"})
    await put(store, f"{root}/adk_keys/k", {"key": b"wrapped"})
    await put(store, f"{root}x/adk_sessions/s", {"format": 99})

    _, receipt = await erase(store)

    assert {"sessions": 1, "others": 1, "keys": 1} == {
        kind: erased.count for kind, erased in receipt.erased.items() if erased.count
    }
    assert [f"{root}x/adk_sessions/s"] == [*await collection(store, "adk_sessions")]


async def test_a_receipt_is_awaited_or_comes_last(filled: Store) -> None:
    """Both ways, also one after the other; what ended early has none."""
    receipt = await filled.erase_user(app_name=APP, user_id=USER, dry_run=True)
    begun = filled.erase_user(app_name=APP, user_id=USER)
    first = await anext(begun)
    rest = await begun
    steps = [step async for step in filled.erase_user(app_name=APP, user_id=USER)]
    ended = filled.erase_user(app_name=APP, user_id=USER)
    await ended.aclose()

    assert isinstance(first, ErasureProgress)
    assert receipt.is_dry_run
    assert not rest.is_dry_run
    assert receipt.erased == rest.erased
    assert rest == await begun
    assert [ErasureReceipt] == [type(step) for step in steps]
    with pytest.raises(InvalidInputError, match="call erase_user again"):
        await ended


async def test_an_awaited_erasure_that_is_cancelled_is_closed(filled: Store) -> None:
    """It ends there; the next call goes on."""
    erasure = filled.erase_user(app_name=APP, user_id=USER, quiet_s=3600.0)
    while getattr(await anext(erasure), "stage", "") != "waiting":
        pass
    waiting = asyncio.ensure_future(erasure)
    await asyncio.sleep(0)  # it begins to wait for an hour
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(InvalidInputError, match="call erase_user again"):
        await erasure

    receipt = await filled.erase_user(app_name=APP, user_id=USER)
    assert receipt.erased["sessions"].count


async def test_a_deleted_session_takes_its_artifacts_with_it(store: Store) -> None:
    """Those of the user stay; those of a session that is deleted alone wait for a new one with its id."""
    for user in (USER, OTHER):
        await fill(store, user)
    there: dict[str, Any] = {"app_name": APP, "user_id": USER, "session_id": "s"}

    await store.delete_session(**there, artifacts=False)
    await store.sessions.delete_session(**there)
    kept = await store.artifacts.list_artifact_keys(**there)
    await store.delete_session(**there)

    assert [f"a/{canary('file-name')}", "report.txt", "user:mine.txt"] == kept
    assert ["user:mine.txt"] == await store.artifacts.list_artifact_keys(**there)
    assert 3 == len(await store.artifacts.list_artifact_keys(**{**there, "user_id": OTHER}))


async def test_a_store_without_its_bucket_erases_no_reference_into_it(filled_folder: Path) -> None:
    """Nobody would find the content afterwards."""
    half = Store(sessions=sessions_in(filled_folder, limits=LIMITS), artifacts=None)
    async with half:
        with pytest.raises(StoredDataError, match="open it with its bucket"):
            await erase(half)
        left = await half.sessions.list_sessions(app_name=APP, user_id="nobody")
    async with Store.local(filled_folder, session_limits=LIMITS) as whole:
        await erase(whole, task_owner=OWNER)

    assert [] == left.sessions
    assert [] == traces(in_folder(filled_folder), USER)


async def test_two_erasures_of_one_user_at_once_leave_nothing(filled: Store) -> None:
    """Each has a receipt, and together they count at least what was there."""
    _, planned = await erase(filled, dry_run=True)

    found = await asyncio.gather(erase(filled), erase(filled))

    assert (
        max(counts_of(receipt).get("segments", 0) for _, receipt in found) >= counts_of(planned)["segments"]
    )
    _, nothing = await erase(filled)
    assert {} == nothing.erased


WHO: dict[str, Any] = {"app_name": APP, "user_id": USER, "session_id": "s"}
SECRET = "here-secret-here"  # noqa: S105  # a canary


@pytest.fixture
async def stores(filled_folder: Path) -> AsyncIterator[tuple[Store, Store]]:
    """Two of one folder, with a user in it: one erases, the other one reads."""
    async with Store.local(filled_folder, **FILLED) as store, Store.local(filled_folder, **FILLED) as other:
        yield store, other


def left_in_files(folder: Path) -> list[str]:
    """Return the places whose canary some file has."""
    files = {name: data for name, data in in_folder(folder).items() if name.startswith("file ")}
    return [name for name in PLACES if traces(files, canary(name))]


async def test_an_erasure_waits_for_a_reader_and_writes_the_file_anew_once(
    stores: tuple[Store, Store], filled_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends when the reader does, with a receipt and no byte in the files."""
    store, other = stores
    loop, waits, ran = asyncio.get_running_loop(), asyncio.Event(), list[str]()
    connect = sqlite3.connect

    def note(statement: str) -> None:
        ran.append(statement)
        if ran.count("PRAGMA wal_checkpoint(TRUNCATE)") == 2:
            loop.call_soon_threadsafe(waits.set)

    def traced(*given: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*given, **options)
        connection.set_trace_callback(note)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    async with AsyncExitStack() as reading:
        reads = await reading.enter_async_context(other.sessions.storage.documents.snapshot())
        before = [found.fields for found in await reads.query("", "adk_sessions", all_descendants=True)]
        erasing = asyncio.create_task(erase(store, task_owner=OWNER))
        await waits.wait()
        seen = [found.fields for found in await reads.query("", "adk_sessions", all_descendants=True)]
        assert before == seen
        assert [] == (await other.sessions.list_sessions(app_name=APP, user_id=USER)).sessions
        assert left_in_files(filled_folder)
        assert not erasing.done()
    _, receipt = await erasing

    assert isinstance(receipt, ErasureReceipt)
    assert [] == left_in_files(filled_folder)
    assert 1 == ran.count("VACUUM")


async def test_an_erasure_that_waits_too_long_says_what_is_left_and_the_end_of_the_reader_removes_it(
    stores: tuple[Store, Store], filled_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything is removed, and its bytes are not; the next call gives the receipt of both."""
    store, other = stores
    async with other.sessions.storage.documents.snapshot():
        with monkeypatch.context() as patch:
            set_numbers(patch, wait_for_readers_s=0.0)
            with pytest.raises(OutcomeUnknownError, match="everything of the user is removed") as caught:
                await erase(store, task_owner=OWNER)
        assert "as an export does" in str(caught.value)
        assert "nothing was written" not in str(caught.value)
        assert [] == (await other.sessions.list_sessions(app_name=APP, user_id=USER)).sessions
        assert left_in_files(filled_folder)

    assert [] == left_in_files(filled_folder)
    _, receipt = await erase(store, task_owner=OWNER)
    assert 2 == receipt.erased["sessions"].count


async def test_a_redaction_beside_a_reader_says_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event is redacted for all who read it now."""
    async with Store.local(tmp_path, session_limits=LIMITS) as store:
        session = await store.sessions.create_session(**WHO)
        event = await store.sessions.append_event(session, said(SECRET))
        async with store.sessions.storage.documents.snapshot():
            with monkeypatch.context() as patch:
                set_numbers(patch, wait_for_readers_s=0.0)
                with pytest.raises(OutcomeUnknownError, match="the event is redacted, but") as caught:
                    await store.redact_event(**WHO, event_id=event.id, reason="ticket")
            assert "nothing was written" not in str(caught.value)
        again = await store.redact_event(**WHO, event_id=event.id, reason="ticket")

    assert not again.is_new
    assert [] == traces(in_folder(tmp_path), SECRET)


async def test_a_fork_has_no_marker_without_the_event_that_reports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where an event is redacted after the fork read the session, and before it reads its segments."""
    async with Store.local(tmp_path, session_limits=LIMITS) as store:
        session = await store.sessions.create_session(**WHO)
        events = [await store.sessions.append_event(session, said(f"{SECRET} {'x' * 300}")) for _ in range(9)]
        other = Store.local(tmp_path, session_limits=LIMITS)
        documents = other.sessions.storage.documents
        get = documents.get

        async def redacting(paths: Sequence[str], **given: Any) -> list[Any]:
            if "segments" in paths[0]:
                monkeypatch.undo()
                await store.redact_event(**WHO, event_id=events[0].id, reason="ticket")
            return await get(paths, **given)

        async with other:
            monkeypatch.setattr(documents, "get", redacting)
            await other.fork_session(**WHO, to_session_id="fork")
        proof = await store.verify_session(**{**WHO, "session_id": "fork"})

    assert (None, [0]) == (proof.broken, [each.position for each in proof.redacted])


async def test_an_export_that_began_before_has_the_whole_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was then; its end removes the last bytes."""
    async with Store.local(tmp_path, session_limits=LIMITS) as store:
        session = await store.sessions.create_session(**WHO)
        for number in range(9):
            await store.sessions.append_event(session, said(f"{number} {SECRET}"))
        exported = []
        async for record in records_of(store.sessions, APP, USER, "s"):
            with monkeypatch.context() as patch:
                set_numbers(patch, wait_for_readers_s=0.0)
                with pytest.raises(OutcomeUnknownError):
                    await erase(store)
            exported = [event async for event in record.events]

    assert 9 == len(exported)
    assert [] == traces(in_folder(tmp_path), SECRET)
