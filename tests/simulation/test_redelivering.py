"""An event that clients deliver again, through any process, is stored once, in every order."""

import asyncio
from functools import partial

import pytest
from google.adk.events import Event
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import GetSessionConfig

from gcp_adk_store import SessionLimits
from gcp_adk_store.testing.simulation import Faults, World, simulate
from tests.simulation.events import said
from tests.simulation.fated import Fated
from tests.simulation.fleet import LIMITS, Actor, Fleet, key
from tests.simulation.journal import Journal, Outcome
from tests.simulation.raw import require_sound, require_whole
from tests.support.lengths import at_length

NEWEST = GetSessionConfig(num_recent_events=0)
"""A handle without events recognises what its process stored or recognised, and no other."""


def event_of(name: str) -> Event:
    """Return the event of a name, which is equal each time."""
    text = name + "." * (600 if name.endswith("7") else 0)
    return Event(id=name, author="user", invocation_id=name, timestamp=1.0, content=said(text))


def names_in(session: Session | None) -> list[str]:
    """Return the ids of a session's events."""
    return [] if session is None else [event.id for event in session.events]


async def act(actor: Actor, step: int) -> None:
    """Deliver events, some of them again: alone or several at once, through an old handle or a new one."""
    random, sessions, journal = actor.random(step), actor.store.sessions, actor.journal
    name = f"{actor.name}-{step}"
    earlier = list(dict.fromkeys(call.given for call in journal.of("append")))[-6:]
    known = earlier if actor.memory.get("never sealed") else actor.memory.get("known", ())
    mine = [one for one in earlier if one in known]
    is_blind = bool(mine) and random.random() < 0.2
    config = NEWEST if is_blind else None
    held: Session | None = None if is_blind else actor.memory.get("held")
    if held is None or random.random() < 0.5:
        get = partial(sessions.get_session, **key("one"), config=config)
        held = await actor.call("look" if is_blind else "read", "one", get, seen=names_in)
    if held is None:
        return
    again = (
        [random.choice(mine)]
        if is_blind
        else random.sample(earlier, min(len(earlier), random.choice([0, 1, 2])))
    )
    names = random.sample([*again, name], len(again) + 1)
    if random.random() < 0.15:
        held.events.append(event_of(name))  # only the caller's list has it, and no store
    await asyncio.gather(*(append(actor, held, one) for one in names))
    actor.memory["held"] = None if is_blind or actor.memory.pop("failed", False) else held


async def append(actor: Actor, held: Session, name: str) -> None:
    """Deliver the event of a name."""
    done = await actor.append(held, event_of(name))
    if done is None:
        actor.memory["failed"] = True
    else:
        actor.memory.setdefault("known", set()).add(name)


def check(journal: Journal, stored: list[str]) -> None:
    """Check that each event is there once if one delivery was acknowledged, and not if all were refused."""
    assert len(stored) == len({*stored}), f"an event is stored twice: {stored}"
    calls = list(journal.of("append"))
    for name in {call.given for call in calls}:
        outcomes = [call.outcome for call in calls if call.given == name]
        if Outcome.DONE in outcomes:
            assert name in stored, f"{name} was acknowledged, and is lost"
        if {*outcomes} == {Outcome.REFUSED}:
            assert name not in stored, f"{name} was refused each time, and is stored"
    for read in journal.of("read"):
        seen = read.result or []
        assert seen == stored[: len(seen)], "a read saw another order"


async def scenario(world: World, *, seals: bool) -> None:
    """A fleet that seals its session's events, or leaves all in the tail."""
    fleet = Fleet(world, session_limits=LIMITS if seals else SessionLimits())
    await fleet.plain.sessions.create_session(**key("one"))

    async def acting(actor: Actor, step: int) -> None:
        actor.memory["never sealed"] = not seals
        await act(actor, step)

    await fleet.work(30, acting, rest_s=200)
    require_whole(fleet.journal)
    check(fleet.journal, names_in(await fleet.stored("one")))
    proof = await fleet.plain.verify_session(**key("one"))
    assert proof.broken is None, proof.broken
    await require_sound(fleet.plain)


@pytest.mark.parametrize("seals", [True, False])
def test_an_event_that_is_delivered_again_is_stored_once(*, seals: bool) -> None:
    """Also by a handle that lacks it, if its process stored it or the tail has it."""
    simulate(partial(scenario, seals=seals), seeds=range(at_length(3, 12)), faults=Faults.all(0.04))


async def recognised_by_a_handle(world: World) -> None:
    """A process gets a sealed event again through a handle that holds it, then through one that does not."""
    one = Fated(world, session_limits=LIMITS)
    plain, store = one.plain, one.store
    session = await one.fill()
    for name in ("a", "b7", "c7", "d7"):
        await plain.sessions.append_event(session, event_of(name))

    async def requests_to_deliver(config: GetSessionConfig | None) -> list[str]:
        held = await store.sessions.get_session(**key("one"), config=config)
        assert held is not None
        before = len(world.trace)
        await store.sessions.append_event(held, event_of("a"))
        return [line.split()[2] for line in world.trace[before:] if line.split()[1] == "caller:"]

    through_full = await requests_to_deliver(None)
    through_blind = await requests_to_deliver(NEWEST)
    assert names_in(await plain.sessions.get_session(**key("one"))) == ["a", "b7", "c7", "d7"]
    assert (through_full, through_blind) == (["get"], ["get"])


def test_an_event_that_a_handle_recognised_is_known_to_its_process() -> None:
    """Also through a handle that was read without events, long after the event was sealed: by one read."""
    simulate(recognised_by_a_handle, seeds=[0])
