"""The files of sessions that are forked and restored are those that their events name, in every order."""

from functools import partial
from random import Random
from typing import Final

from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.genai import types

from gcp_adk_store import Point, Store
from gcp_adk_store.testing.simulation import Faults, World, simulate
from tests.simulation.checkers import certain_end
from tests.simulation.events import nothing, said
from tests.simulation.fleet import LIMITS, Actor, Fleet, key
from tests.simulation.journal import Call, Journal, Outcome
from tests.simulation.raw import HOUR_S, collect
from tests.support.lengths import at_length

FILES: Final = ("report", "notes/list")
SOURCE: Final = "source"


async def act(actor: Actor, step: int) -> None:
    """Save a file and name it in an event, append another event, fork, restore, or collect."""
    random, store = actor.random(step), actor.store
    name = f"{actor.name}-{step}"
    held = await actor.read(SOURCE)
    if held is None:
        await actor.call("create", SOURCE, lambda: store.sessions.create_session(**key(SOURCE)), seen=nothing)
        return
    match random.choice(["save", "save", "save", "append", "fork", "restore", "collect"]):
        case "save":
            filename = random.choice(FILES)
            part = types.Part.from_text(text=name)
            save = partial(store.artifacts.save_artifact, **key(SOURCE), filename=filename, artifact=part)
            version = await actor.call("save", filename, save, given=name)
            if version is not None:
                await actor.append(held, event_naming(name, {filename: version}))
        case "append":
            await actor.append(held, event_naming(name, {}))
        case "collect":
            await actor.call("collect", "", lambda: collect(store))
        case "fork":
            at = point_of(random, held)
            fork = partial(store.fork_session, **key(SOURCE), at=at, to_session_id=name)
            await actor.call("fork", name, fork, given="now" if at is None else "before", seen=nothing)
        case _:
            at = point_of(random, held)
            if at is not None:
                restore = partial(store.restore_session, **key(SOURCE), at=at)
                await actor.call("restore", SOURCE, restore, seen=nothing)


def event_naming(name: str, versions: dict[str, int]) -> Event:
    """Return an event that names versions of files."""
    actions = EventActions(artifact_delta=versions)
    return Event(id=name, invocation_id=name, author="user", content=said(name), actions=actions)


def point_of(random: Random, held: Session) -> Point | None:
    """Return a point before one of the events, or now."""
    ids = [event.id for event in held.events]
    return Point.before_invocation(random.choice(ids)) if ids and random.random() < 0.8 else None


async def text_of(store: Store, session: str, filename: str, version: int | None) -> str | None:
    """Return the text of a version of a file."""
    part = await store.artifacts.load_artifact(**key(session), filename=filename, version=version)
    return None if part is None else part.text


def named(events: list[Event]) -> dict[str, str]:
    """Return the last event that names a version of each file: its id is the text of that version."""
    return {filename: event.id for event in events for filename in event.actions.artifact_delta}


async def check_session(store: Store, session: str) -> list[Event]:
    """Check that a session has each version that its events name, with its bytes; return the events."""
    held = await store.sessions.get_session(**key(session))
    assert held is not None, f"{session} is missing"
    for event in held.events:
        for filename, version in event.actions.artifact_delta.items():
            text = await text_of(store, session, filename, version)
            assert text == event.id, f"{session} has {text} as version {version} of {event.id}"
    return held.events


async def check_restored(store: Store, journal: Journal, random: Random) -> None:
    """Take the source back to each of some points, one after the other, and check the latest versions."""
    events = await check_session(store, SOURCE)
    orphans = {filename: unnamed(journal, filename) for filename in FILES}
    while events:
        place = random.randrange(len(events))
        await store.restore_session(**key(SOURCE), at=Point.before_invocation(events[place].invocation_id))
        events = events[:place]
        assert [event.id for event in await check_session(store, SOURCE)] == [event.id for event in events]
        for filename in FILES:
            latest = await text_of(store, SOURCE, filename, None)
            wanted = named(events).get(filename)
            assert latest == wanted or latest in orphans[filename], (
                f"the latest {filename} is {latest}, not {wanted}"
            )


def unnamed(
    journal: Journal, filename: str, *, since: float = float("inf"), until: float = float("inf")
) -> set[str]:
    """Return the texts of the saves of a file that a look between two times may see without their event."""
    done = [call for call in journal.of("append") if call.outcome is Outcome.DONE]
    appended = {call.given for call in done if call.ended < since}
    return {
        call.given
        for call in journal.of("save", filename)
        if call.outcome is not Outcome.REFUSED and call.begun < until and call.given not in appended
    }


async def scenario(world: World) -> None:
    """Let a fleet save, fork, restore and collect for some days, then look at all sessions."""
    fleet = Fleet(world, session_limits=LIMITS, on_conflict="raise")
    plain, journal = fleet.plain, fleet.journal
    await fleet.work(40, act, rest_s=48 * HOUR_S)  # what is garbage is old
    await collect(plain)
    forks = [call for call in journal.of("fork") if call.outcome is Outcome.DONE]
    for fork in forks:
        await check_fork(plain, journal, fork)
    if await plain.sessions.get_session(**key(SOURCE)) is not None:
        await check_restored(plain, journal, world.random)


def is_beside_restore(journal: Journal, fork: Call) -> bool:
    """Return whether a fork may have seen the files of a session between the two steps of a restore."""
    restores = [call for call in journal.of("restore") if call.outcome is not Outcome.REFUSED]
    return any(call.begun < fork.ended and certain_end(call) > fork.begun for call in restores)


async def check_fork(store: Store, journal: Journal, fork: Call) -> None:
    """Check the latest version of each file of a fork."""
    events = await check_session(store, fork.of)
    if is_beside_restore(journal, fork):
        return
    until = fork.ended
    if fork.given == "now":  # it read the source before the first event that it lacks
        ids = {event.id for event in events}
        lacks = [call for call in journal.of("append") if call.begun > fork.begun and call.given not in ids]
        until = min([call.ended for call in lacks if call.outcome is Outcome.DONE], default=until)
    for filename in FILES:
        latest = await text_of(store, fork.of, filename, None)
        wanted = named(events).get(filename)
        assert latest == wanted or latest in unnamed(journal, filename, since=fork.begun, until=until), (
            f"the latest {filename} of {fork.of} is {latest}, not {wanted}"
        )


def test_files_of_forks_and_restores_are_those_that_the_events_name() -> None:
    """Each version that an event names is there, and the latest is the last one named before the point.

    With seed 174806100, a restore commits while another process still puts back the files of an earlier one.
    """
    simulate(scenario, seeds=[*range(at_length(2, 8)), 174806100], faults=Faults.all(0.03))
