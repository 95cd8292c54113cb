"""Take a session back to a point: who conflicts, what is left, what is refused."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.genai import types

from gcp_adk_store import (
    InvalidInputError,
    Point,
    PointMissingError,
    SessionConflictError,
    SessionLimits,
    SessionMissingError,
    Store,
)
from gcp_adk_store.model.keys import SessionKey

APP, USER, SESSION = "app", "user", "session"
WHO: dict[str, Any] = {"app_name": APP, "user_id": USER, "session_id": SESSION}
KEY = SessionKey(app=APP, user=USER, session=SESSION)
SMALL = SessionLimits(seal_tail_bytes=1000, inline_bytes=50, state_value_bytes=100)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """A store that seals often, and makes payloads of little."""
    async with Store.local(":memory:", session_limits=SMALL) as store:
        yield store


def event(number: int, *, data: bytes = b"", delta: dict[str, Any] | None = None) -> Event:
    """Return an event of a turn of its own."""
    return Event(
        id=f"e{number}",
        invocation_id=f"turn-{number}",
        author="user",
        timestamp=1000.0 + number,
        content=types.Content(parts=[types.Part(inline_data=types.Blob(data=data, mime_type="a/b"))]),
        actions=EventActions(state_delta={"n": number} if delta is None else delta),
    )


async def fill(store: Store, count: int, **options: Any) -> Any:
    """Make a session of *count* events."""
    session = await store.sessions.create_session(**WHO, state={"initial": True, "user:u": 1}, **options)
    for number in range(count):
        await store.sessions.append_event(session, event(number))
    return session


def ids(session: Any) -> list[str]:
    """Return the ids of a session's events."""
    return [one.id for one in session.events]


async def test_a_session_goes_back_to_before_a_turn(store: Store) -> None:
    """What is returned is what a read returns, and what it was; the user's state is that of now."""
    session = await fill(store, 5)
    await store.sessions.append_event(session, event(5, delta={"user:u": 2, "new": 1}))
    past = await store.sessions.get_session_at(**WHO, at=Point.before_invocation("turn-3"))
    restored = await store.sessions.restore_session(**WHO, at=Point.before_invocation("turn-3"))

    assert past is not None
    assert ["e0", "e1", "e2"] == ids(restored)
    assert {"initial": True, "n": 2, "user:u": 2} == restored.state
    assert (past.events, past.state, past.last_update_time) == (
        restored.events,
        restored.state,
        restored.last_update_time,
    )
    assert restored == await store.sessions.get_session(**WHO)


@pytest.mark.parametrize("on_conflict", ["raise", "merge"])
async def test_handles_from_before_conflict(on_conflict: Any) -> None:
    """Also where conflicts merge, and also if the session has as many events again."""
    async with Store.local(":memory:", session_limits=SMALL, on_conflict=on_conflict) as store:
        session = await fill(store, 5)
        restored = await store.sessions.restore_session(**WHO, at=Point.position(3))
        for number in (10, 11):
            await store.sessions.append_event(restored, event(number))
        with pytest.raises(
            SessionConflictError, match=r"was restored to an earlier point.*Read the session again"
        ):
            await store.sessions.append_event(session, event(12))
        again = await store.sessions.get_session(**WHO)
        assert again is not None
        await store.sessions.append_event(again, event(12))

        assert ["e0", "e1", "e2", "e10", "e11", "e12"] == ids(again)
        assert again == await store.sessions.get_session(**WHO)


async def test_an_event_that_was_cut_off_can_be_appended_again(store: Store) -> None:
    """It is not taken for one that is stored."""
    await fill(store, 5)
    restored = await store.sessions.restore_session(**WHO, at=Point.position(3))
    await store.sessions.append_event(restored, event(3))

    assert ["e0", "e1", "e2", "e3"] == ids(await store.sessions.get_session(**WHO))


async def test_a_point_that_keeps_everything_changes_nothing(store: Store) -> None:
    """Handles stay valid."""
    session = await fill(store, 5)
    restored = await store.sessions.restore_session(**WHO, at=Point.after_event("e4"))
    await store.sessions.append_event(session, event(5))

    assert ["e0", "e1", "e2", "e3", "e4"] == ids(restored)
    assert 6 == len(session.events)


