"""A session is followed: each event that anyone appends is yielded once, in append order."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event
from google.genai import types

from gcp_adk_store import (
    Point,
    SessionConflictError,
    SessionLimits,
    SessionMissingError,
    SessionService,
    Store,
    StoreError,
    UnavailableError,
)
from gcp_adk_store.testing.conformance.running import event
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE
from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy
from gcp_adk_store.testing.meters import FirestoreFigures, FirestoreMeter
from tests.services.conftest import WHO
from tests.support.stores import STORES, At, open_store

_SOON_S = 60

Another = Callable[..., SessionService]


@pytest.fixture(params=STORES)
def at(request: pytest.FixtureRequest, tmp_path: Path) -> At:
    """Where the stores of the test are."""
    if request.param == "folder":
        return {"folder": str(tmp_path / "store")}
    assert request.getfixturevalue("firestore_emulator").address
    return {"project": f"demo-{uuid.uuid4().hex[:20]}"}


@pytest.fixture
async def another(at: At) -> AsyncIterator[Another]:
    """Make a service of a store of its own, as another process has it."""
    opened: list[Store] = []

    def make(limits: SessionLimits | None = None) -> SessionService:
        opened.append(open_store(at, session_limits=limits or SessionLimits()))
        return opened[-1].sessions

    yield make
    for store in opened:
        await store.close()


@pytest.fixture
def writer(another: Another) -> SessionService:
    """The service that appends, and seals after every few events."""
    return another(SessionLimits(seal_tail_bytes=1000, inline_bytes=500, event_text_bytes=3000))


@pytest.fixture
def reader(another: Another) -> SessionService:
    """The service that follows."""
    return another()


def said(yielded: Any) -> str | None:
    """Return the text of an event."""
    content = (yielded if isinstance(yielded, Event) else yielded.event).content
    return content.parts[0].text if content and content.parts else None


async def soon(events: Any) -> Any:
    """Return the next event, which must come soon."""
    return await asyncio.wait_for(anext(events), _SOON_S)


async def test_a_cursor_resumes_after_its_event(writer: SessionService, reader: SessionService) -> None:
    """So does the cursor of a backward iteration, which begins with its event."""
    held = await writer.create_session(**WHO)
    for number in range(8):
        await writer.append_event(held, event(f"{number}"))
    found = [each async for each in reader.iter_events(**WHO, limit=5)]
    async with aclosing(reader.iter_events(**WHO, follow=True, cursor=found[-1].cursor)) as events:
        later = [said(await soon(events)) for _ in range(3)]
        await writer.append_event(held, event("8"))
        later.append(said(await soon(events)))
    last = [each async for each in reader.iter_events(**WHO, direction="backward", limit=2)]
    newest = [
        said(each) async for each in reader.iter_events(**WHO, follow=True, cursor=last[-1].cursor, limit=2)
    ]

    assert ["5", "6", "7", "8"] == later
    assert ["7", "8"] == newest


async def test_large_content_comes_whole(writer: SessionService, reader: SessionService) -> None:
    """Payloads are fetched for the follower as for any reader."""
    held = await writer.create_session(**WHO)
    async with aclosing(reader.iter_events(**WHO, follow=True)) as events:
        waiting = asyncio.create_task(soon(events))
        large = event("x" * 5000)
        assert large.content is not None
        assert large.content.parts is not None
        data = types.Part(inline_data=types.Blob(data=b"y" * 2000, mime_type="image/png"))
        large.content.parts.append(data)
        stored = await writer.append_event(held, large)

        assert stored == (await waiting).event


async def test_a_redaction_does_not_end_it(writer: SessionService, reader: SessionService) -> None:
    """The event comes as the marker that stands in its place."""
    held = await writer.create_session(**WHO)
    for text in ("0", "x" * 5000, "2"):
        await writer.append_event(held, event(text))
    ids = [one.id for one in held.events]
    events = reader.iter_events(**WHO, follow=True, limit=4)
    came = [(await soon(events)).event]
    redaction = await writer.redact_event(**WHO, event_id=ids[1], reason="asked for")
    came += [each.event async for each in events]

    assert [*ids, redaction.audit_id] == [one.id for one in came]
    assert "x" not in (said(came[1]) or "x")


@pytest.mark.parametrize("again", [False, True])
async def test_a_deleted_session_ends_it(
    writer: SessionService,
    reader: SessionService,
    again: bool,  # noqa: FBT001  # a case
) -> None:
    """Also if another session takes its id at once."""
    held = await writer.create_session(**WHO)
    await writer.append_event(held, event("0"))
    events = reader.iter_events(**WHO, follow=True)
    await soon(events)
    await writer.delete_session(**WHO)
    if again:
        await writer.create_session(**WHO)

    with pytest.raises(SessionMissingError):
        await soon(events)


async def test_a_restore_ends_it_with_a_conflict(writer: SessionService, reader: SessionService) -> None:
    """What was yielded may be gone, so the caller must read again."""
    held = await writer.create_session(**WHO)
    for number in range(3):
        await writer.append_event(held, event(f"{number}"))
    events = reader.iter_events(**WHO, follow=True)
    for _ in range(3):
        await soon(events)
    await writer.restore_session(**WHO, at=Point.position(1))
    with pytest.raises(SessionConflictError, match="follow it anew"):
        await soon(events)
    anew = [said(each) async for each in reader.iter_events(**WHO, follow=True, limit=1)]

    assert ["0"] == anew


async def test_a_missing_session_is_not_followed(reader: SessionService) -> None:
    """It is as missing as to any other call."""
    with pytest.raises(SessionMissingError):
        await soon(reader.iter_events(**WHO, follow=True))


async def test_a_session_that_expires_ends_it(writer: SessionService, reader: SessionService) -> None:
    """Nobody writes at that time, so nothing but the time shows it."""
    held = await writer.create_session(**WHO, ttl_seconds=1)
    await writer.append_event(held, event("0"))
    events = reader.iter_events(**WHO, follow=True)
    await soon(events)
    with pytest.raises(SessionMissingError, match="expired"):
        await soon(events)


async def test_a_store_that_is_closed_ends_it(at: At) -> None:
    """Closing does not leave a stream behind."""
    store = open_store(at)
    held = await store.sessions.create_session(**WHO)
    await store.sessions.append_event(held, event("0"))
    events = store.sessions.iter_events(**WHO, follow=True)
    await soon(events)
    waiting = asyncio.create_task(soon(events))
    await asyncio.sleep(0)
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        await waiting
    await store.close()


async def test_a_caller_that_stops_leaves_nothing_running(
    writer: SessionService, reader: SessionService
) -> None:
    """Neither if it leaves the loop, nor if it is cancelled while it waits."""
    held = await writer.create_session(**WHO)
    await writer.append_event(held, event("0"))
    before = asyncio.all_tasks()
    async for each in reader.iter_events(**WHO, follow=True):
        assert "0" == said(each)
        break
    waiting = asyncio.create_task(soon(reader.iter_events(**WHO, follow=True, limit=2)))
    await waiting

    if left := asyncio.all_tasks() - before:
        _, running = await asyncio.wait(left, timeout=_SOON_S)
        assert not running


@pytest.mark.emulators
@pytest.mark.parametrize("seal_tail_bytes", [100_000, 700])
async def test_it_costs_a_read_for_each_change(
    meter: FirestoreMeter, project: str, seal_tail_bytes: int
) -> None:
    """Appends and seals are changes; a segment is read only in the place of the change that sealed it."""
    alone = await cost_of_appends(meter, project, seal_tail_bytes, follow=False)
    followed = await cost_of_appends(meter, project, seal_tail_bytes, follow=True)

    assert 7 <= alone.rpcs["Commit"] == followed.rpcs["Commit"]
    assert alone.rpcs["Commit"] == followed.reads - alone.reads


async def cost_of_appends(
    meter: FirestoreMeter, project: str, seal_tail_bytes: int, *, follow: bool
) -> FirestoreFigures:
    """Return what seven appends cost, of which some seal."""
    limits = SessionLimits(seal_tail_bytes=seal_tail_bytes)
    who = {**WHO, "session_id": f"{follow}"}
    async with Store.connect(project=project, session_limits=limits) as store:
        held = await store.sessions.create_session(**who)
        meter.take()
        await store.sessions.append_event(held, event("first"))
        async with aclosing(store.sessions.iter_events(**who, follow=True)) as events:
            if follow:
                await soon(events)
                opened = meter.take()
                assert (1, 1) == (opened.rpcs["Listen"], opened.reads)
            meter.take()
            for number in range(7):
                waiting = asyncio.create_task(soon(events)) if follow else None
                await store.sessions.append_event(held, event(f"{number}"))
                if waiting is not None:
                    await waiting
            return meter.take()


@pytest.mark.emulators
@pytest.mark.usefixtures("passing")
async def test_an_outage_ends_it_with_an_error(
    firestore_proxy: FirestoreProxy, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller must know that events may be missing; the cursor goes on later."""
    with FirestoreProxy(firestore_proxy.address) as nearer:
        monkeypatch.setenv(FIRESTORE_VARIABLE, nearer.address)
        store = Store.connect(project=project)
        held = await store.sessions.create_session(**WHO)
        await store.sessions.append_event(held, event("0"))
        events = store.sessions.iter_events(**WHO, follow=True)
        last = await soon(events)
    with pytest.raises(UnavailableError):
        await soon(events)
    await store.close()
    monkeypatch.setenv(FIRESTORE_VARIABLE, firestore_proxy.address)
    async with Store.connect(project=project) as store:
        held = await store.sessions.get_session(**WHO) or held
        await store.sessions.append_event(held, event("1"))
        resumed = [
            said(each)
            async for each in store.sessions.iter_events(**WHO, follow=True, cursor=last.cursor, limit=1)
        ]

    assert ["1"] == resumed
