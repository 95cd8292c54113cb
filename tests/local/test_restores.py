"""Read a session at a point, and take it back to one: who conflicts, what is left, what is refused."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.genai import types

from gcp_adk_store import (
    InvalidInputError,
    PayloadMissingError,
    Point,
    PointMissingError,
    SessionConflictError,
    SessionExistsError,
    SessionLimits,
    SessionMissingError,
    Store,
)
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.testing.conformance.running import read
from tests.support.stores import remove_payloads

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
        again = await read(store.sessions, WHO)
        await store.sessions.append_event(again, event(12))

        assert ["e0", "e1", "e2", "e10", "e11", "e12"] == ids(again)
        assert again == await store.sessions.get_session(**WHO)


async def test_a_point_that_keeps_everything_changes_nothing(store: Store) -> None:
    """Handles stay valid."""
    session = await fill(store, 5)
    restored = await store.sessions.restore_session(**WHO, at=Point.after_event("e4"))
    await store.sessions.append_event(session, event(5))

    assert ["e0", "e1", "e2", "e3", "e4"] == ids(restored)
    assert 6 == len(session.events)


async def test_cursors_go_on_in_what_is_where_it_was(store: Store) -> None:
    """Cursors into segments that are live go on; others are refused."""
    await fill(store, 30)
    cursors = [seen.cursor async for seen in store.sessions.iter_events(**WHO)]
    await store.sessions.restore_session(**WHO, at=Point.position(20))
    rest = [seen.event.id async for seen in store.sessions.iter_events(**WHO, cursor=cursors[0])]
    with pytest.raises(InvalidInputError, match="a restore moved the events at the cursor"):
        _ = [seen async for seen in store.sessions.iter_events(**WHO, cursor=cursors[25])]
    back = store.sessions.iter_events(**WHO, cursor=cursors[25], direction="backward")
    with pytest.raises(InvalidInputError, match="a restore moved the events at the cursor"):
        _ = [seen async for seen in back]

    assert [f"e{number}" for number in range(1, 20)] == rest


async def test_an_iteration_over_a_restored_session_is_reported(store: Store) -> None:
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


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[tuple[Store, Store]]:
    """Two stores in one folder, as two processes have them."""
    async with (
        Store.local(tmp_path, session_limits=SMALL) as one,
        Store.local(tmp_path, session_limits=SMALL) as other,
    ):
        yield one, other


async def test_a_restore_and_a_deletion_at_once_leave_no_session(two: tuple[Store, Store]) -> None:
    """And nothing that the collector does not find."""
    one, other = two
    for _ in range(3):
        await fill(one, 30)
        stored = await one.sessions._reader.stored(KEY)
        assert stored is not None
        _, outcome = await asyncio.gather(
            one.sessions.delete_session(**WHO),
            other.sessions.restore_session(**WHO, at=Point.position(3)),
            return_exceptions=True,
        )
        storage = one.sessions._storage
        segments = storage.layout.segments(KEY, stored.epoch, range(stored.sealed + 2))

        assert not isinstance(outcome, BaseException) or isinstance(outcome, SessionMissingError)
        assert await one.sessions.get_session(**WHO) is None
        assert not any(await storage.documents.get(segments))


async def test_what_is_cut_off_is_kept_as_a_fork(store: Store) -> None:
    """The fork has all events, the state and the artifacts of before."""
    session = await fill(store, 6)
    await store.artifacts.save_artifact(**WHO, filename="a.txt", artifact=types.Part(text="first"))
    back = await store.restore_session(**WHO, at=Point.position(2), keep_as="kept")
    kept = await store.sessions.get_session(app_name=APP, user_id=USER, session_id="kept")

    assert kept is not None
    assert (session.events, session.state) == (kept.events, kept.state)
    assert ["e0", "e1"] == ids(back)
    assert types.Part(text="first") == await store.artifacts.load_artifact(
        app_name=APP, user_id=USER, session_id="kept", filename="a.txt"
    )


async def test_a_session_is_kept_before_it_is_restored_or_nothing_happens(store: Store) -> None:
    """If the id is taken or blank, or the session does not have the point."""
    session = await fill(store, 6)
    await store.sessions.create_session(app_name=APP, user_id=USER, session_id="taken")
    with pytest.raises(SessionExistsError):
        await store.restore_session(**WHO, at=Point.position(2), keep_as="taken")
    with pytest.raises(PointMissingError):
        await store.restore_session(**WHO, at=Point.position(7), keep_as="kept")
    with pytest.raises(InvalidInputError, match="keep_as is blank"):
        await store.restore_session(**WHO, at=Point.position(2), keep_as=" ")
    with pytest.raises(SessionMissingError):
        await store.restore_session(
            app_name=APP, user_id=USER, session_id="never", at=Point.position(0), keep_as="kept"
        )

    assert session == await store.sessions.get_session(**WHO)
    assert await store.sessions.get_session(app_name=APP, user_id=USER, session_id="kept") is None


@pytest.mark.parametrize("at", [5, 6])
async def test_an_append_after_the_fork_is_not_cut_off(
    store: Store, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Also one in the place of an event that another restore cut off; the error says what to do."""
    session = await fill(store, 6)
    fork = store.fork_session

    async def fork_and_append(**options: Any) -> Any:
        nonlocal session
        made = await fork(**options)
        session = await store.sessions.restore_session(**WHO, at=Point.position(at))
        await store.sessions.append_event(session, event(6))
        return made

    monkeypatch.setattr(store, "fork_session", fork_and_append)
    with pytest.raises(SessionConflictError, match="other events than the 6 that were kept"):
        await store.restore_session(**WHO, at=Point.position(2), keep_as="kept")

    assert session == await store.sessions.get_session(**WHO)
    assert await store.sessions.get_session(app_name=APP, user_id=USER, session_id="kept") is not None


async def with_deltas(store: Store, *deltas: dict[str, Any], state: dict[str, Any] | None = None) -> None:
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
    await with_deltas(store, {"a": 1}, {"a": 2})
    past = await store.sessions.get_session_at(**WHO, at=Point.position(1))
    assert past is not None
    with pytest.raises(SessionConflictError):
        await store.sessions.append_event(past, Event(author="user"))


async def test_a_point_at_the_end_gives_the_session_itself(store: Store) -> None:
    """It can be appended to."""
    await with_deltas(store, {"a": 1}, {"a": 2})
    found = await store.sessions.get_session_at(**WHO, at=Point.after_event("e1"))
    assert found is not None
    assert await store.sessions.get_session(**WHO) == found
    await store.sessions.append_event(found, Event(author="user"))

    assert await store.sessions.get_session(**WHO) == found


async def test_a_rewind_is_stored_once_when_it_is_delivered_again(store: Store) -> None:
    """By the event as it was stored, also after later events."""
    await with_deltas(store, {"k": 1}, {"k": 2}, state={"k": 0})
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
    await with_deltas(store, {"k": "x" * 1000}, {"k": 2})
    await remove_payloads(store)

    assert await store.sessions.get_session(**WHO) is not None
    with pytest.raises(PayloadMissingError):
        await store.sessions.get_session_at(**WHO, at=Point.position(1))
    await store.close()
