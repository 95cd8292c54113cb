"""A copy that follows its source brings every session over whole, whoever is killed meanwhile."""

import asyncio
from typing import Any, Final

from google.adk.events import Event

from gcp_adk_store import Store, StoreError
from gcp_adk_store.moving import copy
from gcp_adk_store.testing.simulation import Faults, Service, World, simulate
from tests.simulation.checkers import check_followed
from tests.simulation.events import event_of
from tests.simulation.fleet import LIMITS, Actor, Fleet, key
from tests.simulation.journal import Outcome
from tests.simulation.raw import require_sound
from tests.support.lengths import at_length

USERS: Final = ("ann", "bob")
SESSIONS: Final = ("one", "two")


async def act(actor: Actor, step: int) -> None:
    """Create a session unless it is there, and append to it, or archive all but the newest events of each."""
    random, sessions, name = actor.random(step), actor.store.sessions, f"{actor.name}-{step}"
    user, session = random.choice(USERS), random.choice(SESSIONS)
    size, number = random.choice([0, 900, 4_000]), random.randrange(2)
    event = event_of(name, size, **{"last": name, f"user:{number}": name, "app:last": name})

    async def append() -> Event:
        held = await sessions.get_session(**key(session, user))
        if held is None:
            held = await sessions.create_session(**key(session, user), state={"born": name * 90})
        return await sessions.append_event(held, event)

    if random.random() < 0.2:
        kept = random.randrange(3)
        await actor.call("archive", user, lambda: actor.store.prune(app_name="app", keep_events=kept))
        return
    await actor.call("append", f"{user}/{session}", append, given=name)


async def follow(source: Store, target: Store, end: asyncio.Event) -> None:
    """Copy what changes until *end*; begin again after an error, as an operator would."""
    while True:
        try:
            await copy(
                source.sessions, target.sessions, app_name="app", follow=end, interval_s=2.0, verify=True
            )
        except StoreError:
            await asyncio.sleep(1)
        else:
            return


async def looked_at(plain: Store) -> dict[str, tuple[list[str], dict[str, Any]]]:
    """Return the events and the state of each session."""
    found = {}
    for user in USERS:
        for session in SESSIONS:
            one = await plain.sessions.get_session(**key(session, user))
            if one is not None:
                events = plain.sessions.iter_events(**key(session, user))
                found[f"{user}/{session}"] = ([each.event.id async for each in events], dict(one.state))
    return found


async def scenario(world: World) -> None:
    """A fleet writes to the source; copiers are killed, and another one goes on."""
    options: dict[str, Any] = {"session_limits": LIMITS, "on_conflict": "merge"}
    fleet, there = Fleet(world, **options), Service(world)
    source, target = fleet.plain, there.beside(**options)
    working = asyncio.create_task(fleet.work(25, act))
    looks = []
    for number in range(3):
        process = world.process(f"copier {number}")
        copying = process.start(
            _follow_until_killed, fleet.store_of(process), there.store_of(process, **options)
        )
        await asyncio.sleep(world.random.uniform(0, 15))
        looks.append(await looked_at(target))
        process.kill()
        await asyncio.wait([copying])
    await working
    await asyncio.sleep(120)  # what is late arrives
    last = world.process("copier")
    await last.start(_copy_once, fleet.store_of(last), there.store_of(last, **options))
    wanted, now = await looked_at(source), await looked_at(target)
    assert now == wanted, "the target is not the source"
    for name, (events, _) in wanted.items():
        check_followed(events, [look[name][0] for look in looks if name in look])
        for call in fleet.journal.of("append", name):
            assert call.outcome is not Outcome.DONE or call.given in events, f"{call.given} is lost"
    for plain in (source, target):
        await require_sound(plain)


async def _follow_until_killed(source: Store, target: Store) -> None:
    await follow(source, target, asyncio.Event())


async def _copy_once(source: Store, target: Store) -> None:
    end = asyncio.Event()
    end.set()
    await follow(source, target, end)


def test_a_copy_that_follows_brings_every_session_over_whole() -> None:
    """At any time the target has a beginning of each session, and at the end all of them."""
    simulate(scenario, seeds=range(at_length(2, 8)), faults=Faults.all(0.02))
