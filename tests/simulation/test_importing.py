"""An import that replaces a session exchanges both in one step for all, in every order."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

from google.adk.events import Event
from google.adk.sessions import Session

from gcp_adk_store import Store
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.testing.simulation import Faults, Service, World, simulate
from tests.simulation.events import event_of
from tests.simulation.fleet import LIMITS, Actor, Fleet, key
from tests.simulation.journal import Journal, Outcome
from tests.simulation.raw import documents_below, require_collected, require_whole
from tests.simulation.resent import may_arrive_again
from tests.support.lengths import at_length
from tests.support.stored import put_session

KEY: Final = SessionKey(app="app", user="user", session="one")


def events_of(name: str) -> list[Event]:
    """Return the events of an import, of which some are in segments."""
    events = [event_of(f"{name}/{number}", 700) for number in range(2 + len(name) % 6)]
    for number, event in enumerate(events):
        event.timestamp = float(number)
    return events


async def act(actor: Actor, step: int) -> None:
    """Import, append or read."""
    random, sessions = actor.random(step), actor.store.sessions
    name = f"{actor.name}-{step}"
    match random.choice(["import", "import", "append", "append", "read"]):
        case "import":

            async def events() -> AsyncIterator[Event]:
                for event in events_of(name):
                    await asyncio.sleep(random.choice([0, 0, 1.0]))
                    yield event

            of: dict[str, Any] = {"state": {"large": name * 99}, "replaces": True}
            replace = partial(put_session, sessions, key("one"), events(), **of)
            await actor.call("import", "one", replace, given=name)
        case "append":
            held: Session | None = actor.memory.get("held")
            if held is None or random.random() < 0.4:
                held = actor.memory["held"] = await actor.read("one")
            if held is not None:
                event = event_of(f"+{name}", 700)
                await actor.append(held, event, given=(held.events[0].id.partition("/")[0], event.id))
        case _:
            await actor.read("one")


def check(world: World, journal: Journal) -> None:
    """Check that each read saw one import whole, with what was appended to it, and none that was replaced."""
    imports = {call.given: call for call in journal.of("import")}
    appends = {call.given[1]: call for call in journal.of("append")}
    for look in journal.of("read"):
        if look.outcome is not Outcome.DONE:
            continue
        assert look.result is not None, f"there was no session at {look.begun:.3f}"
        name = look.result[0].partition("/")[0]
        whole = [event.id for event in events_of(name)]
        assert look.result[: len(whole)] == whole, f"a part of {name} was read at {look.begun:.3f}"
        made = imports[name]
        assert made.outcome is not Outcome.REFUSED, f"{name} was refused with {made.error}, and read"
        for appended in look.result[len(whole) :]:
            append = appends[appended]
            assert append.given[0] == name, f"{appended} was appended to another session"
            # Of a session that has gone since, nobody can say that it lacks what was appended.
            is_refused = append.outcome is Outcome.REFUSED and append.error != "SessionMissingError"
            assert not is_refused, f"{appended} was refused with {append.error}, and read"
        missed = [
            call.given[1]
            for call in appends.values()
            if call.outcome is Outcome.DONE and call.given[0] == name and call.ended < look.begun
        ]
        assert {*missed} <= {*look.result}, f"a read at {look.begun:.3f} missed one of {missed}"
        if may_arrive_again(world, made, ("commit",)):
            continue
        for later in imports.values():
            is_between = made.ended < later.begun and later.ended < look.begun
            assert not (is_between and made.outcome is later.outcome is Outcome.DONE), (
                f"{name} was read at {look.begun:.3f}, and {later.given} had replaced it"
            )


async def scenario(world: World) -> None:
    """Let a fleet import, append and read."""
    fleet = Fleet(world, session_limits=LIMITS, on_conflict="merge")
    sessions = fleet.plain.sessions

    async def first() -> AsyncIterator[Event]:
        for event in events_of("first"):
            yield event

    put = partial(put_session, sessions, key("one"), first())
    await fleet.end.call("import", "one", put, given="first")
    await fleet.work(24, act, rest_s=200)
    await fleet.end.read("one")
    require_whole(fleet.journal)
    check(world, fleet.journal)
    await check_rests(fleet.service, fleet.plain)


async def check_rests(service: Service, plain: Store) -> None:
    """Check that the collector leaves nothing of sessions that were replaced."""
    await require_collected(plain)
    session = plain.sessions.storage.layout.session(KEY)
    stored = await plain.sessions._reader.stored(KEY)  # its epoch is in no public value
    assert stored is not None
    strange = [
        document.path
        for document in await documents_below(service, session)
        if stored.epoch not in document.path
    ]
    assert not strange, strange


def test_an_import_replaces_a_session_in_one_step() -> None:
    """Whoever reads finds the old one whole or the new one, whatever is killed and lost."""
    simulate(scenario, seeds=range(at_length(3, 12)), faults=Faults.all(0.03))
