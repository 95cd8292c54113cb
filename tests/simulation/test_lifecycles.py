"""Sessions that are created, deleted, created again and expire keep apart, in every order."""

import asyncio
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import pytest
from google.adk.events import Event
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import ListSessionsResponse

from gcp_adk_store import Store
from gcp_adk_store.testing.simulation import Faults, Service, World, simulate
from tests.simulation.events import event_of, ids_of, nothing
from tests.simulation.fleet import LIMITS, Actor, Fleet, key
from tests.simulation.journal import Call, Journal, Outcome
from tests.simulation.keys import envelope_of
from tests.simulation.raw import HOUR_S, documents_below, objects_of, require_collected, require_whole
from tests.simulation.resent import may_arrive_again
from tests.support.lengths import at_length

SESSIONS: Final = ("one", "two")
TTL_S: Final = 30
LATE_S: Final = 120.0
"""Seconds after which nothing of a call that ended without an answer arrives any more."""


async def act(actor: Actor, step: int) -> None:
    """Create, delete, read, list or append."""
    random, sessions = actor.random(step), actor.store.sessions
    session = random.choice(SESSIONS)
    name = f"{actor.name}-{step}"
    match random.choice(["create", "create", "delete", "read", "list", "append", "append", "append", "rest"]):
        case "create":
            state = {"born": name, "large": name * 60, f"user:c {name}": 1}
            ttl_s = random.choice([None, TTL_S])
            create = partial(sessions.create_session, **key(session), state=state, ttl_seconds=ttl_s)
            made = await actor.call("create", session, create, given=(name, ttl_s), seen=nothing)
            actor.memory[session] = made
        case "delete":
            await actor.call("delete", session, lambda: sessions.delete_session(**key(session)))
        case "read":
            actor.memory[session] = await actor.read(session, seen=life_in)
        case "list":
            list_them = partial(sessions.list_sessions, app_name="app", user_id="user")
            listed = await actor.call("list", "", list_them, seen=lives_in)
            assert listed is None or {one.id for one in listed.sessions} <= set(SESSIONS)
        case "rest":
            await asyncio.sleep(random.uniform(0, TTL_S))
        case _:
            held: Session | None = actor.memory.get(session)
            if held is None:
                held = actor.memory[session] = await actor.read(session, seen=life_in)
            if held is not None and await append(actor, held, name) is None and random.random() < 0.7:
                actor.memory.pop(session, None)  # others keep a handle of what may be gone


def life_in(session: Session | None) -> tuple[str, list[str] | None] | None:
    """Return whose a session is, by what it was created with, and the ids of its events."""
    return None if session is None else (session.state["born"], ids_of(session))


def lives_in(listed: ListSessionsResponse) -> dict[str, str]:
    """Return whose each listed session is."""
    return {one.id: one.state["born"] for one in listed.sessions}


async def append(actor: Actor, held: Session, name: str) -> Event | None:
    """Append an event that changes the user's state, too."""
    event = event_of(name, 900, **{f"user:a {name}": 1, "large": name * 60})
    return await actor.append(held, event, given=(held.state["born"], name))


@dataclass(slots=True)
class Life:
    """One session of an id, from its creation to its end."""

    create: Call
    appends: list[Call] = field(default_factory=list)
    seen: list[Call] = field(default_factory=list)

    @property
    def born(self) -> str:
        """The name of its creation."""
        return str(self.create.given[0])

    @property
    def ttl_s(self) -> float:
        """Its time to live."""
        return self.create.given[1] or math.inf

    def known_at(self) -> float:
        """Return the first time at which a caller knew of it."""
        known = [self.create, *self.appends, *self.seen]
        return min((call.ended for call in known if call.outcome is Outcome.DONE), default=math.inf)

    def may_expire_at(self, before: float) -> float:
        """Return when it may expire at the earliest, by what was acknowledged *before*."""
        done = [call for call in (self.create, *self.appends) if call.outcome is Outcome.DONE]
        return max((call.begun for call in done if call.ended <= before), default=0.0) + self.ttl_s

    def has_expired_at(self) -> float:
        """Return when it has expired at the latest; times of the store are whole seconds."""
        wrote = [call for call in (self.create, *self.appends) if call.outcome is not Outcome.REFUSED]
        last = max(call.ended + (0 if call.outcome is Outcome.DONE else LATE_S) for call in wrote)
        return last + self.ttl_s + 2


