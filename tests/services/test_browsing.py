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
)
from gcp_adk_store.testing.conformance.running import event, read
from tests.services.conftest import APP, USER, WHO, Connect, texts

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


async def test_a_page_that_makes_no_sense_is_refused(sessions: SessionService) -> None:
    """With what was given, and what may be."""
    user = {"app_name": APP, "user_id": USER}
    for change, message in (
        ({"page_size": 0}, "page_size is 0, it must be 1 to 1000"),
        ({"page_size": 1001}, "page_size is 1001"),
        ({"page_size": "5"}, "page_size must be a whole number, not str"),
        ({"page_size": True}, "page_size must be a whole number, not bool"),
        ({"page_size": 1.5}, "page_size must be a whole number, not float"),
        ({"app_name": 5}, "app_name must be a string"),
        ({"app_name": "\ud800"}, "app_name holds a lone surrogate"),
        ({"cursor": "nonsense"}, "cursor 'nonsense' does not come from"),
        ({"cursor": "WzEsMl0="}, "cursor 'WzEsMl0=' does not come from|session_id must be a string"),
        ({"order": "random"}, "order is 'random', it must be 'newest' or 'oldest'"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            await sessions.list_sessions_page(**{**user, **change})  # type: ignore[arg-type]  # what is tested


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


async def test_events_of_a_missing_session_are_an_error(long: SessionService) -> None:
    """Also where a cursor is of an earlier session with the id; the error names call and session."""
    (first,) = await collect(long.iter_events(**WHO, limit=1))
    await long.delete_session(**WHO)
    with pytest.raises(SessionMissingError, match="the session does not exist") as caught:
        await collect(long.iter_events(**WHO))
    await long.create_session(**WHO)
    with pytest.raises(SessionMissingError, match="the session of the cursor was deleted"):
        await collect(long.iter_events(**WHO, cursor=first.cursor))

    assert ("iter_events", "app_name='app' user_id='user' session_id='session'") == (
        caught.value.operation,
        caught.value.key,
    )


async def test_a_session_that_is_deleted_under_an_iteration_ends_it_with_an_error(
    connect: Connect, small_segments: SessionLimits
) -> None:
    """Never as if there were no more events."""
    service = connect(limits=small_segments)
    held = await service.create_session(**WHO)
    for number in range(60):
        await service.append_event(held, event(f"{number}"))
    reader = connect(limits=SessionLimits(segment_cache_bytes=0))
    found = reader.iter_events(**WHO)
    await anext(found)
    await service.delete_session(**WHO)

    with pytest.raises(SessionMissingError, match="another call deleted the session during the read"):
        await collect(found)


async def test_what_makes_no_sense_to_an_iteration_is_refused(
    sessions: SessionService, long: SessionService
) -> None:
    """With what was given, and what may be."""
    (last,) = await collect(long.iter_events(**WHO, limit=1, direction="backward"))
    await sessions.create_session(app_name=APP, user_id=USER, session_id="short")
    for change, message in (
        ({"limit": 0}, "limit is 0, it must be 1 or more"),
        ({"limit": 1.5}, "limit must be a whole number or None, not float"),
        ({"limit": True}, "limit must be a whole number or None, not bool"),
        ({"direction": "up"}, "direction is 'up', it must be 'forward' or 'backward'"),
        ({"cursor": "nonsense"}, "cursor 'nonsense' does not come from this method"),
        ({"cursor": beyond(last.cursor, segment=99)}, "cursor leads beyond the events"),
        ({"cursor": beyond(last.cursor, offset=99)}, "cursor leads beyond the events"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            await collect(long.iter_events(**WHO, **change))


def beyond(cursor: str, **change: int) -> str:
    """Return *cursor* with another place in it."""
    epoch, segment, offset = json.loads(base64.urlsafe_b64decode(cursor))
    place = {"segment": segment, "offset": offset, **change}
    return base64.urlsafe_b64encode(json.dumps([epoch, *place.values()]).encode()).decode()
