"""Points, forks and restores keep their promises in every order."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest
from google.adk.agents import BaseAgent
from google.adk.events import Event
from google.adk.runners import Runner
from google.adk.sessions import Session
from google.genai import types

from gcp_adk_store import InvalidInputError, Point, Store
from gcp_adk_store.testing.simulation import Faults, World, simulate
from tests.simulation.events import event_of
from tests.simulation.fleet import LIMITS, Actor, Fleet, key
from tests.simulation.journal import Call, Journal, Outcome
from tests.simulation.keys import envelope_of
from tests.simulation.linear import require_order
from tests.simulation.raw import require_collected, require_whole
from tests.support.lengths import at_length

SOURCE: Final = "source"
FORKS: Final = ("fork 1", "fork 2")
FILE: Final[dict[str, Any]] = {"app_name": "app", "user_id": "user", "filename": "notes"}

REWINDS: Final = " rewinds "
"""Between the name of a rewind and the event that it goes back to."""

History = tuple[tuple[str, ...], int]
"""The ids of a session's events, and how many of the first of them are archived."""

NOTHING: Final[History] = ((), 0)

Seen = tuple[tuple[str, ...], tuple[tuple[str, Any], ...]]
"""The ids of a session's events, and its own state."""


def seen(session: Session | None) -> Seen | None:
    """Return what a caller sees of a session."""
    if session is None:
        return None
    state = {name: value for name, value in session.state.items() if ":" not in name}
    return tuple(event.id for event in session.events), tuple(sorted(state.items()))


def delta_of(name: str) -> dict[str, Any]:
    """Return the change of state of the event of a name."""
    return {"last": name, f"key {sum(name.encode()) % 3}": name * (40 if name.endswith("3") else 1)}


def expected(events: Sequence[str], archived: int = 0) -> Seen:
    """Return what a caller must see of a session with *events*, of which some are *archived*.

    A rewind sets the state to that before the event that it goes back to, and other keys to ``None``.
    """
    states: list[dict[str, Any]] = [{"initial": "kept", "key 0": "initial"}]
    for name in events:
        _, is_rewind, target = name.partition(REWINDS)
        now = dict.fromkeys(states[-1]) | states[events.index(target)] if is_rewind else delta_of(name)
        states.append(states[-1] | now)
    return tuple(events[archived:]), tuple(sorted(states[-1].items()))


async def prepare(plain: Store) -> None:
    """Make the source, with an artifact."""
    await plain.sessions.create_session(**key(SOURCE), state={"initial": "kept", "key 0": "initial"})
    await plain.artifacts.save_artifact(**FILE, session_id=SOURCE, artifact=types.Part(text="one"))


class Naming:
    """The sessions of a store, for a runner; the event that it appends gets a name."""

    def __init__(self, store: Store, name: str) -> None:
        self._sessions = store.sessions
        self._name = name
        self._target = name.partition(REWINDS)[2]
        self.before: list[str] = []
        """The ids of the events that the runner read."""
        self.read: Session | None = None

    async def get_session(self, **which: Any) -> Session | None:
        """Return a session, as the runner asks for it; refuse if it does not have what is rewound."""
        self.read = await self._sessions.get_session(**which)
        self.before += [event.id for event in self.read.events] if self.read else []
        if self._target not in self.before:
            raise InvalidInputError("others took the session back, or archived the event")
        return self.read

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append the event, under its name."""
        event.id = event.invocation_id = self._name
        return await self._sessions.append_event(session, event)


async def rewind(actor: Actor, name: str, target: str) -> None:
    """Let ADK's runner rewind the session to before the event *target*, if it still has that."""
    sessions: Any = Naming(actor.store, name)
    runner = Runner(
        app_name="app", agent=BaseAgent(name="a"), session_service=sessions,
        artifact_service=actor.store.artifacts,
    )  # fmt: skip
    rewinding = partial(
        runner.rewind_async, user_id="user", session_id=SOURCE, rewind_before_invocation_id=target
    )
    given = (name, sessions.before)
    await actor.call("rewind", SOURCE, rewinding, given=given, seen=lambda _: seen(sessions.read))


