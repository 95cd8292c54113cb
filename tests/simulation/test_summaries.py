"""A read since the newest summary has what ADK needs of the history, whoever sealed, redacted or restored."""

import asyncio
import re
from typing import Any

from google.adk.events import Event, EventActions
from google.adk.events.event_actions import EventCompaction
from google.genai import types

from gcp_adk_store import HistoryConfig, Point, Store
from gcp_adk_store.codec.events import StoredEvent
from gcp_adk_store.codec.packing import unpack_segment
from gcp_adk_store.sessions.read.session_objects import marker_of
from gcp_adk_store.sessions.read.window import essential
from gcp_adk_store.testing.simulation import Faults, Process, Service, World, simulate
from tests.simulation.fleet import Actor, Fleet
from tests.simulation.journal import Outcome
from tests.simulation.raw import documents_below
from tests.simulation.test_sessions import LIMITS, key
from tests.support.lengths import at_length

FULL = HistoryConfig(history="full")
TEXT = re.compile(r'"text":"([^".]+)')
"""The name of an event, with which its text begins (`said`)."""


def said(name: str, time: float, *, length: int, covers: list[Event] | None = None) -> Event:
    """Return the event of a turn, or the summary of those that it *covers*."""
    content = types.Content(role="user", parts=[types.Part(text=name + "." * length)])
    actions = EventActions()
    if covers:
        times = [event.timestamp for event in covers]
        actions.compaction = EventCompaction(
            start_timestamp=min(times), end_timestamp=max(times), compacted_content=content
        )
    return Event(id=name, author="user", invocation_id=name, timestamp=time, content=content, actions=actions)


async def act(actor: Actor, step: int) -> None:
    """Append a turn or a summary of those that were read, redact, restore, or compare."""
    random, store, name = actor.random(step), actor.store, f"{actor.name}-{step}"
    held = await actor.journal.call(
        actor.name, "read", "one", lambda: store.sessions.get_session(**key("one")), seen=lambda _: None
    )
    if held is None:
        return
    action = random.choice([*["turn"] * 6, *["summary"] * 3, "compare", "redact", "restore"])
    events = held.events
    if action == "compare":
        await actor.journal.call(actor.name, action, "one", lambda: compare(store))
    elif action == "redact" and events:
        redacted = random.choice(events).id
        await actor.journal.call(
            actor.name, action, "one",
            lambda: store.redact_event(**key("one"), event_id=redacted, reason="asked for"), given=redacted,
        )  # fmt: skip
    elif action == "restore" and len(events) > 8:
        at = Point.after_event(random.choice(events[-4:]).id)
        await actor.journal.call(
            actor.name, action, "one", lambda: store.restore_session(**key("one"), at=at)
        )
    else:
        covers = events[: -random.choice([1, 2, 5])] if action == "summary" else None
        event = said(name, actor.world.now, length=random.choice([0, 300, 900]), covers=covers)
        await actor.journal.call(
            actor.name, "append", "one", lambda: store.sessions.append_event(held, event), given=name
        )


async def compare(store: Store) -> None:
    """Check a read since the newest summary against a read of all, unless another writer came between."""
    read = await store.sessions.get_session(**key("one"))
    whole = await store.sessions.get_session(**key("one"), config=FULL)
    if read is None or whole is None or marker_of(read) != marker_of(whole):
        return
    events = [StoredEvent(event=event, missing={}) for event in whole.events]
    needed = [whole.events[place].id for place in essential(events)]
    ids = [event.id for event in whole.events]
    there = {event.id for event in read.events}
    assert [one for one in needed if one not in there] == [], "a read lacks events"
    assert [event.id for event in read.events] == [one for one in ids if one in there], "not in their order"


async def kept_in_windows(service: Service) -> set[str]:
    """Return the names of events whose texts are in windows of segments, also where no read looks."""
    documents = await documents_below(service, "adk_apps/app")
    packed = [window for one in documents if isinstance(window := one.fields.get("window"), bytes)]
    return {name for each in packed for text in unpack_segment(each) for name in TEXT.findall(text)}


async def scenario(world: World) -> None:
    """A fleet appends turns and summaries, and each of its processes begins without a window."""
    service = Service(world)
    options: dict[str, Any] = {
        "session_limits": LIMITS,
        "on_conflict": "merge",
        "history": "since_compaction",
    }
    plain = service.beside(**options)
    await plain.sessions.create_session(**key("one"))

    def make(process: Process) -> Store:
        return service.store_of(process, **options)

    fleet = Fleet(world, service, make)
    await fleet.work(40, act)
    await asyncio.sleep(120)
    for fresh in (plain, service.beside(**options)):
        await compare(fresh)
    proof = await plain.verify_session(**key("one"))
    assert proof.broken is None, proof.broken
    faults = [fault async for fault in plain.check(older_than_s=10**9, full=True)]
    assert not faults, faults
    assert all(call.error != "StoredDataError" for call in fleet.journal.calls)
    kept = await kept_in_windows(service)
    for call in fleet.journal.of("redact"):
        assert call.outcome is not Outcome.DONE or call.given not in kept, "a segment keeps it"


def test_a_read_since_the_newest_summary_lacks_nothing_that_adk_needs() -> None:
    """Each process reads what the newest segment keeps, or all segments."""
    simulate(scenario, seeds=range(at_length(4, 8)), faults=Faults.all(0.03))
