"""With durability="turn" an append returns before its event is stored, and a turn ends when all of it is."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.genai import types

from gcp_adk_store import (
    InvalidInputError,
    SessionConflictError,
    SessionMissingError,
    SessionService,
    Store,
    UnavailableError,
)
from gcp_adk_store.settings import MEMORY
from gcp_adk_store.testing.conformance.running import read
from tests.support.local_commits import before_commits, events_in
from tools.benchmarks.stub_agent import runner, take_turn

WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}


class Commits:
    """The commits of events to a local store: how many each holds, held back or failing on demand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[int] = []
        self.fails: Callable[[int], bool] = lambda _: False
        self.may_go = asyncio.Event()
        self.may_go.set()
        before_commits(monkeypatch, self._see)

    async def _see(self, writes: Sequence[Any]) -> None:
        await self.may_go.wait()
        if found := events_in(writes):
            self.events.append(found[0])
            if self.fails(len(self.events)):
                raise UnavailableError("refused for now; nothing was written")


@pytest.fixture
async def commits(monkeypatch: pytest.MonkeyPatch) -> Commits:
    """The commits of this test."""
    return Commits(monkeypatch)


@pytest.fixture
async def service() -> AsyncIterator[SessionService]:
    """The sessions of a store that waits for the ends of turns alone."""
    async with Store.local(MEMORY, durability="turn") as store:
        yield store.sessions


def step(number: int, **delta: Any) -> Event:
    """Return an event within a turn: a call of a tool."""
    call = types.Part(function_call=types.FunctionCall(name="look", id=f"call{number}"))
    return Event(
        id=f"e{number}",
        author="agent",
        content=types.Content(role="model", parts=[call]),
        actions=EventActions(state_delta=delta),
    )


def final(number: int) -> Event:
    """Return the last event of a turn."""
    content = types.Content(role="model", parts=[types.Part(text="done")])
    return Event(id=f"e{number}", author="agent", content=content)


def ids(session: Session | None) -> list[str]:
    """Return the ids of a session's events."""
    assert session is not None
    return [event.id for event in session.events]


async def test_a_runners_turn_of_six_events_takes_two_commits(
    service: SessionService, commits: Commits
) -> None:
    """While the first is on its way, all others of the turn are made; on a fast line it may be some more."""
    await service.create_session(**WHO)
    commits.may_go.clear()
    speaking = runner(service, app="app", calls=2)
    turn = asyncio.create_task(take_turn(speaking, user="user", session="session"))
    try:
        async with asyncio.timeout(60):
            pending = service._appender._pending._tasks
            while sum(map(len, pending.values())) < 6:  # noqa: ASYNC110  # the runner makes them in this loop
                await asyncio.sleep(0)
    finally:
        commits.may_go.set()
        await turn

    assert [1, 5] == commits.events


async def test_reads_of_the_same_process_see_what_was_appended(service: SessionService) -> None:
    """Of the session, of its user's state, and of listings."""
    session = await service.create_session(**WHO)
    await service.append_event(session, step(0, **{"user:k": 1, "app:k": 2}))

    assert {"k": 1} == await service.get_user_state(app_name="app", user_id="user")
    await service.append_event(session, step(1))
    assert session == await service.get_session(**WHO)
    await service.append_event(session, step(2, **{"app:k": 3}))
    other = await service.create_session(app_name="app", user_id="another")
    assert 3 == other.state["app:k"]


async def test_appends_that_are_requested_at_once_share_the_commit_of_their_session(
    commits: Commits,
) -> None:
    """Also those that could not begin in the same turn of the event loop."""
    async with Store.local(MEMORY) as store:
        ids = [{**WHO, "session_id": f"{number}"} for number in range(20)]
        held = [await store.sessions.create_session(**each) for each in ids]
        await asyncio.gather(
            *(store.sessions.append_event(one, step(number)) for number in range(5) for one in held)
        )

    assert [5] * 20 == commits.events


@pytest.mark.parametrize("way", ["flush", "flush_session", "close"])
async def test_appends_that_were_requested_before_have_ended_after(service: SessionService, way: str) -> None:
    """Also those that could not begin in the same turn of the event loop."""
    session = await service.create_session(**WHO)
    appends = [asyncio.create_task(service.append_event(session, step(number))) for number in range(40)]
    await asyncio.sleep(0)
    ids_of_session = WHO if way == "flush_session" else {}
    await getattr(service, way)(**ids_of_session)
    await asyncio.sleep(0)

    assert all(append.done() for append in appends)


