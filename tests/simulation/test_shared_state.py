"""The state of apps and users is a replay of what several sessions append at once."""

from dataclasses import replace
from functools import partial
from typing import Any, Final

from google.adk.events import Event, EventActions
from google.adk.sessions import Session

from gcp_adk_store.testing.simulation import Faults, World, simulate
from tests.simulation.checkers import check_register
from tests.simulation.fleet import Actor, Fleet, key
from tests.simulation.journal import Call, Outcome
from tests.support.lengths import at_length

USERS: Final = ("ann", "bob")
SESSIONS: Final = ("one", "two")


def shared_in(session: Session | None) -> dict[str, Any]:
    """Return the part of a session's state that other sessions have, too."""
    state = {} if session is None else session.state
    return {name: value for name, value in state.items() if name.startswith(("app:", "user:"))}


async def act(actor: Actor, step: int) -> None:
    """Read a session, or append to it a change of the state that it shares."""
    random = actor.random(step)
    user, session = random.choice(USERS), random.choice(SESSIONS)
    of, name = f"{user}/{session}", f"{actor.name}-{step}"
    sessions = actor.store.sessions
    held = actor.memory.get(of)
    action = random.choice(["read", "append", "append", "append"])
    if held is None or action == "read":
        get = partial(sessions.get_session, **key(session, user))
        held = await actor.call("read", user, get, seen=shared_in)
    if held is not None and action == "append":
        scopes = random.choice([("app",), ("user",), ("app", "user")])
        delta = {f"{scope}:{each}": name for scope in scopes for each in (name, "last")}
        event = Event(id=name, author="user", actions=EventActions(state_delta=delta))
        append = partial(sessions.append_event, held, event)
        held = held if await actor.call("append", of, append, given=delta) else None
    actor.memory[of] = held


async def scenario(world: World) -> None:
    """Let a fleet change the state that sessions share, and replay what is stored."""
    fleet = Fleet(world, on_conflict="merge")
    sessions, journal = fleet.plain.sessions, fleet.journal
    for user in USERS:
        for session in SESSIONS:
            await sessions.create_session(**key(session, user))
    await fleet.work(40, act, rest_s=300)
    stored: dict[str, list[dict[str, Any]]] = {}
    for user in USERS:
        for session in SESSIONS:
            get = partial(sessions.get_session, **key(session, user))
            found = await journal.call("plain", "read", user, get, seen=shared_in)
            assert found is not None
            stored[f"{user}/{session}"] = [event.actions.state_delta for event in found.events]
    _check_replay(list(journal.of("read")), stored)
    for user in USERS:
        _check_scopes(user, list(journal.of("append")), list(journal.of("read", user)))


def _check_replay(reads: list[Call], stored: dict[str, list[dict[str, Any]]]) -> None:
    """Check the state at the end: each change of a stored event, and the last of some session's."""
    for user in USERS:
        final = [read for read in reads if read.of == user][-1].result
        of_user = [deltas for of, deltas in stored.items() if of.startswith(f"{user}/")]
        for scope, lists in (("app:", [*stored.values()]), ("user:", of_user)):
            changes = [
                [{name: each[name] for name in each if name.startswith(scope)} for each in deltas]
                for deltas in lists
            ]
            all_of_it = {name for deltas in changes for each in deltas for name in each}
            assert {name for name in final if name.startswith(scope)} == all_of_it, "state is not its events'"
            last = [[each[f"{scope}last"] for each in deltas if each] for deltas in changes]
            ends = {values[-1] for values in last if values}
            assert not ends or final[f"{scope}last"] in ends, "the last change of each session was replaced"


def _check_scopes(user: str, appends: list[Call], reads: list[Call]) -> None:
    """Check every read: no acknowledged key is missing, no refused one is there, and the newest counts."""
    reads = [read for read in reads if read.outcome is Outcome.DONE]
    for scope in ("app:", "user:"):
        writes = [
            replace(call, given=call.given[f"{scope}last"], result=None)
            for call in appends
            if f"{scope}last" in call.given and (scope == "app:" or call.of.startswith(f"{user}/"))
        ]
        values = [replace(read, result=read.result.get(f"{scope}last")) for read in reads]
        check_register(None, writes, values)
        for write in writes:
            name = f"{scope}{write.given}"
            for read in reads:
                if name in read.result:
                    assert write.outcome is not Outcome.REFUSED, f"{name} was refused with {write.error}"
                elif write.outcome is Outcome.DONE:
                    assert write.ended >= read.begun, f"a read at {read.begun:.3f} missed {name}"


def test_no_key_of_the_state_of_apps_and_users_is_lost() -> None:
    """Several sessions change one state at once: each change is there, and the last one counts."""
    simulate(scenario, seeds=range(at_length(4, 20)), faults=Faults.all(0.04))