def lives_of(journal: Journal, session: str) -> dict[str, Life]:
    """Return the lives of an id, by the names of their creations, with those who wrote to or saw each."""
    lives = {call.given[0]: Life(call) for call in journal.of("create", session)}
    for call in journal.of("append", session):
        lives[call.given[0]].appends.append(call)
    for call in looks(journal, session):
        if call.result is not None:
            lives[call.result[0]].seen.append(call)
    return lives


def looks(journal: Journal, session: str) -> Iterator[Call]:
    """Yield the reads of an id, also those of a listing; they have the name of a life, and perhaps events."""
    yield from (call for call in journal.of("read", session) if call.outcome is Outcome.DONE)
    for call in journal.of("list"):
        if call.outcome is Outcome.DONE:
            born = call.result.get(session)
            result = None if born is None else (born, None)
            yield replace(call, of=session, result=result)


def check_lives(world: World, journal: Journal, session: str) -> None:
    """Check that each life is one list, begins once, and is over for all when it is over.

    A creation whose request arrives again after the session was deleted makes it again: nothing in the
    database says that it was there. Only such lives may come back.
    """
    lives = lives_of(journal, session)
    deletes = [call for call in journal.of("delete", session) if call.outcome is not Outcome.REFUSED]
    found = list(looks(journal, session))
    for life in lives.values():
        if may_arrive_again(world, life.create):
            continue
        check_events(life)
        if life.create.outcome is Outcome.REFUSED:
            assert not life.seen, f"{life.born} was refused with {life.create.error}, and is there"
        for look in found:
            if look.result is not None and look.result[0] == life.born:
                check_presence(life, look, deletes, found)
            elif life.known_at() < look.begun:
                check_absence(life, look, deletes)


def check_events(life: Life) -> None:
    """Check that reads of one life saw beginnings of one list, of events that were appended to it."""
    reads = sorted((call for call in life.seen if call.result[1] is not None), key=lambda c: len(c.result[1]))
    whole: Sequence[str] = reads[-1].result[1] if reads else []
    possible = {call.given[1] for call in life.appends if call.outcome is not Outcome.REFUSED}
    assert len({*whole}) == len(whole), "an event is stored twice"
    assert {*whole} <= possible, f"{life.born} has events that nobody appended to it"
    for look in reads:
        seen = look.result[1]
        assert seen == whole[: len(seen)], "two orders of one life"
        missed = [
            call.given[1]
            for call in life.appends
            if call.outcome is Outcome.DONE and call.ended < look.begun and call.given[1] not in seen
        ]
        assert not missed, f"a read at {look.begun:.3f} missed {missed}"


def check_presence(life: Life, look: Call, deletes: Sequence[Call], found: Sequence[Call]) -> None:
    """Check that a life that was seen was not over before."""
    for delete in deletes:
        is_over = delete.outcome is Outcome.DONE and life.known_at() < delete.begun
        assert not (is_over and delete.ended < look.begun), f"{life.born} was deleted, and is there"
    assert look.begun <= life.has_expired_at(), f"{life.born} has expired, and is there"
    for other in found:
        was_gone = life.known_at() < other.begun and other.ended < look.begun
        is_same = other.result is not None and other.result[0] == life.born
        # One that expires may be gone for all until an append lands that had found it alive.
        was_prolonged = any(call.begun < other.ended and other.begun < call.ended for call in life.appends)
        assert is_same or not was_gone or was_prolonged, (
            f"{life.born} was gone at {other.begun:.3f}, and came back"
        )


