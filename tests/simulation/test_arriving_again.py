"""A commit that the network carries twice changes nothing that came after it."""

import asyncio

import pytest
from google.adk.events import Event

from gcp_adk_store import SessionLimits
from gcp_adk_store.testing.simulation import Faults, World, simulate
from tests.simulation.events import said
from tests.simulation.fated import Fated
from tests.simulation.fleet import key
from tests.simulation.raw import require_sound
from tests.support.small_pieces import set_numbers


async def a_fork_that_is_redacted(world: World) -> None:
    """Fork a session of many segments, and redact an event of the fork."""
    one = Fated(world, session_limits=SessionLimits(seal_tail_bytes=200))
    session = await one.plain.sessions.create_session(**key("source"))
    for number in range(5):
        event = Event(id=f"{number}", author="user", content=said(f"secret {number} " * 20))
        await one.plain.sessions.append_event(session, event)
    await one.start(one.store.fork_session, **key("source"), to_session_id="fork")
    await one.plain.redact_event(**key("fork"), event_id="0", reason="asked for")
    await asyncio.sleep(120)  # what comes again has come
    fork = await one.service.beside().sessions.get_session(**key("fork"))
    assert fork is not None
    assert "secret 0" not in fork.model_dump_json()
    await require_sound(one.plain)


def test_the_segments_of_a_fork_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commits before its last one write segments, and leave those alone that are there."""
    set_numbers(monkeypatch, segments_per_commit=2)

    simulate(a_fork_that_is_redacted, seeds=range(5), faults=Faults(twice=1.0))
