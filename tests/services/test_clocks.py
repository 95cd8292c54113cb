"""A clock that is wrong neither hides nor ends a session: Firestore's time decides."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest
from google.adk.platform import time as platform_time

from gcp_adk_store import SessionExistsError, SessionLimits, SessionService
from tests.services.conftest import APP, SESSION, USER, WHO, Connect, event, texts

pytestmark = pytest.mark.emulators

TTL = 300
MINUTES = 60
WRONG = [-10 * MINUTES, 10 * MINUTES]
HEADER = f"adk_apps/{APP}/adk_users/{USER}/adk_sessions/{SESSION}"
SMALL = SessionLimits(seal_tail_bytes=500, inline_bytes=100, state_value_bytes=100)
SLACK_S = 60
"""Far more than a test takes, far less than a clock is wrong here."""

wrong_clocks = pytest.mark.parametrize("ahead_s", WRONG, ids=["behind", "ahead"])


@contextmanager
def clock(ahead_s: float) -> Iterator[None]:
    """Let the clock of a process be wrong; Firestore's is not."""
    platform_time.set_time_provider(lambda: time.time() + ahead_s)
    try:
        yield
    finally:
        platform_time.reset_time_provider()


def ends_in(fields: dict[str, Any]) -> float:
    """Return in how many seconds Firestore may remove a document."""
    expire_at: datetime = fields["expire_at"]
    return expire_at.timestamp() - time.time()


async def seen(service: SessionService) -> list[list[str]]:
    """Return the ids that each way to read shows."""
    found = await service.get_session(**WHO)
    listed = [
        (await service.list_sessions(app_name=APP, user_id=USER)).sessions,
        (await service.list_sessions(app_name=APP)).sessions,
        (await service.list_sessions_page(app_name=APP, user_id=USER)).sessions,
    ]
    return [[one.id for one in sessions] for sessions in ([found] if found else [], *listed)]


@wrong_clocks
async def test_a_process_with_a_wrong_clock_replaces_no_live_session(
    connect: Connect, ahead_s: float
) -> None:
    """Its `create_session` is refused, and all that was acknowledged stays."""
    held = await connect().create_session(**WHO, ttl_seconds=TTL)
    for word in ("one", "two", "three"):
        await connect().append_event(held, event(word))
    with clock(ahead_s), pytest.raises(SessionExistsError):
        await connect().create_session(**WHO, ttl_seconds=TTL)
    found = await connect().get_session(**WHO)

    assert found is not None
    assert ["one", "two", "three"] == texts(found.events)


@wrong_clocks
async def test_a_session_of_a_process_with_a_wrong_clock_is_not_replaced(
    connect: Connect, ahead_s: float
) -> None:
    """Neither by one whose clock is right, nor before its first event."""
    with clock(ahead_s):
        held = await connect().create_session(**WHO, ttl_seconds=TTL)
    with pytest.raises(SessionExistsError):
        await connect().create_session(**WHO)
    with clock(ahead_s):
        await connect().append_event(held, event("one"))
    with pytest.raises(SessionExistsError):
        await connect().create_session(**WHO)
    found = await connect().get_session(**WHO)

    assert found is not None
    assert ["one"] == texts(found.events)


@wrong_clocks
async def test_a_reader_with_a_wrong_clock_sees_a_live_session(connect: Connect, ahead_s: float) -> None:
    """Every way to read tells by the time of its own answer."""
    held = await connect().create_session(**WHO, ttl_seconds=TTL)
    await connect().append_event(held, event("one"))
    with clock(ahead_s):
        found = await seen(connect())
        events = [one.event async for one in connect().iter_events(**WHO)]

    assert [[SESSION]] * 4 == found
    assert ["one"] == texts(events)


@wrong_clocks
async def test_a_writer_with_a_wrong_clock_appends_to_a_live_session(
    connect: Connect, ahead_s: float
) -> None:
    """With a handle that another process made, with one of its own, and with one that has no marker."""
    held = await connect().create_session(**WHO, ttl_seconds=TTL)
    with clock(ahead_s):
        service = connect()
        await service.append_event(held, event("one"))
        own = await service.get_session(**WHO)
        assert own is not None
        await service.append_event(own, event("two"))
        bare = own.model_copy(deep=True)
        bare._storage_update_marker = None
        await service.append_event(bare, event("three"))
    found = await connect().get_session(**WHO)

    assert found is not None
    assert ["one", "two", "three"] == texts(found.events)


@wrong_clocks
async def test_the_end_that_firestore_removes_by_is_told_by_firestores_time(
    connect: Connect, raw_documents: Any, ahead_s: float
) -> None:
    """From the first call of a process on: of the session, of its segments and of its payloads."""
    with clock(ahead_s):
        service = connect(limits=SMALL)
        held = await service.create_session(**WHO, state={"large": "x" * 200}, ttl_seconds=TTL)
        made = raw_documents()
        for number in range(5):
            await service.append_event(held, event(f"{number}", delta={"large": f"{number}" * 200}))
        appended = raw_documents()

    for documents in (made, appended):
        session = documents.pop(HEADER)
        parts = [ends_in(fields) for fields in documents.values()]
        assert TTL == pytest.approx(ends_in(session), abs=SLACK_S)
        assert parts
        assert [2 * TTL + 3600] * len(parts) == [pytest.approx(end, abs=SLACK_S) for end in parts]


@pytest.mark.long
async def test_a_fleet_whose_clocks_disagree_keeps_all_parts(connect: Connect, raw_documents: Any) -> None:
    """No part ends before its session, whoever of them appends, seals and renews."""
    held = await connect().create_session(**WHO, ttl_seconds=TTL)
    for turn, ahead_s in enumerate(4 * [*WRONG, 0, 100 * TTL, -100 * TTL]):
        with clock(ahead_s):
            await connect(limits=SMALL).append_event(held, event(f"{turn}", delta={"large": f"{turn}" * 200}))
        documents = raw_documents()
        session = documents.pop(HEADER)
        parts = [ends_in(fields) for fields in documents.values()]

        assert min(parts) >= ends_in(session) >= TTL - SLACK_S


@wrong_clocks
async def test_a_collector_with_a_wrong_clock_leaves_to_its_writer_what_is_young(
    connect: Connect, ahead_s: float
) -> None:
    """By days, too: a payload is written before the commit that refers to it."""
    service = connect(limits=SMALL)
    held = await service.create_session(**WHO)
    for letter in "ab":
        await service.append_event(held, event(delta={"large": letter * 200}))
    with clock(500 * ahead_s):
        found = [garbage async for garbage in connect(limits=SMALL).find_garbage(older_than_s=3600)]

    assert [] == found
