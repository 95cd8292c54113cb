"""Turns keep their promises in every order."""

import asyncio
from typing import Any

from gcp_adk_store.testing.simulation import Service, World, simulate

KEY: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}


async def a_cancelled_wait(world: World) -> None:
    """One process holds the turn, and another gives up its wait for it meanwhile."""
    service = Service(world)
    plain = service.beside()
    await plain.sessions.create_session(**KEY)
    holder, waiter = world.process("holder"), world.process("waiter")
    held, waiting = service.store_of(holder), service.store_of(waiter)
    may_end = asyncio.Event()

    async def hold() -> None:
        async with held.turns.hold(**KEY):
            await may_end.wait()

    async def wait() -> None:
        async with waiting.turns.hold(**KEY, wait_s=20):
            pass

    holding = holder.start(hold)
    await asyncio.sleep(1)
    asked = waiter.start(wait)
    await asyncio.sleep(world.random.uniform(0, 0.3))
    asked.cancel()
    await asyncio.wait([asked])
    world.note("cancelled")
    await asyncio.sleep(0)  # the waiter's loop gets to know it
    holder.loop.call_soon(may_end.set)
    await holding
    await asyncio.sleep(100)

    assert (await plain.turns.status(**KEY)).fence == 1


def test_a_caller_that_is_cancelled_while_it_waits_takes_no_turn_later() -> None:
    """A turn that nobody waits for would hold up the next message until its lease ends."""
    simulate(a_cancelled_wait, seeds=range(200))
