"""Collectors, prunes and checks beside writers remove nothing that is referred to, in every order."""

import asyncio
from functools import partial
from typing import Any, Final

from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.genai import types

from gcp_adk_store import Store
from gcp_adk_store.testing.simulation import Faults, Service, World, simulate
from tests.simulation.fleet import Actor, Fleet
from tests.simulation.journal import Call, Journal, Outcome
from tests.simulation.raw import require_whole
from tests.simulation.resent import may_arrive_again
from tests.simulation.test_sessions import LIMITS, key
from tests.support.lengths import at_length

SESSIONS: Final = ("one", "two", "three")
HOUR_S: Final = 3_600.0
IDLE_DAYS: Final = 0.25


async def act(actor: Actor, step: int) -> None:
    """Write large content that comes and goes, collect what nobody needs, prune, archive, check, repair."""
    random, store, journal = actor.random(step), actor.store, actor.journal
    name = f"{actor.name}-{step}"
    session = random.choice(SESSIONS)
    hours = random.choice([0, 0, 1, 3])
    if hours:  # all go on at the full hour, so that calls meet that are far from each other otherwise
        await asyncio.sleep(hours * HOUR_S - actor.world.now % HOUR_S + random.uniform(0, 0.3))
    match random.choice(
        ["create", "append", "append", "append", "append", "collect", "prune", "archive", "check", "repair"]
    ):
        case "create":
            await journal.call(
                actor.name, "create", session,
                lambda: store.sessions.create_session(**key(session), state={"large": "first " * 99}),
                given=name, seen=lambda _: None,
            )  # fmt: skip
        case "collect":
            await journal.call(actor.name, "collect", "", lambda: collect(store))
        case "prune":
            await journal.call(
                actor.name, "prune", "", lambda: store.prune(app_name="app", idle_days=IDLE_DAYS),
                seen=lambda report: report.pruned_sessions,
            )  # fmt: skip
        case "archive":
            kept = random.randrange(3)
            await journal.call(
                actor.name, "archive", "", lambda: store.prune(app_name="app", keep_events=kept)
            )
        case "append":
            held = await read(journal, actor.name, store, session)
            if held is not None:
                large = random.choice(["first ", "second "]) * 99  # equal content is one payload
                said = types.Content(role="user", parts=[types.Part(text=large * 10 + random.choice("ab"))])
                changes = {"large": large, "user:large": large, "app:large": large}
                event = Event(id=name, author="user", content=said, actions=EventActions(state_delta=changes))
                await journal.call(
                    actor.name, "append", session, lambda: store.sessions.append_event(held, event),
                    given=name, seen=lambda _: None,
                )  # fmt: skip
        case action:
            faults = await journal.call(actor.name, action, "", lambda: check(store), seen=str)
            if faults and action == "repair":
                await journal.call(actor.name, "repair", "", lambda: store.repair(faults), seen=len)


async def read(journal: Journal, who: str, store: Store, session: str) -> Session | None:
    """Read a session and the ids of its events."""
    return await journal.call(
        who, "read", session, lambda: store.sessions.get_session(**key(session)),
        seen=lambda found: found and [event.id for event in found.events],
    )  # fmt: skip


async def collect(store: Store) -> None:
    """Remove all garbage that is older than an hour."""
    async for garbage in store.find_garbage(older_than_s=HOUR_S):
        await store.remove_garbage(garbage)


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
    service = Service(world)
    plain = service.beside(session_limits=LIMITS)

    fleet = Fleet(world, service, partial(service.store_of, session_limits=LIMITS, on_conflict="merge"))
    await fleet.work(36, act)
    await asyncio.sleep(48 * HOUR_S)
    if any(may_arrive_again(world, call) for call in fleet.journal.of("create")):
        return  # one that was pruned may have come back
    for session in SESSIONS:
        await read(fleet.journal, "end", plain, session)
    require_whole(fleet.journal)
    for session in SESSIONS:
        for look in fleet.journal.of("read", session):
            if look.outcome is Outcome.DONE:
                check_presence(fleet.journal, session, look)
    for call in [*fleet.journal.of("check"), *fleet.journal.of("repair")]:
        assert call.result in (None, "[]"), f"a check beside writers found {call.result}"
    await collect(plain)
    assert [garbage async for garbage in plain.find_garbage()] == []
    faults = await check(plain)
    assert not faults, faults


def test_collectors_prunes_and_checks_disturb_no_writer() -> None:
    """What is in use stays, what is idle for long enough may go, and a check of sound data finds nothing."""
    simulate(scenario, seeds=range(at_length(4, 8)), faults=Faults.all(0.03))
