"""Who follows a session that is erased meanwhile gets its events in order, and then an error."""

import asyncio
from contextlib import aclosing
from typing import Final

from google.adk.events import Event
from google.genai import types

from gcp_adk_store import SessionMissingError, Store, StoreError
from gcp_adk_store.testing.simulation import Faults, Service, World, simulate
from tests.simulation.checkers import check_followed
from tests.simulation.test_sessions import LIMITS, key
from tests.support.lengths import at_length

EVENTS: Final = 12


async def follow(store: Store, seen: list[str]) -> str:
    """Follow the session until it is gone; return the name of the error that says so."""
    cursor: str | None = None
    while True:
        try:
            async with aclosing(
                store.sessions.iter_events(**key("one"), cursor=cursor, follow=True)
            ) as events:
                async for each in events:
                    seen.append(each.event.id)
                    cursor = each.cursor
        except SessionMissingError as exc:
            return type(exc).__name__
        except StoreError:
            await asyncio.sleep(1)


async def write(store: Store, stored: list[str]) -> None:
    """Append until the session is gone, or nothing answers."""
    try:
        session = await store.sessions.get_session(**key("one"))
    except StoreError:
        return
    for number in range(EVENTS):
        if session is None:
            return
        text = f"{number}" + "." * (900 if number % 3 else 1)
        said = types.Content(role="user", parts=[types.Part(text=text)])
        stored.append(f"{number}")
        try:
            await store.sessions.append_event(session, Event(id=f"{number}", author="user", content=said))
        except StoreError:
            return
        await asyncio.sleep(1)


async def scenario(world: World) -> None:
    """Three processes follow a session of a user who is erased while it is written to."""
    service = Service(world)
    await service.beside(session_limits=LIMITS).sessions.create_session(**key("one"))
    stored: list[str] = []
    streams: list[list[str]] = [[], [], []]
    watchers = [world.process(f"watcher {number}") for number in range(3)]
    following = [
        watcher.start(follow, service.store_of(watcher, session_limits=LIMITS), seen)
        for watcher, seen in zip(watchers, streams, strict=True)
    ]
    writer, eraser = world.process("writer"), world.process("eraser")
    writing = writer.start(write, service.store_of(writer, session_limits=LIMITS), stored)
    await asyncio.sleep(world.random.uniform(0, EVENTS))
    watchers[0].stop()
    world.at(world.now + world.random.uniform(0, 60), watchers[0].go_on)

    async def erase() -> None:
        store = service.store_of(eraser)
        while True:
            try:
                await store.erase_user(app_name="app", user_id="user", quiet_s=20)
            except StoreError:
                await asyncio.sleep(1)
            else:
                return

    await eraser.start(erase)
    await writing
    ends = await asyncio.gather(*following)
    assert ends == ["SessionMissingError"] * 3
    check_followed(stored, streams)


def test_who_follows_a_session_that_is_erased_gets_a_beginning_and_an_error() -> None:
    """Nobody waits for ever, and nobody sees an event twice or out of order."""
    simulate(scenario, seeds=range(at_length(4, 8)), faults=Faults.all(0.03))
