"""Take random turns, and compare each point of the history with what was recorded there."""

import asyncio
import json
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.genai import types
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gcp_adk_store import (
    Point,
    PointMissingError,
    SessionLimits,
    SessionService,
    Store,
)
from tests.support.lengths import at_length

BOUNDS = settings(max_examples=at_length(2, 20), derandomize=True, suppress_health_check=list(HealthCheck))
LIMITS = SessionLimits(seal_tail_bytes=900, inline_bytes=50, event_text_bytes=1200, state_value_bytes=100)

VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "x" * 150, "y" * 150, "z" * 2000, "\ud800", [1, [None]], {"a": {"": 1}}])
)
KEYS = st.sampled_from(["a", "b", "", "a/b", "__x__", "user:u", "app:p", "temp:t"])
STATES = st.dictionaries(KEYS, VALUES, max_size=4)
LARGE = {f"key{number}": "x" * 1000 for number in range(70)}
INITIALS = STATES | st.builds(lambda state: {**LARGE, **state}, STATES)
TURNS = st.lists(
    st.lists(st.tuples(STATES, st.sampled_from([0, 100, 2000])), min_size=1, max_size=4), max_size=5
)
"""Turns, each of some events with a change of state and some bytes."""


def exact(state: dict[str, Any]) -> str:
    """Return the session's own part of *state* so that equal texts mean equal types too."""
    own = {key: value for key, value in state.items() if not key.startswith(("user:", "app:", "temp:"))}
    return json.dumps(own, sort_keys=True)


class History:
    """What a session was after each of its events."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.states: list[str] = [exact(session.state)]
        self.turns: list[tuple[str, int]] = []

    async def take(self, service: SessionService, turns: list[Any]) -> None:
        """Take *turns*, and record each point."""
        for number, turn in enumerate(turns):
            self.turns.append((f"turn-{number}", len(self.states) - 1))
            for delta, size in turn:
                place = len(self.states)
                event = Event(
                    id=f"event-{place}",
                    invocation_id=f"turn-{number}",
                    author="agent",
                    timestamp=float(1000 + place),
                    content=types.Content(
                        role="model",
                        parts=[
                            types.Part(inline_data=types.Blob(data=b"%d" % place * size, mime_type="a/b"))
                        ],
                    ),
                    actions=EventActions(state_delta=dict(delta)),
                )
                await service.append_event(self.session, event)
                self.states.append(exact(self.session.state))

    async def check(self, service: SessionService) -> None:
        """Compare each point with what was recorded."""
        for count in range(len(self.states)):
            points = [
                Point.position(count),
                Point.as_of(datetime.fromtimestamp(1000 + count, UTC)),
                Point.after_event(f"event-{count}"),
            ]
            await self._check(service, points[count % 3 if count else 0], count)
        for invocation, count in self.turns:
            await self._check(service, Point.before_invocation(invocation), count)
        with pytest.raises(PointMissingError):
            await self._check(service, Point.position(len(self.states)), 0)

    async def check_forks(self, store: Store) -> None:
        """Fork at each point, go on in the fork, and compare it with what was recorded up to there."""
        session, forks = self.session, []
        who: dict[str, Any] = {
            "app_name": session.app_name,
            "user_id": session.user_id,
            "session_id": session.id,
        }
        for count in range(len(self.states)):
            fork = await store.fork_session(**who, at=Point.position(count), to_user_id=f"u{count % 2}")
            assert session.events[:count] == fork.events
            history = History(fork)
            assert self.states[count] == history.states[0]
            history.states = self.states[: count + 1]
            await history.take(store.sessions, [[({"a": count, "new": ["x" * 150]}, 100)]])
            history.turns = [turn for turn in self.turns if turn[1] < count]
            forks.append(history)
        await store.sessions.delete_session(**who)
        for history in forks:
            assert session.events[: len(history.states) - 2] == history.session.events[:-1]
            await history.check(store.sessions)

    async def _check(self, service: SessionService, at: Point, count: int) -> None:
        session = self.session
        found = await service.get_session_at(
            app_name=session.app_name, user_id=session.user_id, session_id=session.id, at=at
        )
        assert found is not None
        assert session.events[:count] == found.events
        assert self.states[count] == exact(found.state)
        shared = {key for key in session.state if key.startswith(("user:", "app:"))}
        assert {key: session.state[key] for key in shared} == {key: found.state[key] for key in shared}
        if count:
            assert session.events[count - 1].timestamp == found.last_update_time


async def each_point_is_as_recorded(
    service: SessionService,
    other: SessionService,
    initial: dict[str, Any],
    turns: list[Any],
) -> None:
    """Take turns through one service, and look at each point through the other."""
    made = await service.create_session(app_name=uuid.uuid4().hex, user_id="u", state=initial)
    history = History(made)
    await history.take(service, turns)
    await history.check(other)


@BOUNDS
@given(INITIALS, TURNS)
def test_each_point_is_as_recorded_on_a_local_store(initial: dict[str, Any], turns: list[Any]) -> None:
    """Events and state, in the tail and in segments, with payloads of every kind."""

    async def run() -> None:
        store = Store.local(":memory:", session_limits=LIMITS)
        await each_point_is_as_recorded(store.sessions, store.sessions, initial, turns)
        await store.close()

    asyncio.run(run())


@BOUNDS
@given(INITIALS, TURNS)
def test_each_fork_is_as_recorded_on_a_local_store(initial: dict[str, Any], turns: list[Any]) -> None:
    """At each of its own points too, after an append, and without its source."""

    async def run() -> None:
        async with Store.local(":memory:", session_limits=LIMITS) as store:
            made = await store.sessions.create_session(app_name="a", user_id="u", state=initial)
            history = History(made)
            await history.take(store.sessions, turns)
            await history.check_forks(store)

    asyncio.run(run())