async def act(actor: Actor, step: int, *, rewinds: bool) -> None:
    """Append, read, look at a point, fork, restore, archive, or rewind."""
    random, sessions, store = actor.random(step), actor.store.sessions, actor.store
    name = f"{actor.name}-{step}"
    call = partial(actor.journal.call, actor.name)
    held: Session | None = actor.memory.get("held")
    if held is None or actor.journal.is_busy or random.random() < 0.3:
        held = actor.memory["held"] = await actor.read(SOURCE, seen=seen)
    if held is None:
        return
    if rewinds and held.events and random.random() < 0.15:
        actor.memory.pop("held")
        target = random.choice(held.events).id
        await rewind(actor, f"{name}{REWINDS}{target}", target)
        return
    place = random.randint(0, len(held.events))
    at = Point.position(place)
    if place and random.random() < 0.5:
        at = Point.after_event(held.events[place - 1].id)
    given = (place, held.events[place - 1].id if at != Point.position(place) else None)
    match random.choice(
        ["append", "append", "append", "append", "look", "fork", "restore", "keep", "archive"]
    ):
        case "append":
            event = event_of(name, 700, **delta_of(name))
            event.invocation_id = name
            before = tuple(event.id for event in held.events)
            done = await actor.append(held, event, given=(name, before), seen=lambda _: seen(held))
            if done is None:
                actor.memory.pop("held", None)
        case "look":
            look = partial(sessions.get_session_at, **key(SOURCE), at=at)
            await call("look", SOURCE, look, given=given, seen=seen)
        case "fork":
            target = random.choice([*FORKS, name])
            fork = partial(store.fork_session, **key(SOURCE), at=at, to_session_id=target)
            await call("fork", SOURCE, fork, given=(*given, target), seen=seen)
        case "archive":
            archive = partial(sessions.archive_session, **key(SOURCE), before=at)
            await call("archive", SOURCE, archive, given=given, seen=lambda found: found.events)
        case action:
            keep_as = name if action == "keep" else None
            restore = partial(store.restore_session, **key(SOURCE), at=at, keep_as=keep_as)
            actor.memory["held"] = await call("restore", SOURCE, restore, given=(*given, keep_as), seen=seen)


def kept(events: Sequence[str], given: tuple[Any, ...]) -> tuple[str, ...] | None:
    """Return the events before a point; ``None`` if the session does not have the point."""
    place, name, *_ = given
    if name is not None:
        place = events.index(name) + 1 if name in events else len(events) + 1
    return tuple(events[:place]) if place <= len(events) else None


def happens(history: History, call: Call, *, merging: bool) -> History | None:
    """Return the history of the session after *call*; ``None`` if it cannot happen, or not in this way."""
    events, archived = history
    if call.kind in ("append", "rewind"):
        name, before = call.given
        after = (*events, name)
        _, is_rewind, target = name.partition(REWINDS)
        if name in events or (is_rewind and target not in events):
            return None
        if merging:  # its handle may lack what came before, and have learned what came after
            return after, archived
        is_next = events[len(events) - len(before) :] == tuple(before)
        is_seen = call.result in (None, expected(after, len(events) - len(before)))
        return (after, archived) if is_next and is_seen else None
    past = () if call.kind == "read" else kept(events, call.given)
    if past is None:
        return None
    if call.kind == "restore":
        return past, archived if archived <= len(past) else 0
    is_right = call.result == (expected(events, archived) if call.kind == "read" else expected(past))
    if call.kind == "archive":  # one whose answer is lost also reports what others archived since
        history = events, max(archived, len(past))
        is_right = call.result is not None and call.result >= history[1]
    return history if is_right or call.outcome is not Outcome.DONE else None


async def scenario(world: World, *, rewinds: bool = True, **options: Any) -> None:
    """A fleet whose stores have *options*, and in which ADK's runner may rewind."""
    fleet = Fleet(world, session_limits=LIMITS, **options)
    await prepare(fleet.plain)
    await asyncio.sleep(100)  # it is older than all events, also those of a clock that is behind
    await fleet.work(24, partial(act, rewinds=rewinds), rest_s=120)
    await require_collected(fleet.plain)
    await check(fleet.journal, fleet.plain, merging=options.get("on_conflict") == "merge")


