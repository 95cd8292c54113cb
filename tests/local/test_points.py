"""Read a session as it was at a point: errors, handles, rewinds."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.adk.events import Event, EventActions

from gcp_adk_store import (
    PayloadMissingError,
    Point,
    PointMissingError,
    SessionConflictError,
    SessionLimits,
    Store,
)
from gcp_adk_store.testing.conformance.running import read
from tests.support.stores import remove_payloads

APP, USER, SESSION = "app", "user", "session"
WHO: dict[str, Any] = {"app_name": APP, "user_id": USER, "session_id": SESSION}


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """A store that seals often."""
    store = Store.local(":memory:", session_limits=SessionLimits(seal_tail_bytes=1000))
    yield store
    await store.close()


async def fill(store: Store, *deltas: dict[str, Any], state: dict[str, Any] | None = None) -> None:
    """Make a session with an event for each delta."""
    session = await store.sessions.create_session(**WHO, state=state)
    for number, delta in enumerate(deltas):
        event = Event(
            id=f"e{number}",
            invocation_id=f"turn-{number}",
            author="user",
            actions=EventActions(state_delta=delta),
        )
        await store.sessions.append_event(session, event)


async def test_a_session_that_does_not_exist_is_none(store: Store) -> None:
    """As in get_session, with any point."""
    assert await store.sessions.get_session_at(**WHO, at=Point.position(5)) is None
    assert await store.sessions.get_session_at(**{**WHO, "session_id": " "}, at=Point.position(0)) is None


async def test_a_point_that_does_not_exist_is_reported(store: Store) -> None:
    """With the operation and the session."""
    await fill(store, {"a": 1})
    with pytest.raises(PointMissingError, match=r"^get_session_at .*has 1 events, the point is after 2"):
        await store.sessions.get_session_at(**WHO, at=Point.position(2))


async def test_a_session_before_its_first_event_was_last_updated_at_its_creation(store: Store) -> None:
    """With the state that it was created with."""
    made = await store.sessions.create_session(**WHO, state={"k": 1})
    created_at = made.last_update_time
    await store.sessions.append_event(
        made, Event(author="user", timestamp=5.0, actions=EventActions(state_delta={"k": 2}))
    )
    found = await store.sessions.get_session_at(**WHO, at=Point.position(0))

    assert found is not None
    assert ({"k": 1}, [], created_at) == (found.state, found.events, found.last_update_time)


async def test_an_append_to_a_past_session_conflicts(store: Store) -> None:
    """Nothing is appended after events that the handle does not show."""
    await fill(store, {"a": 1}, {"a": 2})
    past = await store.sessions.get_session_at(**WHO, at=Point.position(1))
    assert past is not None
    with pytest.raises(SessionConflictError):
        await store.sessions.append_event(past, Event(author="user"))


async def test_a_point_at_the_end_gives_the_session_itself(store: Store) -> None:
    """It can be appended to."""
    await fill(store, {"a": 1}, {"a": 2})
    found = await store.sessions.get_session_at(**WHO, at=Point.after_event("e1"))
    assert found is not None
    assert await store.sessions.get_session(**WHO) == found
    await store.sessions.append_event(found, Event(author="user"))

    assert await store.sessions.get_session(**WHO) == found


async def test_a_rewind_is_stored_once_when_it_is_delivered_again(store: Store) -> None:
    """By the event as it was stored, also after later events."""
    await fill(store, {"k": 1}, {"k": 2}, state={"k": 0})
    session = await read(store.sessions, WHO)
    rewind = Event(
        author="user",
        actions=EventActions(state_delta={"k": None}, rewind_before_invocation_id="turn-0"),
    )
    again = rewind.model_copy(deep=True)
    await store.sessions.append_event(session, rewind)
    await store.sessions.append_event(session, again)
    await store.sessions.append_event(session, Event(author="user"))
    await store.sessions.append_event(session, rewind.model_copy(deep=True))

    found = await read(store.sessions, WHO)
    assert session == found
    assert (4, {"k": 0}) == (len(found.events), found.state)


async def test_an_event_whose_content_is_gone_leaves_its_state_unknown() -> None:
    """A placeholder stands for its text in get_session, but the state would be a guess."""
    limits = SessionLimits(event_text_bytes=500)
    store = Store.local(":memory:", session_limits=limits, on_missing_payload="placeholder")
    await fill(store, {"k": "x" * 1000}, {"k": 2})
    await remove_payloads(store)

    assert await store.sessions.get_session(**WHO) is not None
    with pytest.raises(PayloadMissingError):
        await store.sessions.get_session_at(**WHO, at=Point.position(1))
    await store.close()
