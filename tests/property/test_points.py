"""Append and restore at random, and compare each point and each fork with a list of what the session was."""

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

from gcp_adk_store import Point, PointMissingError, SessionLimits, SessionService, Store
from gcp_adk_store.testing.conformance.running import read
from tests.support.lengths import at_length

BOUNDS = settings(max_examples=at_length(3, 30), derandomize=True, suppress_health_check=list(HealthCheck))
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
TURNS = st.lists(st.tuples(STATES, st.sampled_from([0, 0, 100, 2000])), min_size=1, max_size=6)
STEPS = st.lists(TURNS | TURNS | st.floats(0, 1, allow_nan=False), max_size=6)
"""Turns of events, each with a change of state and some bytes; or the part of the history to keep."""


def exact(state: dict[str, Any]) -> str:
    """Return the session's own part of *state* so that equal texts mean equal types too."""
    own = {key: value for key, value in state.items() if not key.startswith(("user:", "app:", "temp:"))}
    return json.dumps(own, sort_keys=True)


class Model:
    """A session as a list of its events, and what it was after each of them."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.who: dict[str, Any] = {
            "app_name": session.app_name,
            "user_id": session.user_id,
            "session_id": session.id,
        }
        self.events: list[Event] = []
        self.states = [exact(session.state)]
        self.turns: list[tuple[str, int]] = []
        """The invocation of each turn, and how many events were there before it."""
        self.made = 0

    async def act(self, store: Store, steps: list[Any]) -> None:
        """Take turns and restores, and record each point."""
        for step in steps:
            if isinstance(step, list):
                await self._take(store.sessions, step)
            else:
                await self._restore(store, round(step * len(self.events)))
            assert self.events == self.session.events
            assert self.states[-1] == exact(self.session.state)

    async def _take(self, service: SessionService, turn: list[tuple[dict[str, Any], int]]) -> None:
        self.turns.append((f"turn-{self.made}", len(self.events)))
        for delta, size in turn:
            self.made += 1
            blob = types.Blob(data=b"%d" % (self.made % 3) * size, mime_type="a/b")  # some have the same
            event = Event(
                id=f"event-{self.made}",
                invocation_id=self.turns[-1][0],
                author="user" if delta is turn[0][0] else "agent",
                timestamp=float(1000 + self.made),
                content=types.Content(role="model", parts=[types.Part(inline_data=blob)]),
                actions=EventActions(state_delta=dict(delta)),
            )
            await service.append_event(self.session, event)
            self.events.append(event)
            self.states.append(exact(self.session.state))

    async def _restore(self, store: Store, count: int) -> None:
        self.session = await store.restore_session(**self.who, at=Point.position(count))
        self.keep(count)

    def keep(self, count: int) -> None:
        """Forget all but the first *count* events."""
        del self.events[count:], self.states[count + 1 :]
        self.turns = [turn for turn in self.turns if turn[1] < count]

    async def check(self, service: SessionService) -> None:
        """Compare what is read whole, in parts, and at each point with what was recorded."""
        found = await read(service, self.who)
        assert (self.events, self.states[-1]) == (found.events, exact(found.state))
        forward = [seen async for seen in service.iter_events(**self.who)]
        backward = [seen.event async for seen in service.iter_events(**self.who, direction="backward")]
        assert self.events == [seen.event for seen in forward] == backward[::-1]
        for place in range(0, len(forward), max(1, len(forward) // 4)):
            rest = service.iter_events(**self.who, cursor=forward[place].cursor)
            assert self.events[place + 1 :] == [seen.event async for seen in rest]
        assert len(self.events) == (await service.get_session_usage(**self.who)).events
        info = await service.get_session_info(**self.who)
        assert info is not None
        assert (len(self.events), len(self.turns)) == (info.events, info.turns)
        for count, event in enumerate([None, *self.events]):
            points = [Point.position(count)]
            if event is not None:
                points += [
                    Point.after_event(event.id),
                    Point.as_of(datetime.fromtimestamp(event.timestamp, UTC)),
                ]
            await self._check_point(service, points[count % len(points)], count)
        for invocation, count in self.turns:
            await self._check_point(service, Point.before_invocation(invocation), count)
        with pytest.raises(PointMissingError):
            await self._check_point(service, Point.position(len(self.states)), 0)

    async def _check_point(self, service: SessionService, at: Point, count: int) -> None:
        found = await service.get_session_at(**self.who, at=at)
        assert found is not None
        assert self.events[:count] == found.events
        assert self.states[count] == exact(found.state)
        shared = {key for key in self.session.state if key.startswith(("user:", "app:"))}
        assert {key: self.session.state[key] for key in shared} == {key: found.state[key] for key in shared}
        if count:
            assert self.events[count - 1].timestamp == found.last_update_time

    async def check_forks(self, store: Store) -> None:
        """Fork at each point, go on in the fork, and compare it with what was recorded up to there."""
        forks = []
        for count in range(len(self.states)):
            made = await store.fork_session(**self.who, at=Point.position(count), to_user_id=f"u{count % 2}")
            fork = Model(made)
            assert self.states[count] == fork.states[0]
            fork.events, fork.states = [*self.events], [*self.states]
            fork.turns, fork.made = [*self.turns], self.made
            fork.keep(count)
            await fork.act(store, [[({"a": count, "new": ["x" * 150]}, 100)]])
            forks.append(fork)
        await store.sessions.delete_session(**self.who)
        for fork in forks:
            await fork.check(store.sessions)


async def require_nothing_wrong(store: Store, model: Model) -> None:
    """Require that the chain is that of the events, and that all that is stored is used."""
    proof = await store.verify_session(**model.who)
    assert (len(model.events), None) == (proof.events, proof.broken)
    assert [] == [fault async for fault in store.check(full=True)]


async def made(store: Store, initial: dict[str, Any], steps: list[Any]) -> Model:
    """Make a session, and take *steps*."""
    session = await store.sessions.create_session(
        app_name=uuid.uuid4().hex, user_id="u", session_id="s", state=initial
    )
    model = Model(session)
    await model.act(store, steps)
    return model


@BOUNDS
@given(INITIALS, STEPS)
def test_each_point_is_as_recorded_on_a_local_store(initial: dict[str, Any], steps: list[Any]) -> None:
    """Events and state, in the tail and in segments, with payloads of every kind, also after restores."""

    async def check() -> None:
        async with Store.local(":memory:", session_limits=LIMITS) as store:
            model = await made(store, initial, steps)
            await model.check(store.sessions)
            await require_nothing_wrong(store, model)

    asyncio.run(check())


@BOUNDS
@given(INITIALS, STEPS)
def test_each_fork_is_as_recorded_on_a_local_store(initial: dict[str, Any], steps: list[Any]) -> None:
    """At each of its own points too, after an append, and without its source."""

    async def check() -> None:
        async with Store.local(":memory:", session_limits=LIMITS) as store:
            model = await made(store, initial, steps)
            await model.check_forks(store)

    asyncio.run(check())
