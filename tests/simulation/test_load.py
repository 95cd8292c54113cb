"""More calls than permits, callers that give up, and servers that do not answer, in every order."""

import asyncio
from functools import partial
from typing import Final

from google.adk.events import Event
from google.adk.sessions import Session
from google.genai import types

from gcp_adk_store import SessionLimits
from gcp_adk_store.testing.simulation import Faults, Service, World, simulate
from tests.simulation.checkers import check_handles, check_list
from tests.simulation.fleet import Actor, Fleet
from tests.simulation.journal import Call, Journal, Outcome
from tests.simulation.test_sessions import key
from tests.support.lengths import at_length

SESSIONS: Final = ("one", "two")
DEADLINE_S: Final = 6.0
LIMITS: Final = SessionLimits(
    max_in_flight=2, max_waiting=3, rpc_timeout_s=2.0, deadline_s=DEADLINE_S,
    deadlines_s={"append_event": DEADLINE_S, "get_session": DEADLINE_S},
)  # fmt: skip
BURST: Final = 9
"""Calls that begin at once: more than may run and wait."""


async def act(actor: Actor, step: int) -> None:
    """Read in a burst, or append and perhaps give up; then wait for what is under way."""
    random, sessions, journal = actor.random(step), actor.store.sessions, actor.journal
    session, name = random.choice(SESSIONS), f"{actor.name}-{step}"
    match random.choice(["burst", "append", "append", "append"]):
        case "burst":
            await asyncio.gather(*(read(actor, session, kind="burst") for _ in range(BURST)))
        case _:
            held: Session | None = actor.memory.pop(session, None) or await read(actor, session, kind="read")
            if held is None:
                return
            tasks = [
                asyncio.create_task(append(actor, held, f"{name}{part}"))
                for part in "abc"[: random.choice([1, 3])]
            ]
            is_given_up = random.random() < 0.6
            if is_given_up:
                await asyncio.sleep(random.choice([0, random.uniform(0, 0.1), random.uniform(0, 3)]))
                random.choice(tasks).cancel()
            await asyncio.wait(tasks)
            await journal.call(actor.name, "flush", "all", sessions.flush)
            # What nobody awaits any more is over: the handle is as storage is.
            await journal.call(
                actor.name, "settled", session, lambda: asyncio.sleep(0), given=held,
                seen=lambda _: [event.id for event in held.events],
            )  # fmt: skip
            if all(
                call.outcome is Outcome.DONE for call in journal.of("append") if call.given.startswith(name)
            ):
                actor.memory[session] = held


async def read(actor: Actor, session: str, *, kind: str) -> Session | None:
    """Read a session."""
    return await actor.journal.call(
        actor.name, kind, session, lambda: actor.store.sessions.get_session(**key(session)),
        seen=lambda found: found and [event.id for event in found.events],
    )  # fmt: skip


async def append(actor: Actor, held: Session, name: str) -> None:
    """Append an event."""
    event = Event(id=name, author="user", content=types.Content(role="user", parts=[types.Part(text=name)]))
    await actor.journal.call(
        actor.name, "append", held.id, lambda: actor.store.sessions.append_event(held, event), given=name,
        seen=lambda _: None,
    )  # fmt: skip


def check_bursts(journal: Journal) -> None:
    """Check that of calls that begin at once so many are refused at once as may neither run nor wait."""
    bursts: dict[tuple[str, float], list[Call]] = {}
    for call in journal.of("burst"):
        bursts.setdefault((call.process, call.begun), []).append(call)
    for calls in bursts.values():
        refused = [call for call in calls if call.ended == call.begun]
        assert {call.error for call in refused} == {"OverloadedError"}
        assert len(refused) == BURST - LIMITS.max_in_flight - LIMITS.max_waiting, (
            f"{len(refused)} were refused"
        )


def check_deadlines(journal: Journal, punctual: set[str]) -> None:
    """Check that each call of a process that always ran ended at its deadline; clocks may be 1 % slow."""
    for call in journal.calls:
        if call.process in punctual and call.is_over:
            # A flush waits for an append, which waited for its permit; a merge and a seal follow a commit.
            most_s = DEADLINE_S * (3 if call.kind == "flush" else 1) * 1.02
            assert call.ended - call.begun <= most_s, (
                f"{call.kind} at {call.begun:.3f} took {call.ended - call.begun:.3f} s"
            )


async def scenario(world: World) -> None:
    """Let a fleet of processes with few permits work."""
    service = Service(world)
    plain = service.beside()

    for session in SESSIONS:
        await plain.sessions.create_session(**key(session))
    fleet = Fleet(world, service, partial(service.store_of, session_limits=LIMITS))
    await fleet.work(24, act)
    await asyncio.sleep(200)
    check_bursts(fleet.journal)
    check_deadlines(fleet.journal, {name for name, fate in fleet.fates.items() if fate != "stopped"})
    for session in SESSIONS:
        stored = await plain.sessions.get_session(**key(session))
        assert stored is not None
        ids = [event.id for event in stored.events]
        journal = fleet.journal
        check_list(ids, journal.of("append", session), [])
        check_handles(ids, journal.of("settled", session), merging=False)


def test_more_calls_than_permits_wait_or_are_refused_at_once() -> None:
    """Each ends at its deadline, and what was given up is stored and in its handle, or neither."""
    simulate(scenario, seeds=range(at_length(3, 12)), faults=Faults.all(0.04))
