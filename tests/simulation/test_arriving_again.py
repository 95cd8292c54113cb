"""A commit that the network carries twice changes nothing that came after it."""

import asyncio

import pytest
from google.adk.events import Event

from gcp_adk_store import SessionLimits
from gcp_adk_store.testing.simulation import Faults, Service, World, simulate
from tests.simulation.events import said
from tests.simulation.fleet import key
from tests.simulation.raw import require_sound
from tests.support.small_pieces import set_numbers

ONE_EACH = SessionLimits(seal_tail_bytes=200)
"""Each event is a segment of its own."""


async def a_fork_that_is_redacted(world: World) -> None:
    """Fork a session of many segments, and redact an event of the fork."""
    service = Service(world)
    plain = service.beside(session_limits=ONE_EACH)
    session = await plain.sessions.create_session(**key("source"))
    for number in range(5):
        event = Event(id=f"{number}", author="user", content=said(f"secret {number} " * 20))
        await plain.sessions.append_event(session, event)
    process = world.process("forks")
    store = service.store_of(process, session_limits=ONE_EACH)
    await process.start(store.fork_session, **key("source"), to_session_id="fork")
    await plain.redact_event(**key("fork"), event_id="0", reason="asked for")
    await asyncio.sleep(120)  # what comes again has come
    fork = await service.beside().sessions.get_session(**key("fork"))
    assert fork is not None
    assert "secret 0" not in fork.model_dump_json()
    await require_sound(plain)


def test_the_segments_of_a_fork_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commits before its last one write segments, and leave those alone that are there."""
    set_numbers(monkeypatch, segments_per_commit=2)

    simulate(a_fork_that_is_redacted, seeds=range(5), faults=Faults(twice=1.0))
