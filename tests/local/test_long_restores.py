"""Take a long session back: the writes do not grow with its events."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from google.adk.events import Event, EventActions

from gcp_adk_store import Point, Store
from tests.support.lengths import at_length
from tests.support.local_commits import before_commits, is_write

WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}
EVENTS = at_length(400, 10_000)
AT_ONCE = 100


def event(number: int) -> Event:
    """Return an event that changes the state."""
    return Event(id=f"e{number}", author="user", actions=EventActions(state_delta={"n": number}))


async def test_a_restore_of_a_long_session_takes_at_most_3_writes(
    adk_store_local: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session document, and the note of what is left to do; to a point in a segment, far back."""
    sessions = adk_store_local.sessions
    session = await sessions.create_session(**WHO, state={"n": -1})
    for first in range(0, EVENTS, AT_ONCE):
        await asyncio.gather(
            *(sessions.append_event(session, event(number)) for number in range(first, first + AT_ONCE))
        )
    written: list[str] = []

    async def count(writes: Sequence[Any]) -> None:
        written.extend(write.path for write in writes if is_write(write))

    before_commits(monkeypatch, count)
    restored = await sessions.restore_session(**WHO, at=Point.position(EVENTS // 2))

    assert EVENTS // 2 == len(restored.events)
    assert {"n": EVENTS // 2 - 1} == restored.state
    assert 0 < len(written) <= 3
