"""An event that the tail holds is never counted again, whatever the handle has seen."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

from gcp_adk_store import SessionLimits, Store

WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "s"}
PATH = "adk_apps/app/adk_users/user/adk_sessions/s"


def said(number: int, **options: Any) -> Event:
    """Return the event of a number, always the same."""
    content = types.Content(role="user", parts=[types.Part(text=f"event {number}")])
    return Event(id=f"e{number}", author="user", timestamp=1000.0 + number, content=content, **options)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """A store with a session of three events."""
    async with Store.local(tmp_path) as store:
        session = await store.sessions.create_session(**WHO)
        for number in range(3):
            await store.sessions.append_event(session, said(number))
        yield store


async def require_exact(store: Store, count: int) -> None:
    """Require that the session counts its events exactly, and that the chain proves them."""
    (document,) = await store.sessions.storage.documents.get([PATH])
    assert document is not None
    assert (count, count) == (document.fields["rev"], len(document.fields["tail"]))  # type: ignore[arg-type]
    proof = await store.verify_session(**WHO)
    assert (count, None) == (proof.events, proof.broken)
    assert [] == [fault async for fault in store.check()]


async def test_a_handle_that_was_read_without_the_event_does_not_count_it_again(
    store: Store, tmp_path: Path
) -> None:
    """By another process, with any number of recent events."""
    for recent in (0, 1, 2):
        async with Store.local(tmp_path) as other:
            config = GetSessionConfig(num_recent_events=recent)
            held = await other.sessions.get_session(**WHO, config=config)
            assert held is not None
            await other.sessions.append_event(held, said(0))
            await other.sessions.append_event(held, said(3 + recent))

        await require_exact(store, 4 + recent)


async def test_events_of_a_sealed_tail_may_come_again(tmp_path: Path) -> None:
    """They are other events then, and are counted and stored."""
    limits = SessionLimits(seal_tail_bytes=1)
    async with Store.local(tmp_path, session_limits=limits) as store:
        held = await store.sessions.create_session(**WHO)
        await store.sessions.append_event(held, said(0))
    async with Store.local(tmp_path, session_limits=limits) as store:
        read = await store.sessions.get_session(**WHO, config=GetSessionConfig(num_recent_events=0))
        assert read is not None
        await store.sessions.append_event(read, said(0))
        proof = await store.verify_session(**WHO)

    assert (2, None) == (proof.events, proof.broken)
