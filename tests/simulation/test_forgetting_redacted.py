"""The memory of an event that was redacted does not come back, in every order."""

from functools import partial
from typing import Final

from google.adk.events import Event
from google.adk.sessions import Session

from gcp_adk_store.testing.simulation import Faults, World, simulate
from tests.simulation.events import nothing
from tests.simulation.fated import Fated
from tests.simulation.fleet import Actor, Fleet, key
from tests.simulation.journal import Outcome
from tests.simulation.raw import require_sound
from tests.simulation.test_memories import KEY, read_all, spoken
from tests.support.lengths import at_length

EVENTS: Final = 8
REMEMBERED: Final = 4
"""Events of these that are memories before the fleet begins; it may add the others after their redaction."""


async def act(actor: Actor, step: int) -> None:
    """Redact an event and remove its memory, add events as they were read once, or look."""
    random, store = actor.random(step), actor.store
    held: Session | None = actor.memory.get("held")
    if held is None or random.random() < 0.2:
        get = partial(store.sessions.get_session, **key("one"))
        held = actor.memory["held"] = await actor.call("get", "one", get, seen=nothing)
    match random.choice(["redact", "add", "add", "list", "search"]):
        case "redact":
            one = f"{random.randrange(EVENTS)}"
            redact = partial(store.redact_event, **key("one"), event_id=one, reason="r", memories=True)
            await actor.call("redact", one, redact)
        case "add" if held is not None:
            events = held.events if random.random() < 0.2 else random.sample(held.events, 1)
            await actor.call("add", "", lambda: store.memory.add_events_to_memory(**KEY, events=events))
        case how:
            await read_all(actor.journal, actor.name, store, "list" if how == "list" else "search")


async def scenario(world: World) -> None:
    """Some events are memories; a fleet redacts any of them, and adds those that it read before."""
    fleet = Fleet(world)
    plain, journal = fleet.plain, fleet.journal
    session = await plain.sessions.create_session(**key("one"))
    for number in range(EVENTS):
        content = spoken(f"{number}", 300 * (number % 2))
        await plain.sessions.append_event(session, Event(id=f"{number}", author="user", content=content))
    await plain.memory.add_events_to_memory(**KEY, events=session.events[:REMEMBERED])
    await fleet.work(30, act, rest_s=120)
    await read_all(journal, "end", plain, "list")
    for number in range(EVENTS):
        redacts = [call for call in journal.of("redact", f"{number}") if call.outcome is not Outcome.REFUSED]
        done_at = min((c.ended for c in redacts if c.outcome is Outcome.DONE), default=float("inf"))
        asked_at = min((call.begun for call in redacts), default=float("inf"))
        for read in journal.of("read"):
            if read.outcome is Outcome.DONE:
                is_there = f"{number}" in read.result
                assert not (is_there and done_at < read.begun), f"the memory of event {number} came back"
                is_awaited = number < REMEMBERED and read.ended <= asked_at
                assert is_there or not is_awaited, f"the memory of event {number} is gone"
    await require_sound(plain)


def test_the_memory_of_a_redacted_event_does_not_come_back() -> None:
    """Other processes add the session as they read it before, and the memories of other events stay."""
    simulate(scenario, seeds=range(at_length(4, 8)), faults=Faults.all(0.03))


async def a_turn_that_waits_elsewhere(world: World) -> None:
    """A message is redacted while the process that stored it waits for the end of its turn to remember it."""
    one = Fated(world, index_on_append=True)
    plain, store = one.service.beside(), one.store
    session = await plain.sessions.create_session(**key("one"))
    question = Event(id="question", author="user", content=spoken("question"))
    await store.sessions.append_event(session, question)
    await plain.redact_event(**key("one"), event_id="question", reason="asked for", memories=True)
    answered = await store.sessions.get_session(**key("one"))
    assert answered is not None
    await store.sessions.append_event(answered, Event(id="answer", author="agent", content=spoken("answer")))
    await store.sessions.flush()
    listed = (await plain.memory.list_memories(**KEY)).memories
    assert [each.id for each in listed] == ["answer"]


def test_an_event_that_waits_to_be_remembered_is_not_after_its_redaction() -> None:
    """The process that appended it has it as it was."""
    simulate(a_turn_that_waits_elsewhere, seeds=[0])
