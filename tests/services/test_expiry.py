"""Sessions with a time to live end by themselves, and lose nothing before."""

from typing import Any

import pytest

from gcp_adk_store import (
    InvalidInputError,
    SessionConflictError,
    SessionLimits,
    SessionMissingError,
    SessionService,
    StoredDataError,
)
from gcp_adk_store.testing.conformance.running import event, read
from tests.services.conftest import APP, SESSION, USER, WHO, Connect, picture, texts
from tests.support.clock import Clock
from tests.support.stored import overwrite

TTL = 1000
HEADER = f"adk_apps/{APP}/adk_users/{USER}/adk_sessions/{SESSION}"


async def test_an_expired_session_has_no_usage_and_no_events(clock: Clock, sessions: SessionService) -> None:
    """Even while Firestore still has it, and after a cursor in it."""
    owner: dict[str, Any] = {"app_name": APP, "user_id": USER}
    short = await sessions.create_session(**WHO, ttl_seconds=100)
    await sessions.append_event(short, event("short"))
    clock.after(1)
    lasting = await sessions.create_session(app_name=APP, user_id=USER, session_id="lasting")
    await sessions.append_event(lasting, event("lasting"))
    first = [one async for one in sessions.iter_user_events(**owner, limit=1)]
    clock.after(100)
    found = [one.event async for one in sessions.iter_user_events(**owner)]
    rest = [one.event async for one in sessions.iter_user_events(**owner, cursor=first[0].cursor)]

    assert ["short"] == texts([one.event for one in first])
    assert ["lasting"] == texts(found) == texts(rest)
    with pytest.raises(SessionMissingError, match="the session does not exist"):
        await sessions.get_session_usage(**WHO)


async def test_what_comes_too_late_leaves_nothing_behind(
    clock: Clock, connect: Connect, raw_documents: Any
) -> None:
    """No payload is put for an append to a session that has ended."""
    service = connect(limits=SessionLimits(inline_bytes=100))
    held = await service.create_session(**WHO, ttl_seconds=TTL)
    clock.after(TTL)
    with pytest.raises(SessionMissingError):
        await service.append_event(held, picture(b"x" * 200))

    assert [HEADER] == list(raw_documents())


async def test_a_service_may_end_all_sessions_that_it_makes(clock: Clock, connect: Connect) -> None:
    """Those that ADK's servers make, which know of no time to live; what a caller asks for comes first."""
    service = connect(default_ttl_seconds=TTL)
    await service.create_session(**WHO)
    longer = await service.create_session(
        app_name=APP, user_id=USER, session_id="longer", ttl_seconds=2 * TTL
    )
    clock.after(TTL)

    assert await service.get_session(**WHO) is None
    assert longer == await service.get_session(app_name=APP, user_id=USER, session_id="longer")
    with pytest.raises(InvalidInputError, match="ttl_seconds is -1"):
        connect(default_ttl_seconds=-1)


async def test_a_handle_that_missed_that_others_moved_the_end_is_stale_not_missing(
    clock: Clock,
    sessions: SessionService,
) -> None:
    """What it remembers of the end is not the truth."""
    await sessions.create_session(**WHO, ttl_seconds=TTL)
    one, two = await read(sessions, WHO), await read(sessions, WHO)
    clock.after(TTL - 1)
    await sessions.append_event(one, event("first"))
    clock.after(TTL - 1)

    with pytest.raises(SessionConflictError):
        await sessions.append_event(two, event("second"))


@pytest.mark.emulators
async def test_an_expired_session_makes_way_whatever_it_leaves(
    clock: Clock, connect: Connect, adk_store_bucket: str, raw_documents: Any
) -> None:
    """What this service cannot reach is noted, and goes with the next deletion by one that can."""
    limits = SessionLimits(inline_bytes=100)
    with_bucket = connect(limits=limits, bucket=adk_store_bucket)
    held = await with_bucket.create_session(**WHO, ttl_seconds=TTL)
    await with_bucket.append_event(held, picture(b"x" * 200))
    clock.after(TTL)
    made = await connect().create_session(**WHO)
    noted = [path for path in raw_documents() if "_deletions/" in path]
    await with_bucket.delete_session(**WHO)

    assert [] == made.events
    assert 1 == len(noted)
    assert {} == raw_documents()


async def test_a_segment_that_is_gone_when_it_is_to_be_renewed_is_named(
    clock: Clock, connect: Connect
) -> None:
    """The session is damaged; going on would hide it."""
    service = connect(limits=SessionLimits(seal_tail_bytes=1))
    held = await service.create_session(**WHO, ttl_seconds=TTL)
    for pause in (0, 900):
        clock.after(pause)
        await service.append_event(held, event())
    documents = service.storage.documents
    segments = await documents.query("", "adk_segments", all_descendants=True)
    await overwrite(documents, {min(each.path for each in segments): None})
    clock.after(900)

    with pytest.raises(StoredDataError, match="one of the 2 segments is missing"):
        await service.append_event(held, event("after the loss"))
