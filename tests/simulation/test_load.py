"""More calls than permits, callers that give up, and servers that do not answer, in every order."""

import asyncio
from functools import partial
from typing import Final

from google.adk.sessions import Session

from gcp_adk_store import SessionLimits
from gcp_adk_store.testing.simulation import Faults, World, simulate
from tests.simulation.checkers import check_handles, check_list
from tests.simulation.events import event_of, ids_of
from tests.simulation.fleet import Actor, Fleet, key
from tests.simulation.journal import Call, Journal, Outcome
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
    random, journal = actor.random(step), actor.journal
    session, name = random.choice(SESSIONS), f"{actor.name}-{step}"
    match random.choice(["burst", "append", "append", "append"]):
        case "burst":
            await asyncio.gather(*(read(actor, session, kind="burst") for _ in range(BURST)))
        case _:
            held: Session | None = actor.memory.pop(session, None) or await read(actor, session, kind="read")
            if held is None:
                return
            tasks = [
                asyncio.create_task(actor.append(held, event_of(f"{name}{part}")))
                for part in "abc"[: random.choice([1, 3])]
            ]
            is_given_up = random.random() < 0.6
            if is_given_up:
                await asyncio.sleep(random.choice([0, random.uniform(0, 0.1), random.uniform(0, 3)]))
                random.choice(tasks).cancel()
            await asyncio.wait(tasks)
            await actor.call("flush", "all", actor.store.sessions.flush)
            # What nobody awaits any more is over: the handle is as storage is.
            settled = partial(asyncio.sleep, 0)
            await actor.call("settled", session, settled, given=held, seen=lambda _: ids_of(held))
            if all(
                call.outcome is Outcome.DONE for call in journal.of("append") if call.given.startswith(name)
            ):
                actor.memory[session] = held


async def read(actor: Actor, session: str, *, kind: str) -> Session | None:
    """Read a session."""
    get = partial(actor.store.sessions.get_session, **key(session))
    return await actor.call(kind, session, get, seen=ids_of)


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
    fleet = Fleet(world, session_limits=LIMITS)
    for session in SESSIONS:
        await fleet.plain.sessions.create_session(**key(session))
    await fleet.work(24, act, rest_s=200)
    check_bursts(fleet.journal)
    check_deadlines(fleet.journal, {name for name, fate in fleet.fates.items() if fate != "stopped"})
    for session in SESSIONS:
        ids = [event.id for event in (await fleet.stored(session)).events]
        journal = fleet.journal
        check_list(ids, journal.of("append", session), [])
        check_handles(ids, journal.of("settled", session), merging=False)


def test_more_calls_than_permits_wait_or_are_refused_at_once() -> None:
    """Each ends at its deadline, and what was given up is stored and in its handle, or neither."""
    simulate(scenario, seeds=range(at_length(3, 12)), faults=Faults.all(0.04))
