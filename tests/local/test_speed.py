"""A test on the local store takes no time to speak of."""

import asyncio
import statistics
import time
from typing import Any

from google.adk.events import Event

from gcp_adk_store import Store

WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}
LONGEST_S = 0.05
TESTS = 30


async def use(store: Store) -> None:
    """Do what a test does."""
    session = await store.sessions.create_session(**WHO)
    await store.sessions.append_event(session, Event(author="user"))
    assert session == await store.sessions.get_session(**WHO)


def test_a_test_on_a_store_in_memory_takes_under_50_ms() -> None:
    """With all that the fixture ``adk_store_local`` does: open, and close in an event loop of its own."""
    took_s = []
    for _ in range(TESTS):
        began = time.perf_counter()
        store = Store.local(":memory:")
        asyncio.run(use(store))
        asyncio.run(store.close())
        took_s.append(time.perf_counter() - began)

    assert statistics.median(took_s) < LONGEST_S
