"""Collectors, prunes and checks beside writers remove nothing that is referred to, in every order."""

import asyncio
from functools import partial
from typing import Any, Final

from google.adk.events import Event, EventActions

from gcp_adk_store import Store
from gcp_adk_store.testing.simulation import Faults, World, simulate
from tests.simulation.events import nothing, said
from tests.simulation.fleet import LIMITS, Actor, Fleet, key
from tests.simulation.journal import Call, Journal, Outcome
from tests.simulation.raw import HOUR_S, collect, require_sound, require_whole
from tests.simulation.resent import may_arrive_again
from tests.support.lengths import at_length

SESSIONS: Final = ("one", "two", "three")
IDLE_DAYS: Final = 0.25


async def act(actor: Actor, step: int) -> None:
    """Write large content that comes and goes, collect what nobody needs, prune, archive, check, repair."""
    random, store = actor.random(step), actor.store
    name = f"{actor.name}-{step}"
    session = random.choice(SESSIONS)
    hours = random.choice([0, 0, 1, 3])
    if hours:  # all go on at the full hour, so that calls meet that are far from each other otherwise
        await asyncio.sleep(hours * HOUR_S - actor.world.now % HOUR_S + random.uniform(0, 0.3))
    match random.choice(
        ["create", "append", "append", "append", "append", "collect", "prune", "archive", "check", "repair"]
    ):
        case "create":
            create = partial(store.sessions.create_session, **key(session), state={"large": "first " * 99})
            await actor.call("create", session, create, given=name, seen=nothing)
        case "collect":
            await actor.call("collect", "", lambda: collect(store))
        case "prune":
            prune = partial(store.prune, app_name="app", idle_days=IDLE_DAYS)
            await actor.call("prune", "", prune, seen=nothing)
        case "archive":
            kept = random.randrange(3)
            await actor.call("archive", "", lambda: store.prune(app_name="app", keep_events=kept))
        case "append":
            held = await actor.read(session)
            if held is not None:
                large = random.choice(["first ", "second "]) * 99  # equal content is one payload
                changes = {"large": large, "user:large": large, "app:large": large}
                content = said(large * 10 + random.choice("ab"))
                actions = EventActions(state_delta=changes)
                await actor.append(held, Event(id=name, author="user", content=content, actions=actions))
        case action:
            faults = await actor.call(action, "", lambda: check(store), seen=str)
            if faults and action == "repair":
                await actor.call("repair", "", lambda: store.repair(faults), seen=len)


async def check(store: Store) -> list[Any]:
    """Return what a check finds beside writers."""
    return [fault async for fault in store.check(full=True)]


def check_presence(journal: Journal, session: str, look: Call) -> None:
    """Check that a session that is missing was idle for long enough, before a prune."""
    prunes = [call for call in journal.of("prune") if call.outcome is not Outcome.REFUSED]
    for call in [*journal.of("append", session), *journal.of("create", session)]:
        if call.outcome is Outcome.DONE and call.ended < look.begun:
            # Some clocks are wrong by a minute, and idle times count from the events' own.
            was_idle = [
                prune
                for prune in prunes
                if prune.begun < look.ended and call.begun <= prune.ended - IDLE_DAYS * 24 * HOUR_S + 240
            ]
            assert look.result is not None or was_idle, f"{session} was pruned too early: {call}"


async def scenario(world: World) -> None:
    """Let a fleet work for some days, then look at what is left."""
    fleet = Fleet(world, session_limits=LIMITS, on_conflict="merge")
    plain = fleet.plain
    await fleet.work(36, act, rest_s=48 * HOUR_S)
    if any(may_arrive_again(world, call) for call in fleet.journal.of("create")):
        return  # one that was pruned may have come back
    for session in SESSIONS:
        await fleet.end.read(session)
    require_whole(fleet.journal)
    for session in SESSIONS:
        for look in fleet.journal.of("read", session):
            if look.outcome is Outcome.DONE:
                check_presence(fleet.journal, session, look)
    for call in [*fleet.journal.of("check"), *fleet.journal.of("repair")]:
        assert call.result in (None, "[]"), f"a check beside writers found {call.result}"
    await collect(plain)
    assert [garbage async for garbage in plain.find_garbage()] == []
    await require_sound(plain, older_than_s=24 * HOUR_S)


def test_collectors_prunes_and_checks_disturb_no_writer() -> None:
    """What is in use stays, what is idle for long enough may go, and a check of sound data finds nothing."""
    simulate(scenario, seeds=range(at_length(4, 8)), faults=Faults.all(0.03))