async def test_what_cannot_be_restored_is_told(store: Store) -> None:
    """And nothing changes."""
    with pytest.raises(SessionMissingError, match="not found"):
        await store.sessions.restore_session(**WHO, at=Point.position(0))
    session = await fill(store, 3)
    with pytest.raises(PointMissingError, match="has 3 events, the point is after 4"):
        await store.sessions.restore_session(**WHO, at=Point.position(4))
    at: Any = 5
    with pytest.raises(InvalidInputError, match="at must be a Point"):
        await store.sessions.restore_session(**WHO, at=at)

    assert session == await store.sessions.get_session(**WHO)


async def test_what_is_cut_off_is_removed_with_its_payloads(store: Store) -> None:
    """What the kept events and the state at the point refer to stays, whoever else refers to it."""
    session = await fill(store, 5)
    large = {"once": "x" * 200, "both": "y" * 200}
    await store.sessions.append_event(session, event(5, data=b"kept" * 100, delta=large))
    for number in range(6, 20):
        data = b"kept" * 100 if number % 2 else b"%d" % number * 100
        delta = {"once": "z" * 200, "later": "y" * 200}
        await store.sessions.append_event(session, event(number, data=data, delta=delta))
    storage = store.sessions._storage
    before = await store.sessions._reader.stored(KEY)
    assert before is not None
    owner = storage.layout.session_payloads(KEY, before.epoch)
    payloads = storage.payloads.at(storage.payloads.place)
    restored = await store.sessions.restore_session(**WHO, at=Point.position(6))
    after = await store.sessions._reader.stored(KEY)
    assert after is not None
    segments = await storage.documents.get(storage.layout.segments(KEY, after.epoch, range(after.sealed)))

    assert {**large, "n": 4, "initial": True, "user:u": 1} == restored.state
    assert 3 == len(await payloads.of(owner))
    assert before.sealed > len(after.live)
    assert len(after.live) == sum(one is not None for one in segments)
    assert before.sealed + 1 == after.sealed
    assert restored == await store.sessions.get_session(**WHO)


async def test_cursors_go_on_in_what_is_where_it_was(store: Store) -> None:
    """Cursors into segments that are live go on; others are refused."""
    await fill(store, 30)
    cursors = [seen.cursor async for seen in store.sessions.iter_events(**WHO)]
    await store.sessions.restore_session(**WHO, at=Point.position(20))
    rest = [seen.event.id async for seen in store.sessions.iter_events(**WHO, cursor=cursors[0])]
    with pytest.raises(InvalidInputError, match="the session was restored"):
        _ = [seen async for seen in store.sessions.iter_events(**WHO, cursor=cursors[25])]
    back = store.sessions.iter_events(**WHO, cursor=cursors[25], direction="backward")
    with pytest.raises(InvalidInputError, match="the session was restored"):
        _ = [seen async for seen in back]

    assert [f"e{number}" for number in range(1, 20)] == rest


async def test_an_iteration_over_a_restored_session_is_told(store: Store) -> None:
    """The events that it would come to are gone."""
    await fill(store, 60)
    reader = store.sessions.iter_events(**WHO)
    first = await anext(reader)
    store.sessions._reader._known_segments.forget(lambda _: True)
    await store.sessions.restore_session(**WHO, at=Point.position(5))
    store.sessions._reader._known_segments.forget(lambda _: True)
    with pytest.raises(
        SessionConflictError, match="restored the session to an earlier point during the read"
    ):
        _ = [seen async for seen in reader]

    assert "e0" == first.event.id


async def test_a_deleted_session_leaves_nothing_of_its_restores(store: Store) -> None:
    """Neither segments nor notes."""
    await fill(store, 40)
    restored = await store.sessions.restore_session(**WHO, at=Point.position(20))
    for number in range(40, 60):
        await store.sessions.append_event(restored, event(number))
    storage = store.sessions._storage
    stored = await store.sessions._reader.stored(KEY)
    assert stored is not None
    await store.sessions.delete_session(**WHO)
    segments = storage.layout.segments(KEY, stored.epoch, range(stored.sealed + 1))

    assert not any(await storage.documents.get(segments))


async def test_a_session_with_a_time_to_live_lives_on(store: Store) -> None:
    """A restore renews it as an append does."""
    await fill(store, 40, ttl_seconds=1000)
    before = await store.sessions._reader.stored(KEY)
    await store.sessions.restore_session(**WHO, at=Point.position(20))
    after = await store.sessions._reader.stored(KEY)

    assert before is not None
    assert before.expiry is not None
    assert after is not None
    assert after.expiry is not None
    assert before.expiry.at <= after.expiry.at <= (after.expiry.parts_at or 0)
