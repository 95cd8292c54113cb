"""A read since the newest summary has what ADK needs of the history, whoever sealed, redacted or restored."""

import asyncio
import re
from functools import partial
from typing import Any

from google.adk.events import Event
from google.adk.events.event_actions import EventCompaction

from gcp_adk_store import HistoryConfig, Point, Store
from gcp_adk_store.codec.decode import StoredEvent
from gcp_adk_store.codec.packing import unpack_segment
from gcp_adk_store.model.appends import marker_of
from gcp_adk_store.sessions.read.window import essential
from gcp_adk_store.testing.simulation import Fate, Faults, Service, World, simulate
from tests.simulation.events import event_of, nothing
from tests.simulation.fleet import LIMITS, Actor, Fleet, key
from tests.simulation.journal import Outcome
from tests.simulation.raw import HOUR_S, documents_below, require_sound
from tests.support.lengths import at_length

FULL = HistoryConfig(history="full")
TEXT = re.compile(r'"text":"([^".]+)')
"""The name of an event, with which its text begins (`said`)."""


def turn(name: str, time: float, *, length: int, covers: list[Event] | None = None) -> Event:
    """Return the event of a turn, or the summary of those that it *covers*."""
    event = event_of(name, length)
    event.invocation_id, event.timestamp = name, time
    if covers:
        assert event.content is not None
        times = [each.timestamp for each in covers]
        event.actions.compaction = EventCompaction(
            start_timestamp=min(times), end_timestamp=max(times), compacted_content=event.content
        )
    return event


async def act(actor: Actor, step: int) -> None:
    """Append a turn or a summary of those that were read, redact, restore, or compare."""
    random, store, name = actor.random(step), actor.store, f"{actor.name}-{step}"
    held = await actor.read("one", seen=nothing)
    if held is None:
        return
    action = random.choice([*["turn"] * 6, *["summary"] * 3, "compare", "redact", "restore", "archive"])
    events = held.events
    if action == "compare":
        await actor.call(action, "one", lambda: compare(store))
    elif action == "redact" and events:
        redacted = random.choice(events).id
        redact = partial(store.redact_event, **key("one"), event_id=redacted, reason="asked for")
        await actor.call(action, "one", redact, given=redacted)
    elif action == "archive" and events:
        before = Point.after_event(random.choice(events).id)
        await actor.call(action, "one", lambda: store.sessions.archive_session(**key("one"), before=before))
    elif action == "restore" and len(events) > 8:
        at = Point.after_event(random.choice(events[-4:]).id)
        await actor.call(action, "one", lambda: store.restore_session(**key("one"), at=at))
    else:
        covers = events[: -random.choice([1, 2, 5])] if action == "summary" else None
        length = random.choice([0, 300, 900])
        await actor.append(held, turn(name, actor.world.now, length=length, covers=covers))


async def compare(store: Store) -> None:
    """Check a read since the newest summary against all events, unless another writer came between.

    A read of all has those that are not archived.
    """
    read = await store.sessions.get_session(**key("one"))
    info = await store.sessions.get_session_info(**key("one"))
    every = [each.event async for each in store.sessions.iter_events(**key("one"))]
    whole = await store.sessions.get_session(**key("one"), config=FULL)
    if read is None or whole is None or info is None or marker_of(read) != marker_of(whole):
        return
    assert every[info.archived_events :] == whole.events, "a read of all has other events"
    events = [StoredEvent(event=event, missing={}) for event in every]
    needed = [every[place].id for place in essential(events)]
    ids = [event.id for event in every]
    there = {event.id for event in read.events}
    lacking = [one for one in needed if one not in there]
    assert not lacking, f"a read lacks {lacking}"
    assert [event.id for event in read.events] == [one for one in ids if one in there], "not in their order"


async def kept_in_windows(service: Service) -> set[str]:
    """Return the names of events whose texts are in windows of segments, also where no read looks."""
    documents = await documents_below(service, "adk_apps/app")
    packed = [window for one in documents if isinstance(window := one.fields.get("window"), bytes)]
    return {name for each in packed for text in unpack_segment(each) for name in TEXT.findall(text)}


async def kept_in_archives(store: Store) -> set[str]:
    """Return the names of the events whose texts are in the bucket."""
    objects = store.sessions.storage.payloads.objects
    assert objects is not None
    kept: set[str] = set()
    for name in await objects.names("", delimiter=None):
        found = await objects.read(name, generation=None)
        assert found is not None
        kept |= {*TEXT.findall(found[0].decode())}
    return kept


def comes_late(world: World) -> bool:
    """Return whether an object may be made anew after a redaction: Cloud Storage cannot know it."""
    made = [line for line in world.trace if ": create object " in line]
    return any(line.endswith((f"- {Fate.LATE}", f"- {Fate.TWICE}")) for line in made)


async def scenario(world: World) -> None:
    """A fleet appends turns and summaries, and each of its processes begins without a window.

    It archives old events, and the collector takes no archive that is needed.
    """
    options: dict[str, Any] = {
        "session_limits": LIMITS,
        "on_conflict": "merge",
        "history": "since_compaction",
    }
    fleet = Fleet(world, **options)
    service, plain = fleet.service, fleet.plain
    await plain.sessions.create_session(**key("one"))

    async def read_early() -> None:
        """Let the process that collects know segments before they are archived."""
        await asyncio.sleep(5)
        await compare(plain)

    await asyncio.gather(fleet.work(40, act), read_early())
    await asyncio.sleep(120)
    for fresh in (plain, service.beside(**options)):
        await compare(fresh)
    redacted = {call.given for call in fleet.journal.of("redact") if call.outcome is Outcome.DONE}
    if all(call.outcome is Outcome.DONE for call in fleet.journal.of("archive")) and not comes_late(world):
        left = redacted & (await kept_in_windows(service) | await kept_in_archives(plain))
        assert not left, f"before the collector runs, something keeps {left}"
    await asyncio.sleep(2 * 3600)
    for garbage in [each async for each in plain.find_garbage(older_than_s=3600)]:
        assert await plain.remove_garbage(garbage), garbage
    proof = await plain.verify_session(**key("one"))
    assert proof.broken is None, proof.broken
    await require_sound(plain, older_than_s=HOUR_S)
    damaged = [call for call in fleet.journal.calls if call.error == "StoredDataError"]
    assert not damaged, damaged
    kept = await kept_in_windows(service) | await kept_in_archives(plain)
    for call in fleet.journal.of("redact"):
        assert call.outcome is not Outcome.DONE or call.given not in kept, "a window or an archive keeps it"


def test_a_read_since_the_newest_summary_lacks_nothing_that_adk_needs() -> None:
    """Each process reads what the newest segment keeps, or all segments.

    With seed 49, a restore removes a segment that a redaction is about to read. With seed 232, a summary is
    redacted whose own segment keeps a window that it shortened. With seed 745, a restore comes after an
    archive whose answer is lost.
    """
    simulate(scenario, seeds=[*range(at_length(2, 8)), 49, 232, 745], faults=Faults.all(0.03))
