"""No part of a session with a time to live expires before it, in every order."""

import asyncio
from datetime import UTC, datetime
from typing import Final

from google.adk.events import Event
from google.adk.platform import time as platform_time

from gcp_adk_store.testing.simulation import Faults, Service, World, simulate
from tests.simulation.checkers import check_list
from tests.simulation.events import event_of, said
from tests.simulation.fleet import LIMITS, Actor, Fleet, key
from tests.simulation.raw import require_sound, require_whole
from tests.support.lengths import at_length
from tests.support.stored import collection, remove

TTL_S: Final = 7_200
REST_S: Final = 3_000.0
"""Each session has an append within its time to live, although some are lost with their process."""


async def act(actor: Actor, step: int) -> None:
    """Rest, read the session, and append to it what becomes a segment and an object."""
    random = actor.random(step)
    name = f"{actor.name}-{step}"
    await asyncio.sleep(random.uniform(0, REST_S))
    held = await actor.read("one")
    if held is not None:
        large = random.choice(["first ", "second "]) * 99
        await actor.append(held, event_of(name, 900, name.encode() * 200, large=large))


async def expire(service: Service) -> None:
    """Remove what has expired all the time, as TTL policies and lifecycle rules may at the earliest."""
    while True:
        await asyncio.sleep(60)
        await service.expire()


async def scenario(world: World) -> None:
    """A session goes on for many times its time to live, and then ends."""
    fleet = Fleet(world, session_limits=LIMITS, on_conflict="merge")
    plain, journal = fleet.plain, fleet.journal
    await plain.sessions.create_session(**key("one"), state={"large": "first " * 99}, ttl_seconds=TTL_S)
    expiring = asyncio.create_task(expire(fleet.service))
    await fleet.work(30, act, rest_s=120)
    await fleet.end.read("one")
    require_whole(journal)
    reads = [read for read in journal.of("read") if read.result]
    check_list(reads[-1].result if reads else [], journal.of("append"), reads)
    await require_sound(plain)
    await asyncio.sleep(3 * TTL_S + 7_200)
    expiring.cancel()
    await asyncio.wait([expiring])
    assert [garbage async for garbage in plain.find_garbage()] == []
    assert await plain.sessions.get_session(**key("one")) is None


def test_no_part_expires_before_a_session_that_several_processes_keep_alive() -> None:
    """Parts are renewed in time, whoever is killed; at the end all of it expires."""
    simulate(scenario, seeds=range(at_length(4, 8)), faults=Faults.all(0.03))


async def renamed_late(world: World) -> None:
    """A session gets a title shortly before its end; then the policy removes its parts, and it comes last."""
    service = Service(world)
    plain = service.beside(session_limits=LIMITS)
    held = await plain.sessions.create_session(**key("one"), ttl_seconds=4 * TTL_S)
    for rest_s in (0.0, 0.0, 0.0, 3.8 * TTL_S):
        await asyncio.sleep(rest_s)
        await plain.sessions.append_event(held, Event(author="user", content=said("." * 1_500)))
    await asyncio.sleep(3.6 * TTL_S)
    await plain.sessions.update_session_info(**key("one"), title="late")
    assert await plain.sessions.get_session(**key("one")) is not None
    while await service.beside().sessions.get_session(**key("one")) is not None:
        await asyncio.sleep(TTL_S / 8)
        now = datetime.fromtimestamp(platform_time.get_time(), UTC)
        parts = await collection(plain, "adk_segments")
        await remove(plain, *(path for path, fields in parts.items() if fields["expire_at"] <= now))


def test_a_session_ends_before_its_parts_do_also_if_it_was_written_late() -> None:
    """A title gives it no life that its segments do not have."""
    simulate(renamed_late, seeds=[0], faults=Faults.all(0.0))
