"""An erasure beside a reader of an older state, such as an export: what is left and said, and how it ends."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store import ErasureReceipt, OutcomeUnknownError, Store
from gcp_adk_store.moving import records_of
from tests.erasure.conftest import APP, FILLED, LIMITS, OWNER, PLACES, USER, canary, erase, said
from tests.support.small_pieces import set_numbers
from tests.support.traces import in_folder, traces

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
