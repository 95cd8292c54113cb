"""What a redaction replaced is never read again, and titles and labels are those that were set."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, Final

import pytest
from google.adk.events import Event
from google.adk.sessions import Session
from google.genai import types

from gcp_adk_store import Store
from gcp_adk_store.testing.simulation import Faults, World, simulate
from tests.simulation.checkers import check_list
from tests.simulation.fleet import LIMITS, Actor, Fleet, key
from tests.simulation.journal import Journal, Outcome
from tests.simulation.keys import envelope_of
from tests.simulation.raw import require_sound, require_whole
from tests.support.lengths import at_length

TEXT: Final = "only in the text"
ANCHORS: Final = "anchors"
"""A bucket of its own."""


def seen(session: Session | None) -> list[tuple[str, bool]] | None:
    """Return the ids of a session's events, each with whether its text is there; not the store's own."""
    if session is None:
        return None
    return [(event.id, TEXT in event.model_dump_json()) for event in session.events if event.author == "user"]


async def act(actor: Actor, step: int) -> None:
    """Append, read, redact, or describe."""
    random, sessions = actor.random(step), actor.store.sessions
    name = f"{actor.name}-{step}"
    held: Session | None = actor.memory.get("held")
    if held is None or actor.journal.is_busy or random.random() < 0.3:
        held = actor.memory["held"] = await actor.read("one", seen=seen)
    if held is None:
        return
    action = random.choice(["append", "append", "append", "again", "redact", "title", "label"])
    mine = [event.id for event in held.events if event.author == "user"]
    if action == "redact" and mine:
        event_id = random.choice(mine)
        redact = partial(actor.store.redact_event, **key("one"), event_id=event_id, reason="asked for")
        await actor.call("redact", "one", redact, given=event_id)
        actor.memory.pop("held", None)
    elif action in ("title", "label"):
        info: dict[str, Any] = {"title": name} if action == "title" else {"labels": {name: "set"}}
        update = partial(sessions.update_session_info, **key("one"), **info)
        await actor.call(action, "one", update, given=name)
    elif action == "again" and actor.memory.get("said"):
        event = random.choice(actor.memory["said"]).model_copy(deep=True)
        await actor.call("again", "one", lambda: sessions.append_event(held, event), given=event.id)
        actor.memory.pop("held", None)
    else:
        parts = [types.Part(text=f"{TEXT} {name} " + "." * random.choice([0, 900, 5_000]))]
        if random.random() < 0.5:  # equal content is one payload, whichever events refer to it
            parts.append(types.Part.from_bytes(data=b"the same" * 200, mime_type="image/png"))
        event = Event(id=name, author="user", content=types.Content(role="user", parts=parts))
        said = event.model_copy(deep=True)
        if await actor.append(held, event, seen=bool) is None:
            actor.memory.pop("held", None)
        else:
            actor.memory.setdefault("said", []).append(said)


async def look_on(actor: Actor, kind: str) -> None:
    """Anchor the session again and again, or verify it by its anchors, until this is cancelled."""
    store, ids = actor.store, key("one")
    works: dict[str, Callable[[], Awaitable[Any]]] = {
        "anchor": lambda: store.anchor(**ids, anchors=ANCHORS),
        "verify": lambda: store.verify_session(**ids, anchors=ANCHORS),
    }
    for step in count():
        await asyncio.sleep(actor.random(step).uniform(0, 4))
        await actor.call(kind, "one", works[kind])


def check_proofs(journal: Journal, ids: Sequence[str]) -> None:
    """Check that no proof finds a break, and that each has what was stored before an earlier anchor."""
    places = {one: place for place, one in enumerate(ids)}
    for proof in journal.of("verify"):
        if proof.outcome is not Outcome.DONE:
            continue
        found = proof.result
        assert found.broken is None, f"an honest history is called broken: {found.broken}"
        anchors = [one for one in journal.of("anchor") if one.outcome is Outcome.DONE]
        since = max((one.begun for one in anchors if one.ended < proof.begun), default=0.0)
        for call in journal.calls:
            if call.outcome is Outcome.DONE and call.ended < since and call.kind in ("append", "redact"):
                assert places[call.given] < found.anchored, f"no anchor proves {call.given}"
                marks = [one.is_anchored for one in found.redacted if one.event_id == call.given]
                assert call.kind == "append" or marks == [True], (
                    f"no anchor proves what redacted {call.given}"
                )


async def scenario(world: World, **options: Any) -> None:
    """A fleet whose stores have *options*."""
    fleet = Fleet(world, session_limits=LIMITS, **options)
    plain, journal = fleet.plain, fleet.journal
    await plain.sessions.create_session(**key("one"))
    looking: list[asyncio.Future[None]] = []
    for kind in ("anchor", "verify", "anchor"):
        onlooker = fleet.onlooker(f"{kind} {len(looking)}")
        looking.append(onlooker.process.start(look_on, onlooker, kind))
    await fleet.work(30, act)
    for each in looking:
        each.cancel()
    await asyncio.sleep(120)
    require_whole(journal)
    await fleet.end.read("one", seen=seen)
    reads = [call for call in journal.of("read") if call.outcome is Outcome.DONE and call.result]
    redacts = [call for call in journal.of("redact") if call.outcome is not Outcome.REFUSED]
    for read in reads:
        for call in redacts:
            if call.outcome is Outcome.DONE and call.ended < read.begun:
                assert (call.given, True) not in read.result, f"{call.given} was redacted, and is read"
        for name, is_there in read.result:
            is_asked = any(call.given == name and call.begun < read.ended for call in redacts)
            assert is_there or is_asked, f"{name} has lost its text"
        read.result = [name for name, _ in read.result]
    check_list(reads[-1].result if reads else [], journal.of("append"), reads)
    await check_info(fleet, plain)
    await plain.anchor(**key("one"), anchors=ANCHORS)
    proof = await plain.verify_session(**key("one"), anchors=ANCHORS)
    assert (proof.broken, proof.anchored) == (None, proof.events), "the end is not proven"
    check_proofs(journal, [event.id for event in (await fleet.stored("one")).events])
    await require_sound(plain)


async def check_info(fleet: Fleet, plain: Store) -> None:
    """Check that each label is there, and that the title is one that nobody set again later.

    A redaction removes a title that repeats a text of its event: p3-2 is the beginning of p3-29.
    """
    info = await plain.sessions.get_session_info(**key("one"))
    assert info is not None
    for call in fleet.journal.of("label"):
        if call.outcome is not Outcome.UNKNOWN:
            is_done = call.outcome is Outcome.DONE
            assert (call.given in info.labels) == is_done, f"label {call.given}: {call.outcome}"
    titles = [call for call in fleet.journal.of("title") if call.outcome is not Outcome.REFUSED]
    for call in titles:
        if call.given == info.title:
            later = [one for one in titles if one.outcome is Outcome.DONE and one.begun > call.ended]
            assert call.outcome is Outcome.UNKNOWN or not later, f"{call.given} came back"
    done = [call for call in titles if call.outcome is Outcome.DONE]
    redactions = [call for call in fleet.journal.of("redact") if call.outcome is not Outcome.REFUSED]
    is_removed = any(call.result is None or call.result.title_removed for call in redactions)
    assert info.title in [call.given for call in titles] or not done or (is_removed and info.title is None)


@pytest.mark.parametrize("on_conflict", ["raise", "merge"])
def test_what_was_redacted_is_never_read_again(on_conflict: str) -> None:
    """Nor does it take an event, an order, a title or a label with it."""
    # 96: a redaction asked for again removed content that an append had found stored.
    seeds = [*range(at_length(2, 10)), 96]
    simulate(partial(scenario, on_conflict=on_conflict), seeds=seeds, faults=Faults.all(0.03))


def test_what_was_redacted_in_an_encrypted_store_is_never_read_again() -> None:
    """The same, where each process has data keys of its own in memory."""
    encrypted = partial(scenario, on_conflict="merge", encryption=envelope_of(bytes(32)))
    simulate(encrypted, seeds=range(at_length(3, 10)), faults=Faults.all(0.03))
