"""What appends leave behind is stored in their order or reported, in every order of failures."""

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.sessions import Session
from google.genai import types

from gcp_adk_store.testing.simulation import Faults, World, simulate
from tests.simulation.fleet import LIMITS, Actor, Fleet, key
from tests.simulation.journal import Journal, Outcome
from tests.simulation.raw import require_sound
from tests.support.lengths import at_length

SESSIONS = ("one", "two")


@dataclass(slots=True)
class Line:
    """The appends through one handle, in their order."""

    process: str
    session: str
    appends: list[tuple[str, Outcome, bool]] = field(default_factory=list)
    """The id of each event, what its call said, and whether it is final."""


def event_of(name: str, *, is_final: bool, size: int) -> Event:
    """Return an event of an agent, which ends its turn if it *is_final*."""
    part = types.Part(text=name + "." * size)
    if not is_final:
        part = types.Part(function_call=types.FunctionCall(name="work", args={"text": name + "." * size}))
    return Event(
        id=name, author="agent", invocation_id=name, content=types.Content(role="model", parts=[part])
    )


async def act(actor: Actor, step: int, lines: list[Line]) -> None:
    """Append a turn of some events, through a new handle or one that may have failed before; or flush."""
    random = actor.random(step)
    session = random.choice(SESSIONS)
    if random.random() < 0.2:
        await actor.call("flush", "all", actor.store.sessions.flush)
        return
    line, handle = actor.memory.get(session, (None, None))
    if handle is None or line is None or random.random() < 0.4:
        handle = await actor.read(session)
        if handle is None:
            return
        line = Line(actor.name, session)
        actor.memory[session] = line, handle  # nobody else holds it: the one before goes
        lines.append(line)
    count = random.choice([1, 2, 4])
    for number in range(count):
        event = event_of(
            f"{actor.name}-{step}-{number}", is_final=number == count - 1, size=random.choice([0, 600, 2_000])
        )
        await append(actor, line, handle, event)
        await asyncio.sleep(random.choice([0, 0, random.uniform(0, 0.3)]))


async def append(actor: Actor, line: Line, handle: Session, event: Event) -> None:
    """Append an event, and write down what its call says."""
    line.appends.append((event.id, Outcome.UNKNOWN, event.is_final_response()))
    place = len(line.appends) - 1
    await actor.append(handle, event)
    call = next(one for one in reversed(actor.journal.calls) if one.given == event.id)
    line.appends[place] = (event.id, call.outcome, event.is_final_response())


def check(line: Line, stored: list[str]) -> None:
    """Check one handle: what is stored is the beginning of what was appended, and all at a turn's end."""
    is_cut = ""
    for place, (name, outcome, is_final) in enumerate(line.appends):
        if outcome is Outcome.DONE and name not in stored:
            is_cut = is_cut or name
        if name in stored:
            assert not is_cut, f"{name} is stored, and {is_cut} before it is not"
            assert outcome is not Outcome.REFUSED, f"{name} was refused, and is stored"
        if outcome is Outcome.DONE and is_final:
            lost = [
                one
                for one, said, _ in line.appends[: place + 1]
                if said is Outcome.DONE and one not in stored
            ]
            assert not lost, f"a turn ended with {name}, and {lost} are not stored"
    places = [stored.index(name) for name, _, _ in line.appends if name in stored]
    assert places == sorted(places), "events of one handle are stored in another order"


def check_flushes(journal: Journal, lines: list[Line], stored: list[str]) -> None:
    """Check that all is stored that a flush waited for, unless some call reported a failure."""
    appends = {call.given: call for call in journal.of("append")}
    for flush in journal.of("flush"):
        mine = [line for line in lines if line.process == flush.process]
        flushes = [call for call in journal.of("flush") if call.process == flush.process]
        for line in mine if flush.outcome is Outcome.DONE else ():
            calls = [appends[name] for name, _, _ in line.appends if name in appends]
            before = [call for call in calls if call.outcome is Outcome.DONE and call.ended <= flush.begun]
            lost = [call for call in before if call.given not in stored]
            refused = [call for call in (*calls, *flushes) if call.outcome is not Outcome.DONE]
            was_reported = any(lost and lost[0].ended <= call.ended <= flush.ended for call in refused)
            assert was_reported or not lost, (
                f"a flush at {flush.begun:.3f} ended well, and {lost[0].given} is lost"
            )


async def scenario(world: World, **options: Any) -> None:
    """A fleet whose stores have *options*."""
    fleet = Fleet(world, loops=1, session_limits=LIMITS, durability="turn", **options)  # a flush is of one
    for session in SESSIONS:
        await fleet.plain.sessions.create_session(**key(session))
    lines: list[Line] = []
    await fleet.work(24, partial(act, lines=lines), rest_s=200)
    everything: list[str] = []
    for session in SESSIONS:
        stored = [event.id for event in (await fleet.stored(session)).events]
        assert len(stored) == len({*stored}), "an event is stored twice"
        for line in lines:
            if line.session == session:
                check(line, stored)
        everything += stored
    check_flushes(fleet.journal, lines, everything)
    await require_sound(fleet.plain)


@pytest.mark.parametrize("on_conflict", ["raise", "merge"])
def test_what_is_stored_through_a_handle_is_the_beginning_of_what_was_appended(on_conflict: str) -> None:
    """Nothing follows an event that failed behind its caller, and a turn that ended is stored."""
    simulate(
        partial(scenario, on_conflict=on_conflict), seeds=range(at_length(3, 12)), faults=Faults.all(0.05)
    )
