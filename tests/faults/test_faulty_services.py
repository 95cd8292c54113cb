"""Wrapped services are ADK's services, but for the calls that a plan picks."""

import asyncio
import contextlib
from collections import Counter
from typing import Any

import pytest
from google.adk.artifacts import BaseArtifactService, InMemoryArtifactService
from google.adk.events import Event, EventActions
from google.adk.sessions import BaseSessionService, InMemorySessionService
from google.genai import types

from gcp_adk_store import OutcomeUnknownError, Store, UnavailableError
from gcp_adk_store.testing.conformance import ArtifactServiceConformance, SessionServiceConformance
from gcp_adk_store.testing.conformance.running import read
from gcp_adk_store.testing.faults import (
    Cut,
    Delay,
    Fault,
    Garble,
    Hang,
    Hold,
    Lose,
    Refuse,
    from_nth,
    no_faults,
    nth,
    only,
)
from gcp_adk_store.testing.faults.services import FaultyArtifactService, FaultySessionService
from tests.faults.conftest import WHO

FILE: dict[str, Any] = {**WHO, "filename": "file"}
TEXT = types.Part(text="one")


@pytest.mark.sample(3)
class TestSessions(SessionServiceConformance):
    """Nothing of ADK's contract is lost where a call is held and goes on."""

    @pytest.fixture
    def session_service(self, adk_store_local: Store) -> BaseSessionService:
        def released(_: object) -> Fault:
            hold = Hold("after")
            hold.release()
            return hold

        return FaultySessionService(adk_store_local.sessions, released)


@pytest.mark.long
class TestArtifacts(ArtifactServiceConformance):
    """Nothing of ADK's contract is lost where nothing goes wrong."""

    @pytest.fixture
    def artifact_service(self, adk_store_local: Store) -> BaseArtifactService:
        return FaultyArtifactService(adk_store_local.artifacts)


@pytest.fixture(params=["ADK's", "ours"])
def sessions(request: pytest.FixtureRequest) -> FaultySessionService:
    """A service in memory, and ours."""
    if request.param == "ADK's":
        return FaultySessionService(InMemorySessionService())
    store: Store = request.getfixturevalue("adk_store_local")
    return FaultySessionService(store.sessions)


@pytest.fixture
def artifacts() -> FaultyArtifactService:
    """A service in memory."""
    return FaultyArtifactService(InMemoryArtifactService())


def event() -> Event:
    """Return an event that changes state of every scope."""
    return Event(author="user", actions=EventActions(state_delta={"mine": 1, "user:n": 1, "temp:t": 1}))


async def stored_events(service: FaultySessionService) -> list[str]:
    """Return the ids of the events that the wrapped service has."""
    found = await service.inner.get_session(**WHO)
    return [] if found is None else [stored.id for stored in found.events]


APPENDS: list[tuple[Fault, type[Exception], int]] = [
    (Refuse(), UnavailableError, 0),
    (Refuse(error=ConnectionResetError), ConnectionResetError, 0),
    (Cut("request"), UnavailableError, 0),
    (Lose(), OutcomeUnknownError, 1),
    (Cut(), OutcomeUnknownError, 1),
    (Garble(), OutcomeUnknownError, 1),
]


@pytest.mark.parametrize(("fault", "raised", "stored"), APPENDS, ids=lambda value: repr(value)[:40])
async def test_an_append_that_fails_leaves_the_callers_session_as_it_was(
    sessions: FaultySessionService, fault: Fault, raised: type[Exception], stored: int
) -> None:
    """Whether it was done or not; ``temp:`` keys aside, which never leave the process."""
    session = await sessions.create_session(**WHO, state={"deep": {"list": [1]}})
    await sessions.append_event(session, event())
    sent = event()
    before, sent_before = session.model_copy(deep=True), sent.model_copy(deep=True)
    sessions.plan = only("append_event", nth(0, fault))
    with pytest.raises(raised):
        await sessions.append_event(session, sent)

    assert 1 + stored == len(await stored_events(sessions))
    assert before == session
    assert before._storage_update_marker == session._storage_update_marker
    assert sent_before == sent
    assert Counter({fault.kind: 1}) == sessions.figures.faults


async def test_the_next_append_learns_of_the_one_whose_answer_was_lost(adk_store_local: Store) -> None:
    """It is stale, as after a real lost answer; the same event again is stored once."""
    sessions = FaultySessionService(adk_store_local.sessions)
    session = await sessions.create_session(**WHO)
    lost = event()
    sessions.plan = only("append_event", nth(0, Lose()))
    with pytest.raises(OutcomeUnknownError):
        await sessions.append_event(session, lost)
    with pytest.raises(ValueError, match="modified in storage"):
        await sessions.append_event(session, event())
    found = await read(sessions, WHO)
    await sessions.append_event(found, lost)

    assert [lost.id] == await stored_events(sessions)


@pytest.mark.parametrize("again", [Lose(), None, Refuse()])
async def test_the_same_append_again_continues_after_a_lost_answer(
    adk_store_local: Store, again: Fault | None
) -> None:
    """Whatever goes wrong with it, the next one puts the event into the session, as in a real store."""
    sessions = FaultySessionService(adk_store_local.sessions)
    session = await sessions.create_session(**WHO)
    lost = event()
    for fault in (Lose(), again):
        sessions.plan = no_faults if fault is None else only("append_event", nth(0, fault))
        with contextlib.suppress(OutcomeUnknownError, UnavailableError):
            await sessions.append_event(session, lost)
    sessions.plan = no_faults
    for each in (lost, event()):
        await sessions.append_event(session, each)

    assert lost is session.events[0]
    assert [one.id for one in session.events] == await stored_events(sessions)
    assert 2 == len(session.events)


