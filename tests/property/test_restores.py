"""Append to sessions and restore them in random order, and compare them with a list of what they were."""

import asyncio
import uuid
from typing import Any

from google.adk.events import Event, EventActions
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store import Point, SessionService, Store
from gcp_adk_store.model.history import fold, genesis
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.testing.conformance.running import read
from tests.property.test_points import BOUNDS, INITIALS, LIMITS, STATES, exact

STEPS = st.lists(
    st.lists(st.tuples(STATES, st.sampled_from([0, 0, 100, 2000])), min_size=1, max_size=8)
    | st.floats(0, 1, allow_nan=False),
    max_size=8,
)
"""Events to append, each with a change of state and some bytes, or the part of the history to keep."""


class Model:
    """A session as a list of its events, and its state after each of them."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.events: list[Event] = []
        self.states = [exact(state)]
        self.made = 0
        self.restores = 0

    def event(self, delta: dict[str, Any], size: int) -> Event:
        """Return a new event; some have the same content."""
        self.made += 1
        blob = types.Blob(data=b"%d" % (self.made % 3) * size, mime_type="a/b")
        return Event(
            id=f"event-{self.made}",
            invocation_id="turn",
            author="agent",
            timestamp=float(1000 + self.made),
            content=types.Content(role="model", parts=[types.Part(inline_data=blob)]),
            actions=EventActions(state_delta=dict(delta)),
        )

    def restore(self, count: int) -> None:
        """Keep *count* events."""
        self.restores += count < len(self.events)
        del self.events[count:], self.states[count + 1 :]


async def a_session_is_its_model(
    service: SessionService,
    other: SessionService,
    initial: dict[str, Any],
    steps: list[Any],
) -> None:
    """Write through one service, or two in turn, and look through both."""
    who: dict[str, Any] = {"app_name": uuid.uuid4().hex, "user_id": "u", "session_id": "s"}
    session = await service.create_session(**who, state=initial)
    model = Model(session.state)
    for step in steps:
        service, other = other, service
        if isinstance(step, list):
            for delta, size in step:
                event = model.event(delta, size)
                await service.append_event(session, event)
                model.events.append(event)
                model.states.append(exact(session.state))
        else:
            count = round(step * len(model.events))
            model.restore(count)
            session = await service.restore_session(**who, at=Point.position(count))
        assert model.events == session.events
        assert model.states[-1] == exact(session.state)
    for one in (service, other):
        found = await read(one, who)
        assert (model.events, model.states[-1]) == (found.events, exact(found.state))
        forward = [seen async for seen in one.iter_events(**who)]
        backward = [seen.event async for seen in one.iter_events(**who, direction="backward")]
        assert model.events == [seen.event for seen in forward] == backward[::-1]
        for seen in forward[:: max(1, len(forward) // 4)]:
            rest = [one_more.event async for one_more in one.iter_events(**who, cursor=seen.cursor)]
            assert model.events[model.events.index(seen.event) + 1 :] == rest
        late = [
            seen.event
            async for seen in one.iter_user_events(
                app_name=who["app_name"], user_id="u", after=1000.0 + model.made // 2
            )
        ]
        assert [event for event in model.events if event.timestamp > 1000 + model.made // 2] == late
        whole = one.iter_user_events(app_name=who["app_name"], user_id="u")
        assert model.events == [seen.event async for seen in whole]
        assert len(model.events) == (await one.get_session_usage(**who)).events
        for count in range(0, len(model.events) + 1, max(1, len(model.events) // 4)):
            past = await one.get_session_at(**who, at=Point.position(count))
            assert past is not None
            assert (model.events[:count], model.states[count]) == (past.events, exact(past.state))
    await the_document_is_right(service, who, model)


async def the_document_is_right(service: SessionService, who: dict[str, Any], model: Model) -> None:
    """The chain is that of the events, and nothing is stored that is not needed."""
    key = SessionKey(app=who["app_name"], user="u", session="s")
    reader, storage = service._reader, service._storage
    stored = await reader.stored(key)
    assert stored is not None
    assert (len(model.events), model.restores) == (stored.revision, stored.restores)
    segments = await reader.segments(stored, stored.live)
    assert segments is not None
    head = genesis(stored.epoch)
    for segment in segments:
        assert head == segment.chain_begin
        head = fold(head, segment.texts)
        assert head == segment.chain_end
    assert head == stored.chain_sealed
    assert fold(head, stored.tail) == stored.chain
    layout = storage.layout
    numbers = range(stored.sealed + 1)
    documents = await storage.documents.get(layout.segments(key, stored.epoch, numbers))
    assert list(stored.live) == [number for number in numbers if documents[number] is not None]
    assert [] == await storage.documents.query(layout.session(key), "adk_restores")
    await only_needed_payloads_are_stored(service, key)


async def only_needed_payloads_are_stored(service: SessionService, key: SessionKey) -> None:
    """Restores remove those of what they cut off; values of the state that appends replace leave theirs."""
    storage, collector = service._storage, service._collector
    stored = await service._reader.stored(key)
    assert stored is not None
    owner = storage.layout.session_payloads(key, stored.epoch)
    used = {ref.sha256 for ref in await collector._references(owner)}
    found = {payload.sha256 for payload in await storage.payloads.at(storage.payloads.place).of(owner)}
    assert used <= found


@BOUNDS
@given(INITIALS, STEPS)
def test_a_restored_session_is_as_it_was_on_a_local_store(initial: dict[str, Any], steps: list[Any]) -> None:
    """Its events, its state, its points, and what is stored of it."""

    async def run() -> None:
        store = Store.local(":memory:", session_limits=LIMITS)
        await a_session_is_its_model(store.sessions, store.sessions, initial, steps)
        await store.close()

    asyncio.run(run())