async def test_a_failure_that_no_append_raised_is_raised_by_flush_once(
    service: SessionService, commits: Commits
) -> None:
    """A server that ends learns of it there."""
    session = await service.create_session(**WHO)
    commits.fails = lambda _: True
    await service.append_event(session, step(0))
    with pytest.raises(
        UnavailableError,
        match="append_event app_name='app' user_id='user' session_id='session': an event that was",
    ):
        await service.flush()
    await service.flush()
    await service.flush_session(**WHO)


def test_an_event_that_an_event_loop_left_when_it_was_closed_is_not_passed_over() -> None:
    """The next append through its handle is refused, as after any other failure."""
    sessions = Store.local(MEMORY, durability="turn").sessions
    with closing(asyncio.new_event_loop()) as loop:
        held = loop.run_until_complete(sessions.create_session(**WHO))
        loop.run_until_complete(sessions.append_event(held, step(0)))
        left = asyncio.all_tasks(loop)
    for task in left:
        task.get_coro().close()  # else Python says later that nobody awaited it

    with pytest.raises(SessionConflictError, match="an event that was appended before was cancelled"):
        asyncio.run(sessions.append_event(held, step(1)))
    assert [] == asyncio.run(read(sessions, WHO)).events


async def test_an_event_that_cannot_be_stored_is_refused_at_once(service: SessionService) -> None:
    """The turn goes on without it."""
    session = await service.create_session(**WHO)
    await service.append_event(session, step(0))
    wrong = step(1)
    loop: list[Any] = []
    loop.append(loop)
    wrong.actions.state_delta["loop"] = loop
    with pytest.raises(InvalidInputError):
        await service.append_event(session, wrong)
    await service.append_event(session, final(2))

    assert ["e0", "e2"] == ids(await service.get_session(**WHO))


async def test_an_event_that_comes_again_is_stored_once(service: SessionService) -> None:
    """Also while it is on its way."""
    session = await service.create_session(**WHO)
    event = step(0)
    for _ in range(3):
        await service.append_event(session, event)
    await service.append_event(session, final(1))

    assert ["e0", "e1"] == ids(await service.get_session(**WHO))
    assert session == await service.get_session(**WHO)


async def test_appends_wait_when_too_many_are_on_their_way(service: SessionService, commits: Commits) -> None:
    """A hundred events, or the bytes of one largest event."""
    session = await service.create_session(**WHO)
    commits.may_go.clear()

    for number in range(99):
        await service.append_event(session, step(number))
    last = asyncio.ensure_future(service.append_event(session, step(99)))
    await asyncio.wait([last], timeout=0)
    assert not last.done()
    commits.may_go.set()
    await last

    assert session == await service.get_session(**WHO)


async def test_a_turn_that_is_held_ends_when_all_of_it_is_stored(commits: Commits) -> None:
    """Its end raises a failure, and releases the turn all the same."""
    async with Store.local(MEMORY, durability="turn") as store:
        session = await store.sessions.create_session(**WHO)
        async with store.turns.hold(**WHO):
            for number in range(3):
                await store.sessions.append_event(session, step(number))
        assert ["e0", "e1", "e2"] == ids(session)

        async def failing_turn() -> None:
            async with store.turns.hold(**WHO):
                session = await read(store.sessions, WHO)
                commits.fails = lambda _: True
                await store.sessions.append_event(session, step(3))

        with pytest.raises(UnavailableError):
            await failing_turn()
        commits.fails = lambda _: False
        async with store.turns.hold(**WHO, on_busy="reject"):
            assert ["e0", "e1", "e2"] == ids(await store.sessions.get_session(**WHO))


async def test_a_session_that_is_gone_is_reported(service: SessionService) -> None:
    """By the next append, and not by its deletion."""
    session = await service.create_session(**WHO)
    await service.append_event(session, step(0))
    await service.delete_session(**WHO)
    await service.append_event(session, step(1))
    with pytest.raises(SessionMissingError):
        await service.append_event(session, final(2))