async def test_a_held_append_moves_the_callers_session_when_it_is_released(
    sessions: FaultySessionService,
) -> None:
    """Not before, although it is stored; the session then holds the very event."""
    hold = Hold("after")
    session = await sessions.create_session(**WHO)
    sessions.plan = only("append_event", nth(0, hold))
    sent = event()
    append = asyncio.create_task(sessions.append_event(session, sent))
    await asyncio.to_thread(hold.reached.wait)
    meanwhile = list(session.events), dict(session.state), len(await stored_events(sessions))
    hold.release()
    returned = await append

    assert ([], {"temp:t": 1}, 1) == meanwhile
    assert returned is sent is session.events[0]
    assert {"mine": 1, "user:n": 1, "temp:t": 1} == session.state
    assert {"mine": 1, "user:n": 1} == sent.actions.state_delta
    found = await read(sessions, WHO)
    assert (found.events, found.last_update_time) == (session.events, session.last_update_time)


@pytest.mark.parametrize(
    ("stage", "raised", "stored"), [("before", UnavailableError, 0), ("after", OutcomeUnknownError, 1)]
)
async def test_a_held_append_can_be_dropped(
    sessions: FaultySessionService, stage: Any, raised: type[Exception], stored: int
) -> None:
    """Without being done, respectively acknowledged; the session stays as it was."""
    hold = Hold(stage)
    session = await sessions.create_session(**WHO)
    sessions.plan = only("append_event", nth(0, hold))
    append = asyncio.create_task(sessions.append_event(session, event()))
    await asyncio.to_thread(hold.reached.wait)
    hold.release(forward=False)
    with pytest.raises(raised):
        await append

    assert [] == session.events
    assert stored == len(await stored_events(sessions))


@pytest.mark.parametrize("fault", [Hold(), Hang()], ids=["held", "hanging"])
async def test_a_caller_that_gives_up_has_done_nothing(sessions: FaultySessionService, fault: Fault) -> None:
    """While its call is held, or hangs."""
    session = await sessions.create_session(**WHO)
    sessions.plan = only("append_event", nth(0, fault))
    append = asyncio.create_task(sessions.append_event(session, event()))
    await asyncio.sleep(0)  # lets it begin
    append.cancel()
    with pytest.raises(asyncio.CancelledError):
        await append
    await sessions.append_event(session, event())

    assert [known.id for known in session.events] == await stored_events(sessions)
    assert 1 == len(session.events)


async def test_a_delay_changes_nothing_but_the_time(sessions: FaultySessionService) -> None:
    """Other tasks run meanwhile."""
    session = await sessions.create_session(**WHO)
    sessions.plan = from_nth(0, Delay(0.05))
    append = asyncio.create_task(sessions.append_event(session, event()))
    await asyncio.sleep(0)  # lets it begin
    running = not append.done()
    await append

    assert running
    assert 1 == len(session.events) == len(await stored_events(sessions))


async def test_a_partial_event_meets_no_fault(sessions: FaultySessionService) -> None:
    """No service stores it."""
    session = await sessions.create_session(**WHO)
    sessions.plan = only("append_event", from_nth(0, Refuse()))
    partial = Event(author="model", partial=True)

    assert partial is await sessions.append_event(session, partial)
    assert 0 == sessions.figures.calls["append_event"]


async def test_every_call_of_the_sessions_can_fail(sessions: FaultySessionService) -> None:
    """Each is counted under its name; what is only read is unavailable when its answer is lost."""
    await sessions.create_session(**WHO)
    user = {"app_name": WHO["app_name"], "user_id": WHO["user_id"]}
    sessions.plan = from_nth(0, Lose())
    with pytest.raises(OutcomeUnknownError):
        await sessions.create_session(**user, session_id="new")
    for reading in (
        sessions.get_session(**WHO),
        sessions.list_sessions(**user),
        sessions.get_user_state(**user),
    ):
        with pytest.raises(UnavailableError):
            await reading
    with pytest.raises(OutcomeUnknownError):
        await sessions.delete_session(**WHO)
    await sessions.flush()
    left = await sessions.inner.list_sessions(**user)

    assert ["new"] == [session.id for session in left.sessions]
    assert Counter(create_session=2, get_session=1, list_sessions=1, get_user_state=1, delete_session=1) == (
        sessions.figures.calls
    )
    assert Counter(lose=5) == sessions.figures.faults


async def test_every_call_of_the_artifacts_can_fail(artifacts: FaultyArtifactService) -> None:
    """A save whose answer is lost is there; a refused one is not."""
    artifacts.plan = nth(0, Refuse())
    with pytest.raises(UnavailableError):
        await artifacts.save_artifact(**FILE, artifact=TEXT)
    artifacts.plan = from_nth(0, Lose())
    with pytest.raises(OutcomeUnknownError):
        await artifacts.save_artifact(**FILE, artifact=TEXT)
    versions = await artifacts.inner.list_versions(**FILE)
    for reading in (
        artifacts.load_artifact(**FILE),
        artifacts.list_artifact_keys(**WHO),
        artifacts.list_versions(**FILE),
        artifacts.list_artifact_versions(**FILE),
        artifacts.get_artifact_version(**FILE),
    ):
        with pytest.raises(UnavailableError):
            await reading
    with pytest.raises(OutcomeUnknownError):
        await artifacts.delete_artifact(**FILE)

    assert [0] == versions
    assert [] == await artifacts.inner.list_versions(**FILE)
    assert Counter(refuse=1, lose=7) == artifacts.figures.faults
    assert 8 == artifacts.figures.calls.total()
