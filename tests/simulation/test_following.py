"""Those who follow a session get each event once and in order, whatever breaks or is erased meanwhile."""

import asyncio
from contextlib import aclosing
from typing import Final

from google.adk.events import Event

from gcp_adk_store import SessionMissingError, Store, StoreError
from gcp_adk_store.testing.simulation import Faults, World, simulate
from tests.simulation.checkers import check_followed, check_list
from tests.simulation.events import event_of
from tests.simulation.fleet import LIMITS, Actor, Fleet, key
from tests.support.lengths import at_length

EVENTS: Final = 12
"""Of a session that is erased."""


async def act(actor: Actor, step: int) -> None:
    """Append an event, or archive all but the newest."""
    if actor.random(step).random() < 0.15:
        await actor.call("archive", "one", lambda: actor.store.prune(app_name="app", keep_events=2))
        return
    event = event_of(f"{actor.name}-{step}", actor.random(step).choice([0, 900, 4_000]))

    async def append() -> Event:
        if "held" not in actor.memory:
            actor.memory["held"] = await actor.store.sessions.get_session(**key("one"))
        return await actor.store.sessions.append_event(actor.memory["held"], event)

    if await actor.call("append", "one", append, given=event.id) is None:
        actor.memory.pop("held", None)


async def follow(store: Store, seen: list[str]) -> None:
    """Follow the session until it is gone; after any other error go on behind the last event that came."""
    cursor: str | None = None
    while True:
        try:
            async with aclosing(
                store.sessions.iter_events(**key("one"), cursor=cursor, follow=True)
            ) as events:
                async for each in events:
                    seen.append(each.event.id)
                    cursor = each.cursor
            raise AssertionError("a stream ended although its session did not")
        except SessionMissingError:
            return
        except StoreError:
            await asyncio.sleep(1)


async def scenario(world: World) -> None:
    """Writers are killed, and of those who follow, one is cut off and one stopped."""
    fleet = Fleet(world, session_limits=LIMITS, on_conflict="merge")
    await fleet.plain.sessions.create_session(**key("one"))
    watchers = [world.process(f"watcher {number}") for number in range(3)]
    streams: list[list[str]] = [[] for _ in watchers]
    for watcher, seen in zip(watchers, streams, strict=True):
        watcher.start(follow, fleet.store_of(watcher), seen)
    working = asyncio.create_task(fleet.work(25, act))
    await asyncio.sleep(world.random.uniform(0, 10))
    fleet.service.network.cut_off(watchers[0])
    watchers[1].stop()
    await asyncio.sleep(world.random.choice([1.0, 20.0, 90.0]))
    fleet.service.network.connect(watchers[0])
    watchers[1].go_on()
    await working
    await asyncio.sleep(300)
    ids = [each.event.id async for each in fleet.plain.sessions.iter_events(**key("one"))]
    check_list(ids, fleet.journal.of("append"), [])
    check_followed(ids, streams)
    for watcher, seen in zip(watchers, streams, strict=True):
        assert len(seen) == len(ids), f"{watcher.name} waits for an event that is stored"


def test_who_follows_a_session_gets_each_event_once_and_in_order() -> None:
    """Streams break, answers get lost, and some who follow are stopped and cut off."""
    simulate(scenario, seeds=range(at_length(2, 8)), faults=Faults.all(0.03))


async def write(store: Store, stored: list[str]) -> None:
    """Append until the session is gone, or nothing answers."""
    try:
        session = await store.sessions.get_session(**key("one"))
        for number in range(EVENTS if session is not None else 0):
            stored.append(f"{number}")
            assert session is not None
            await store.sessions.append_event(session, event_of(f"{number}", 900 if number % 3 else 1))
            await asyncio.sleep(1)
    except StoreError:
        return


async def erase(store: Store) -> None:
    """Erase the user, to the end."""
    while True:
        try:
            await store.erase_user(app_name="app", user_id="user", quiet_s=20)
        except StoreError:
            await asyncio.sleep(1)
        else:
            return


async def erased(world: World) -> None:
    """Three processes follow a session of a user who is erased while it is written to."""
    fleet = Fleet(world, session_limits=LIMITS)
    await fleet.plain.sessions.create_session(**key("one"))
    stored: list[str] = []
    streams: list[list[str]] = [[], [], []]
    watchers = [world.process(f"watcher {number}") for number in range(3)]
    following = [
        watcher.start(follow, fleet.store_of(watcher), seen)
        for watcher, seen in zip(watchers, streams, strict=True)
    ]
    writer, eraser = world.process("writer"), world.process("eraser")
    writing = writer.start(write, fleet.store_of(writer), stored)
    await asyncio.sleep(world.random.uniform(0, EVENTS))
    watchers[0].stop()
    world.at(world.now + world.random.uniform(0, 60), watchers[0].go_on)
    await eraser.start(erase, fleet.store_of(eraser))
    await writing
    await asyncio.gather(*following)
    check_followed(stored, streams)


def test_who_follows_a_session_that_is_erased_gets_a_beginning_and_an_error() -> None:
    """Nobody waits for ever, and nobody sees an event twice or out of order."""
    simulate(erased, seeds=range(at_length(4, 8)), faults=Faults.all(0.03))
