"""Sessions keep their promises while several processes write to them, in every order."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from random import Random
from typing import Any, Final

import pytest
from google.adk.events import Event
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import GetSessionConfig

from gcp_adk_store import Store
from gcp_adk_store.testing.simulation import Faults, World, simulate
from tests.simulation.checkers import check_handles, check_list, check_patience, check_windows
from tests.simulation.events import event_of, ids_of
from tests.simulation.fleet import LIMITS, Actor, Fleet, key
from tests.simulation.journal import Call, Journal, Outcome
from tests.simulation.raw import require_sound
from tests.support.lengths import at_length

SESSIONS: Final = ("one", "two")


def made_in(actor: Actor, step: int, random: Random, part: str = "") -> Event:
    """Return the event of a step, with a change of state in each scope."""
    name = f"{actor.name}-{step}{part}"
    size = random.choice([0, 50, 400, 4_000])
    picture = random.randbytes(800) if random.random() < 0.15 else b""
    delta = {f"key {random.randrange(3)}": name, f"user:{random.randrange(2)}": name, "app:last": name}
    if random.random() < 0.1:
        delta["large"] = name * 100
    event = event_of(name, size, picture, **delta)
    event.invocation_id = name
    return event


async def prepare(plain: Store) -> None:
    """Make the sessions."""
    for session in SESSIONS:
        await plain.sessions.create_session(**key(session))


async def act(actor: Actor, step: int) -> None:
    """Read, append alone or several at once, or list."""
    random, sessions = actor.random(step), actor.store.sessions
    session = random.choice(SESSIONS)
    action = random.choice(["read", "window", "append", "append", "append", "group", "list", "title"])
    if action == "read":
        await actor.read(session)
    elif action == "window":
        newest = random.choice([0, 1, 5])
        config = GetSessionConfig(num_recent_events=newest)
        get = partial(sessions.get_session, **key(session), config=config)
        held = actor.memory[session] = await actor.call("window", session, get, given=newest, seen=ids_of)
        actor.memory.setdefault("windows", {})[id(held)] = held
    elif action == "list":
        list_them = partial(sessions.list_sessions, app_name="app", user_id="user")
        listed = await actor.call("list", "all", list_them)
        assert listed is None or {one.id for one in listed.sessions} == set(SESSIONS)
    elif action == "title":
        name = f"{actor.name}-{step}"
        update = partial(sessions.update_session_info, **key(session), title=name)
        await actor.call("title", session, update, given=name)
    else:
        held = actor.memory.get(session)
        if held is None or random.random() < 0.3:
            held = actor.memory[session] = await actor.read(session)
        if held is not None:
            parts = ["a", "b", "c"] if action == "group" else [""]
            events = [made_in(actor, step, random, part) for part in parts]
            await asyncio.gather(*(append(actor, held, event) for event in events))


async def look_on(actor: Actor) -> None:
    """Read what is in all sessions in other ways than those of :func:`act`, until it is cancelled."""
    sessions = actor.store.sessions
    ids: dict[str, Any] = {"app_name": "app", "user_id": "user"}

    async def pages() -> dict[str, int]:
        counts: dict[str, int] = {}
        cursor: str | None = None
        while True:
            page = await sessions.list_sessions_page(**ids, page_size=1, order="oldest", cursor=cursor)
            counts |= {info.session_id: info.events for info in page.infos}
            if (cursor := page.next_cursor) is None:
                return counts

    async def usage() -> dict[str, int]:
        return {one: (await sessions.get_session_usage(**key(one))).events for one in SESSIONS}

    async def events() -> dict[str, list[str]]:
        found: dict[str, list[str]] = {one: [] for one in SESSIONS}
        async for each in sessions.iter_user_events(**ids):
            found[each.session_id].append(each.event.id)
        return found

    for step in count():
        random = actor.random(step)
        await asyncio.sleep(random.uniform(0, 2))
        await actor.call("look", "all", random.choice([pages, usage, events]))


def reads_of(session: str, looks: Iterable[Call], ids: Sequence[str]) -> list[Call]:
    """Return what *looks* saw of a session as reads; a number of events stands for so many of *ids*.

    A session that a clock which is behind updates between two pages may be on neither.
    """
    reads = []
    for call in looks:
        if call.outcome is Outcome.DONE and session in call.result:
            seen = call.result[session]
            reads.append(replace(call, result=list(ids[:seen]) if isinstance(seen, int) else seen))
    return reads


async def append(actor: Actor, held: Session, event: Event) -> None:
    """Append *event*; a handle that conflicts is read again at the next step."""
    is_whole = id(held) not in actor.memory.get("windows", ())
    if not await actor.append(held, event, seen=lambda _: ids_of(held) if is_whole else None):
        actor.memory.pop(held.id, None)


async def check(journal: Journal, plain: Store, *, merging: bool) -> None:
    """Check each session: its order, its state, its segments and its chain."""
    shared: dict[str, str] = {}
    for session in SESSIONS:
        stored = await plain.sessions.get_session(**key(session))
        assert stored is not None
        ids = [event.id for event in stored.events]
        looks = reads_of(session, journal.of("look"), ids)
        check_list(ids, journal.of("append", session), [*journal.of("read", session), *looks])
        check_windows(ids, journal.of("window", session))
        check_handles(ids, journal.of("append", session), merging=merging)
        state: dict[str, Any] = {}
        for event in stored.events:
            state |= {name: value for name, value in event.actions.state_delta.items() if ":" not in name}
        assert {name: value for name, value in stored.state.items() if ":" not in name} == state
        shared |= {name: value for name, value in stored.state.items() if ":" in name}
        proof = await plain.verify_session(**key(session))
        assert proof.broken is None, proof.broken
        named = [call for call in journal.of("title", session) if call.outcome is not Outcome.REFUSED]
        info = await plain.sessions.get_session_info(**key(session))
        assert info is not None
        title = info.title
        is_named = any(call.outcome is Outcome.DONE for call in named)
        assert title in [call.given for call in named] or (title is None and not is_named)
    await require_sound(plain)


async def scenario(world: World, **options: Any) -> None:
    """A fleet whose stores have *options*."""
    fleet = Fleet(world, session_limits=LIMITS, **options)
    await prepare(fleet.plain)
    onlooker = fleet.onlooker("onlooker")
    looking = onlooker.process.start(look_on, onlooker)
    await fleet.work(30, act)
    looking.cancel()
    await asyncio.sleep(200)  # what is late arrives
    check_patience(fleet.journal.calls, deadline_s=LIMITS.deadline_s)
    await check(fleet.journal, fleet.plain, merging=options.get("on_conflict") == "merge")


@pytest.mark.parametrize("on_conflict", ["raise", "merge"])
def test_a_session_is_one_list_of_events_for_all_processes(on_conflict: str) -> None:
    """What is acknowledged is stored once and in order, what is refused never, whatever happens meanwhile."""
    seeds = range(at_length(4, 20))
    simulate(partial(scenario, on_conflict=on_conflict), seeds=seeds, faults=Faults.all(0.03))
