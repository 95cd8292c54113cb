"""A long run of stored events is read, and remembered, beside other work."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.sessions import InMemorySessionService
from google.genai import types

from gcp_adk_store import SessionService, Store
from gcp_adk_store.moving import copy
from tests.support.loop_work import counted_steps

COUNT = 150
WHO: dict[str, Any] = {"app_name": "app", "user_id": "user"}


@pytest.fixture
async def store(ticking: Callable[[float], object]) -> AsyncIterator[Store]:
    """A store with a long session, on a machine that takes its whole share of time for each few steps."""
    source = InMemorySessionService()
    session = await source.create_session(**WHO, session_id="session")
    for number in range(COUNT):
        content = types.Content(role="user", parts=[types.Part(text=f"note {number}")])
        await source.append_event(session, Event(author="a", timestamp=number, content=content))
    async with Store.local(":memory:") as store:
        await copy(source, store.sessions, app_name="app")
        ticking(0.001)
        yield store


async def test_others_have_their_turn_while_events_are_read(store: Store) -> None:
    """No step reads more than a few."""
    with counted_steps() as work:
        found = await SessionService(store.sessions.storage).get_session(**WHO, session_id="session")

    assert found is not None
    assert COUNT == len(found.events)
    assert 10 * COUNT > work.calls, "all of them in one step are 76 calls each"


async def test_others_have_their_turn_while_events_are_read_one_by_one(store: Store) -> None:
    """Nor where nothing is waited for between two of them."""
    with counted_steps() as work:
        found = [one async for one in store.sessions.iter_events(**WHO, session_id="session")]

    assert COUNT == len(found)
    assert 10 * COUNT > work.calls


async def test_others_have_their_turn_while_a_session_is_remembered(store: Store) -> None:
    """No step does more than to decide on one commit, of up to 256 KiB."""
    session = await store.sessions.get_session(**WHO, session_id="session")
    assert session is not None
    with counted_steps() as work:
        await store.memory.add_session_to_memory(session)

    assert 300 * COUNT > work.calls, "to encode all of them in one step takes 480 calls each"
