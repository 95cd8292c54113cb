"""A repair repairs damage beside writers, and changes nothing that is sound."""

import asyncio
from typing import Any, Final

from gcp_adk_store import Store
from gcp_adk_store.testing.simulation import Faults, World, simulate
from tests.simulation.checkers import check_list
from tests.simulation.events import event_of
from tests.simulation.fleet import LIMITS, Actor, Fleet, key
from tests.simulation.raw import require_sound
from tests.support.lengths import at_length
from tests.support.stored import change

DAMAGE: Final[dict[str, Any]] = {
    "rev": 900,
    "tail_bytes": 7,
    "last_update_time": 5.0,
    "sealed_max": 5.0,
    "state": {"kept": "yes", "changed": "wrong"},
}
"""What the rest of a session proves to be wrong."""
PATH: Final = "adk_apps/app/adk_users/user/adk_sessions/one"


async def act(actor: Actor, step: int) -> None:
    """Append, read, or repair what a check finds."""
    random, store = actor.random(step), actor.store
    name = f"{actor.name}-{step}"
    if random.random() < 0.3:
        await actor.call("repair", "one", lambda: repaired(store), seen=len)
        return
    held = await actor.read("one")
    if held is not None:
        event = event_of(name, random.choice([0, 900]), changed=name)
        await actor.append(held, event)


async def repaired(store: Store) -> list[Any]:
    """Repair what a check finds."""
    return [*await store.repair([fault async for fault in store.check(full=True)])]


async def damage(world: World, plain: Store) -> None:
    """Change one field of the session's document, some times."""
    for _ in range(4):
        await asyncio.sleep(world.random.uniform(0, 8))
        field = world.random.choice([*DAMAGE])
        await change(plain, PATH, {field: DAMAGE[field]})
        world.note(f"damage: {field}")


async def scenario(world: World) -> None:
    """A fleet appends and repairs while something damages the session."""
    fleet = Fleet(world, session_limits=LIMITS, on_conflict="merge")
    plain = fleet.plain
    session = await plain.sessions.create_session(**key("one"), state={"kept": "yes"})
    await plain.sessions.append_event(session, event_of("first", changed="first"))
    damaging = asyncio.create_task(damage(world, plain))
    await fleet.work(25, act)
    await damaging
    await asyncio.sleep(120)
    for _ in range(3):  # one fault may hide another one
        await repaired(plain)
    await require_sound(plain)
    stored = await fleet.stored("one")
    check_list([event.id for event in stored.events[1:]], fleet.journal.of("append"), [])
    assert dict(stored.state) == {"kept": "yes", "changed": stored.events[-1].id}, stored.state
    assert (await plain.verify_session(**key("one"))).broken is None


def test_a_repair_beside_writers_loses_nothing() -> None:
    """Whatever was acknowledged is there in order, and the session is as its events say."""
    simulate(scenario, seeds=range(at_length(2, 8)), faults=Faults.all(0.03))


def test_an_append_before_a_repair_of_the_number_of_events_is_recognised() -> None:
    """Its handle had a number that was too high, its answer was lost, and others sealed it meanwhile.

    In the second schedule the number is damaged again, and so is what it was before the append.
    """
    simulate(scenario, seeds=[75_807_073, 61_313_924], faults=Faults.all(0.03))