def check_absence(life: Life, look: Call, deletes: Sequence[Call]) -> None:
    """Check that a life that was not seen may be over: that it was deleted, or may have expired."""
    for delete in deletes:
        began_before = delete.begun < look.ended
        # A deletion that ended removes nothing that was created after it, also where it arrives late.
        if began_before and life.create.begun < delete.ended:
            return
    assert life.may_expire_at(look.begun) <= look.ended, f"{life.born} is gone without a reason"


def check_user_state(journal: Journal, state: set[str]) -> None:
    """Check that what changed a session changed the user's state with it, and what was refused did not."""
    for call, name in [
        *((call, f"user:c {call.given[0]}") for call in journal.of("create")),
        *((call, f"user:a {call.given[1]}") for call in journal.of("append")),
    ]:
        if call.outcome is Outcome.DONE:
            assert name in state, f"{name} was acknowledged, and is lost"
        if call.outcome is Outcome.REFUSED:
            assert name not in state, f"{name} was refused with {call.error}, and is stored"


async def scenario(world: World, *, pause_s: float = 1.0, **options: Any) -> None:
    """A fleet with pauses of up to *pause_s*, whose stores have *options*."""
    fleet = Fleet(world, pause_s=pause_s, session_limits=LIMITS, **options)
    plain, journal = fleet.plain, fleet.journal
    await fleet.work(40, act, rest_s=LATE_S)
    for session in SESSIONS:
        await fleet.end.read(session, seen=life_in)
    is_whole = not any(may_arrive_again(world, call) for call in journal.of("create"))
    damaged = [call for call in journal.calls if call.error == "StoredDataError"]
    assert not damaged, f"{damaged[0].kind} at {damaged[0].begun:.3f} found damage"
    if is_whole:
        require_whole(journal)
    for session in SESSIONS:
        check_lives(world, journal, session)
    state = await plain.sessions.get_user_state(app_name="app", user_id="user")
    check_user_state(journal, {f"user:{name}" for name in state})
    # A session that was made again may lack payloads, and parts of the one before may be left.
    faults = [fault async for fault in plain.check(full=True, older_than_s=10**9)]
    wrong = [fault for fault in faults if fault.code.startswith("FSCK1")]
    assert not wrong, wrong
    if is_whole:
        await check_rests(fleet.service, plain)


async def check_rests(service: Service, plain: Store) -> None:
    """Check that nothing is left of sessions that are gone, once the collector ran."""
    await asyncio.sleep(48 * HOUR_S)
    await service.expire()
    await require_collected(plain)
    live = {one.id for one in (await plain.sessions.list_sessions(app_name="app", user_id="user")).sessions}
    for document in await documents_below(service, "adk_apps/app/adk_users/user"):
        level, name = document.path.split("/")[4:6]
        assert level != "adk_sessions" or name in live, f"{document.path} is left"
    assert live or not [name for name in await objects_of(service) if "/session" in name]


@pytest.mark.parametrize("on_conflict", ["raise", "merge"])
def test_a_session_never_has_anything_of_an_earlier_one_of_its_id(on_conflict: str) -> None:
    """Nothing lands in a later session, nothing comes back after a deletion, and what expired is gone."""
    seeds = range(240, at_length(246, 252))
    simulate(partial(scenario, on_conflict=on_conflict), seeds=seeds, faults=Faults.all(0.03))


def test_sessions_of_one_id_keep_apart_where_many_calls_meet() -> None:
    """The same, where a process begins its next call at once."""
    dense = partial(scenario, on_conflict="merge", pause_s=0.1)
    simulate(dense, seeds=range(at_length(4, 8)), faults=Faults.all(0.01))


def test_encrypted_sessions_of_one_id_keep_apart() -> None:
    """The same, where each process has data keys of its own in memory."""
    encrypted = partial(scenario, on_conflict="merge", encryption=envelope_of(bytes(32)))
    simulate(encrypted, seeds=range(at_length(3, 10)), faults=Faults.all(0.03))
