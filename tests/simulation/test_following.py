"""Those who follow a session get each event once and in order, whatever breaks meanwhile."""

import asyncio
from contextlib import aclosing
from functools import partial

from google.adk.events import Event
from google.genai import types

from gcp_adk_store import Store, StoreError
from gcp_adk_store.testing.simulation import Faults, Service, World, simulate
from tests.simulation.checkers import check_followed, check_list
from tests.simulation.fleet import Actor, Fleet
from tests.simulation.test_sessions import LIMITS, key
from tests.support.lengths import at_length


async def act(actor: Actor, step: int) -> None:
    """Append an event, or archive all but the newest."""
    name = f"{actor.name}-{step}"
    if actor.random(step).random() < 0.15:
        await actor.journal.call(
            actor.name, "archive", "one", lambda: actor.store.prune(app_name="app", keep_events=2)
        )
        return
    text = name + "." * actor.random(step).choice([0, 900, 4_000])
    event = Event(id=name, author="user", content=types.Content(role="user", parts=[types.Part(text=text)]))

    async def append() -> Event:
        if "held" not in actor.memory:
            actor.memory["held"] = await actor.store.sessions.get_session(**key("one"))
        return await actor.store.sessions.append_event(actor.memory["held"], event)

    if await actor.journal.call(actor.name, "append", "one", append, given=name) is None:
        actor.memory.pop("held", None)


async def follow(store: Store, seen: list[str]) -> None:
    """Follow the session for ever; after an error go on behind the last event that came."""
    cursor: str | None = None
    while True:
        try:
            async with aclosing(
                store.sessions.iter_events(**key("one"), cursor=cursor, follow=True)
            ) as events:
                async for each in events:
                    seen.append(each.event.id)
                    cursor = each.cursor
        except StoreError:
            await asyncio.sleep(1)


async def scenario(world: World) -> None:
    """Writers are killed, and of those who follow, one is cut off and one stopped."""
    service = Service(world)
    plain = service.beside(session_limits=LIMITS)
    await plain.sessions.create_session(**key("one"))

    make = partial(service.store_of, session_limits=LIMITS, on_conflict="merge")
    watchers = [world.process(f"watcher {number}") for number in range(3)]
    streams: list[list[str]] = [[] for _ in watchers]
    for watcher, seen in zip(watchers, streams, strict=True):
        watcher.start(follow, make(watcher), seen)
    fleet = Fleet(world, service, make)
    working = asyncio.create_task(fleet.work(25, act))
    await asyncio.sleep(world.random.uniform(0, 10))
    service.network.cut_off(watchers[0])
    watchers[1].stop()
    await asyncio.sleep(world.random.choice([1.0, 20.0, 90.0]))
    service.network.connect(watchers[0])
    watchers[1].go_on()
    await working
    await asyncio.sleep(300)
    ids = [each.event.id async for each in plain.sessions.iter_events(**key("one"))]
    check_list(ids, fleet.journal.of("append"), [])
    check_followed(ids, streams)
    for watcher, seen in zip(watchers, streams, strict=True):
        assert len(seen) == len(ids), f"{watcher.name} waits for an event that is stored"


def test_who_follows_a_session_gets_each_event_once_and_in_order() -> None:
    """Streams break, answers get lost, and some who follow are stopped and cut off."""
    simulate(scenario, seeds=range(at_length(2, 8)), faults=Faults.all(0.03))