async def check(journal: Journal, plain: Store, *, merging: bool) -> None:
    """Check that one order explains all that anybody saw, and that the history proves itself."""
    get = partial(plain.sessions.get_session, **key(SOURCE))
    await journal.call("end", "read", SOURCE, get, seen=seen)
    require_whole(journal)
    await check_forks(journal, plain)
    require_order(
        [*journal.calls, *reads_of_restores(journal), *cut_off(journal)],
        NOTHING,
        partial(happens, merging=merging),
        reads=("read", "look", "fork"),
    )
    assert (await plain.verify_session(**key(SOURCE))).broken is None


def reads_of_restores(journal: Journal) -> list[Call]:
    """Return what restores returned: the session as it was at their end, with what others appended since."""
    done = [call for call in journal.of("restore") if call.outcome is Outcome.DONE]
    return [replace(call, kind="read") for call in done]


def cut_off(journal: Journal) -> list[Call]:
    """Return the writes that conflict with a restore: it may have cut off what was stored unanswered."""
    restores = [call for call in journal.of("restore") if call.outcome is not Outcome.REFUSED]
    return [
        replace(call, outcome=Outcome.UNKNOWN)
        for kind in ("append", "rewind")
        for call in journal.of(kind)
        if call.error == "SessionConflictError"
        and any(other.begun < call.ended and call.begun < other.ended for other in restores)
    ]


async def check_forks(journal: Journal, plain: Store) -> None:
    """Check that each fork is whole or not there, and let the journal know what became of it."""
    forks = [call for call in journal.of("fork") if call.given[2] not in FORKS]
    for call in [*forks, *(call for call in journal.of("restore") if call.given[2])]:
        target = call.given[2]
        there = await plain.sessions.get_session(**key(target))
        if call.outcome is Outcome.DONE:
            assert there is not None, f"{target} was acknowledged, and is lost"
        elif call.outcome is Outcome.REFUSED and call.kind == "fork":
            assert there is None, f"{target} was refused with {call.error}, and is there"
        if there is None:
            continue
        events = [event.id for event in there.events]
        assert seen(there) == expected(events), f"{target} is not whole"
        if call.kind == "fork" and call.outcome is not Outcome.DONE:
            call.outcome, call.ended, call.result = Outcome.DONE, float("inf"), seen(there)
        elif call.kind == "fork":
            assert seen(there) == call.result, f"{target} has changed"
        part = await plain.artifacts.load_artifact(**FILE, session_id=target, version=0)
        assert part is not None, f"{target} lacks its artifact"
    for target in FORKS:
        made = [c for c in journal.of("fork") if c.given[2] == target and c.outcome is Outcome.DONE]
        assert len(made) <= 1, f"{target} was made by {len(made)} calls"


@pytest.mark.parametrize("on_conflict", ["raise", "merge"])
def test_forks_and_restores_happen_at_one_moment_for_all_readers(on_conflict: str) -> None:
    """One order of appends, rewinds, restores, forks, archives and reads explains all that anybody saw."""
    # Archives that were not answered were repeated after a restore, with events that came later.
    once = {"raise": 621, "merge": 776}[on_conflict]
    # With the last seed, another process appended between the read of a rewind and its commit.
    seeds = [*range(at_length(3, 10)), 636609111]
    simulate(partial(scenario, on_conflict=on_conflict), seeds=seeds, faults=Faults.all(0.03))
    plain = partial(scenario, on_conflict=on_conflict, rewinds=False)
    simulate(plain, seeds=[once], faults=Faults.all(0.03))


def test_forks_and_restores_of_encrypted_sessions_happen_at_one_moment() -> None:
    """The same, where each process has data keys of its own in memory."""
    encrypted = partial(scenario, on_conflict="merge", encryption=envelope_of(bytes(32)))
    simulate(encrypted, seeds=range(at_length(3, 10)), faults=Faults.all(0.03))
