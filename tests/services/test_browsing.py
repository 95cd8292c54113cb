"""Sessions in pages, and the events of one in parts."""

import base64
import json
from collections.abc import AsyncIterator
from typing import Any, Literal

import pytest
from google.adk.events import Event
from google.adk.sessions import Session

from gcp_adk_store import (
    InvalidInputError,
    SessionEvent,
    SessionLimits,
    SessionMissingError,
    SessionService,
    StoredDataError,
)
from gcp_adk_store.testing.conformance.running import event, read
from tests.services.conftest import APP, WHO, Connect, texts
from tests.support.stored import overwrite

Direction = Literal["forward", "backward"]


async def all_pages(service: SessionService, **request: Any) -> tuple[list[Session], int]:
    """Return the sessions of all pages, and how many pages there were."""
    listed: list[Session] = []
    cursor, pages = None, 0
    while pages == 0 or cursor:
        page = await service.list_sessions_page(**request, cursor=cursor)
        listed += page.sessions
        cursor, pages = page.next_cursor, pages + 1
    return listed, pages


@pytest.fixture
async def shop(sessions: SessionService) -> SessionService:
    """A service whose app has seven sessions of three users, one of them with the empty id."""
    for number in range(7):
        user = ("u", "", "a/b")[number % 3]
        held = await sessions.create_session(app_name=APP, user_id=user, session_id=f"s{number}")
        await sessions.append_event(
            held, event(at=float(number // 2), delta={"n": number, "user:last": number, "app:last": number})
        )
    await sessions.create_session(app_name=f"{APP}2", user_id="u", session_id="not listed")
    return sessions


@pytest.mark.parametrize("user", ["u", None])
async def test_pages_without_state_show_the_same_sessions(shop: SessionService, user: str | None) -> None:
    """With times and markers, so that a handle from one may append; its state is empty until it does."""
    plain, _ = await all_pages(shop, app_name=APP, user_id=user, page_size=2, include_state=False)
    full, _ = await all_pages(shop, app_name=APP, user_id=user, page_size=2)
    await shop.append_event(plain[0], event(at=9.0, delta={"seen": True}))
    found = await shop.get_session(app_name=APP, user_id=plain[0].user_id, session_id=plain[0].id)

    assert [(one.id, one.last_update_time) for one in full[1:]] == [
        (one.id, one.last_update_time) for one in plain[1:]
    ]
    assert [{"seen": True}, *[{}] * (len(full) - 1)] == [one.state for one in plain]
    assert found is not None
    assert {**full[0].state, "seen": True} == found.state


@pytest.fixture
async def long(connect: Connect, small_segments: SessionLimits) -> SessionService:
    """A service that holds one session with 40 events, in segments and a tail."""
    service = connect(limits=small_segments)
    held = await service.create_session(**WHO)
    for number in range(40):
        await service.append_event(held, event(f"{number}"))
    return service


async def collect(found: AsyncIterator[SessionEvent]) -> list[SessionEvent]:
    """Return all that *found* yields."""
    return [one async for one in found]


def events_of(found: list[SessionEvent]) -> list[Event]:
    """Return the events alone."""
    return [one.event for one in found]


@pytest.mark.parametrize(
    ("direction", "limit"),
    [("forward", 1), ("backward", 7), ("forward", 40), ("backward", 41)],
)
async def test_a_history_is_read_part_by_part_while_it_grows_and_is_sealed(
    long: SessionService, direction: Direction, limit: int
) -> None:
    """Every event is met once, wherever a part ended; what is appended meanwhile comes last."""
    held = await read(long, WHO)
    met: list[Event] = []
    cursor: str | None = None
    while part := await collect(long.iter_events(**WHO, cursor=cursor, limit=limit, direction=direction)):
        assert len(part) <= limit
        met += events_of(part)
        cursor = part[-1].cursor
        if len(held.events) < 50:
            await long.append_event(held, event(f"{len(held.events)}"))
    expected = [f"{number}" for number in range(len(held.events) if direction == "forward" else 40)]

    assert (expected if direction == "forward" else expected[::-1]) == texts(met)


async def test_a_cursor_leads_back_too(long: SessionService) -> None:
    """It is a place between two events."""
    forward = await collect(long.iter_events(**WHO, limit=5))
    back = await collect(long.iter_events(**WHO, cursor=forward[-1].cursor, direction="backward"))

    assert ["4", "3", "2", "1", "0"] == texts(events_of(back))


@pytest.mark.usefixtures("long")
async def test_segments_are_read_some_at_a_time(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them in order; one that is missing is missed wherever it was."""
    monkeypatch.setattr("gcp_adk_store.sessions.read.reader._SEGMENTS_PER_READ", 3)
    reader = connect(limits=SessionLimits(segment_cache_bytes=0))
    assert [f"{number}" for number in range(40)] == texts((await read(reader, WHO)).events)

    segments = await reader.storage.documents.query("", "adk_segments", all_descendants=True)
    assert len(segments) > 6
    (fifth,) = [each.path for each in segments if each.path.endswith("-4")]
    await overwrite(reader.storage.documents, {fifth: None})
    with pytest.raises(StoredDataError, match=f"one of the {len(segments)} segments is missing"):
        await reader.get_session(**WHO)


async def test_a_session_that_is_deleted_under_an_iteration_ends_it_with_an_error(
    long: SessionService, connect: Connect
) -> None:
    """Never as if there were no more events."""
    found = connect(limits=SessionLimits(segment_cache_bytes=0)).iter_events(**WHO)
    await anext(found)
    await long.delete_session(**WHO)

    with pytest.raises(SessionMissingError, match="another call deleted the session during the read"):
        await collect(found)


async def test_a_cursor_of_an_earlier_session_is_an_error(long: SessionService) -> None:
    """The error names the call and the session."""
    (first,) = await collect(long.iter_events(**WHO, limit=1))
    await long.delete_session(**WHO)
    await long.create_session(**WHO)
    with pytest.raises(SessionMissingError, match=r"^iter_events .*the session of the cursor was deleted"):
        await collect(long.iter_events(**WHO, cursor=first.cursor))


async def test_a_cursor_beyond_the_events_is_refused(long: SessionService) -> None:
    """In a segment that the session does not have, or after the events of one."""
    (last,) = await collect(long.iter_events(**WHO, limit=1, direction="backward"))
    epoch, segment, offset = json.loads(base64.urlsafe_b64decode(last.cursor))
    for place in ([epoch, 99, offset], [epoch, segment, 99]):
        beyond = base64.urlsafe_b64encode(json.dumps(place).encode()).decode()
        with pytest.raises(InvalidInputError, match="cursor leads beyond the events"):
            await collect(long.iter_events(**WHO, cursor=beyond))
