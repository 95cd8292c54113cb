"""Large state leaves the event loop to others while it is encoded, stored, read and listed."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gcp_adk_store import InvalidInputError, SessionService
from gcp_adk_store.testing.conformance.running import event
from tests.services.conftest import APP, SESSION, USER, WHO
from tests.support.loop_work import LoopWork, Turns, counted_steps

pytestmark = pytest.mark.emulators

SESSIONS = 60

MOST_CALLS = 65_000
"""In one step of the event loop: 15,000 fields of a document take 4 each."""
MOST_CHARACTERS = 400_000
"""Of a text that is read, written or compressed in one step."""


def require_short_steps(work: LoopWork) -> None:
    """Check the longest step of the event loop."""
    assert work.calls < MOST_CALLS
    assert work.characters < MOST_CHARACTERS


KEYS = {f"k{number}": number for number in range(40_000)}
NUMBERS = list(range(200_000))


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "state",
    [{"big": KEYS}, {"user:big": NUMBERS}, {f"k{number}": number for number in range(15_000)}],
    ids=["many keys in a value", "many numbers", "15,000 small values"],
)
async def test_large_state_leaves_the_loop_to_others(sessions: SessionService, state: dict[str, Any]) -> None:
    """Given to a new session or to an append, read, and listed; all that is returned is equal."""
    with counted_steps() as work:
        made = await sessions.create_session(**WHO, state=state)
        read = await sessions.get_session(**WHO)
        listed = await sessions.list_sessions(app_name=APP, user_id=USER)
        held = await sessions.create_session(app_name=APP, user_id=f"{USER}2", session_id=SESSION)
        await sessions.append_event(held, event("large", delta=state))
        again = await sessions.get_session(app_name=APP, user_id=f"{USER}2", session_id=SESSION)

    require_short_steps(work)
    assert state == made.state == held.state
    assert [made.state] == [one.state for one in listed.sessions]
    assert (made, held) == (read, again)


async def test_an_event_with_many_values_leaves_the_loop_to_others(sessions: SessionService) -> None:
    """Beyond its change of state."""
    held = await sessions.create_session(**WHO)
    said = event("large")
    said.custom_metadata = KEYS
    with counted_steps() as work:
        await sessions.append_event(held, said)
        read = await sessions.get_session(**WHO)

    require_short_steps(work)
    assert work.apart_characters > MOST_CHARACTERS
    assert held == read
    assert KEYS == held.events[0].custom_metadata


async def test_many_sessions_are_listed_beside_others(
    sessions: SessionService, ticking: Callable[[float], object]
) -> None:
    """On a machine that takes its whole share of time for each of them, others run between any two."""
    half = SESSIONS // 2
    await asyncio.gather(
        *(
            sessions.create_session(app_name=APP, user_id=f"{number % 2 * number}", session_id=f"{number}")
            for number in range(SESSIONS)
        )
    )
    turns = Turns()

    async def turns_beside(user_id: str | None) -> tuple[int, list[float]]:
        before = turns.count
        listed = await sessions.list_sessions(app_name=APP, user_id=user_id)
        return turns.count - before, [one.last_update_time for one in listed.sessions]

    ticking(0.01)
    others = asyncio.create_task(turns.run())
    mine, times = await turns_beside("0")
    assert half == len(times)
    assert mine >= half
    everybodys, times = await turns_beside(None)
    others.cancel()

    assert SESSIONS == len(times)
    assert everybodys >= SESSIONS
    assert sorted(times) == times


async def test_more_small_values_than_a_document_takes_are_refused_before_anything_is_sent(
    sessions: SessionService, raw_documents: Any
) -> None:
    """With the scope, the size and Firestore's limit."""
    held = await sessions.create_session(**WHO)
    before = raw_documents()
    many = {f"{'k' * 30}{number}": number for number in range(30_000)}
    with pytest.raises(InvalidInputError, match=r"session state takes at least \d+ bytes .* 1048576"):
        await sessions.append_event(held, event("a", delta=many))
    with pytest.raises(InvalidInputError, match=r"user state takes at least \d+ bytes .* 1048576"):
        await sessions.create_session(
            app_name=APP, user_id=USER, session_id=f"{SESSION}2", state={f"user:{k}": 1 for k in many}
        )

    assert before == raw_documents()
