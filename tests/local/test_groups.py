"""Appends of one process that wait for each other go in one commit, and each has its own outcome."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.genai import types

from gcp_adk_store import InvalidInputError, SessionConflictError, SessionService, Store
from gcp_adk_store.settings import MEMORY
from gcp_adk_store.testing.conformance.running import read
from tests.support.local_commits import before_commits, events_in

WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of events in each commit to a session, as they are sent."""
    seen: list[int] = []

    async def count(writes: Sequence[Any]) -> None:
        seen.extend(events_in(writes))

    before_commits(monkeypatch, count)
    return seen


def said(number: int, **delta: Any) -> Event:
    """Return a small event."""
    return Event(id=f"e{number}", author="user", actions=EventActions(state_delta=delta))


async def stored(service: SessionService) -> Session:
    """Return the session as it is stored."""
    return await read(service, WHO)


async def outcomes(service: SessionService, session: Session, *events: Event) -> list[Any]:
    """Append *events* at once, and return what each call returns or raises."""
    calls = (service.append_event(session, event) for event in events)
    return await asyncio.gather(*calls, return_exceptions=True)


async def test_appends_that_wait_for_each_other_go_in_one_commit(
    adk_store_local: Store, commits: list[int]
) -> None:
    """In the order of their calls."""
    service = adk_store_local.sessions
    session = await service.create_session(**WHO)
    events = [said(number, last=number, **{f"k{number}": number}) for number in range(32)]

    assert events == await outcomes(service, session, *events)
    assert [32] == commits
    assert session == await stored(service)
    assert [f"e{number}" for number in range(32)] == [event.id for event in session.events]
    assert 31 == session.state["last"]
    assert 33 == len(session.state)


async def test_a_group_is_no_larger_than_one_event_may_be(adk_store_local: Store, commits: list[int]) -> None:
    """256 KiB of events go together, and the tail is sealed after."""
    service = adk_store_local.sessions
    session = await service.create_session(**WHO)
    events = [said(number) for number in range(40)]
    for event in events:
        event.content = types.Content(role="user", parts=[types.Part(text="x" * 20_000)])

    assert events == await outcomes(service, session, *events)
    assert [12, 12, 12, 4] == commits
    assert session == await stored(service)


async def test_an_event_that_cannot_be_stored_does_not_affect_the_others(
    adk_store_local: Store, commits: list[int]
) -> None:
    """Its own call raises; the others are stored in their order, in one commit."""
    service = adk_store_local.sessions
    session = await service.create_session(**WHO)
    events = [said(number) for number in range(6)]
    loop: list[Any] = []
    loop.append(loop)
    events[3].actions.state_delta["round"] = loop
    found = await outcomes(service, session, *events)

    assert isinstance(found[3], InvalidInputError)
    assert [event for event in events if event is not events[3]] == found[:3] + found[4:]
    assert [5] == commits
    assert session == await stored(service)


def chain(failure: BaseException | None) -> Iterator[BaseException]:
    """Yield *failure*, and what was handled when it was raised, as a traceback shows them."""
    while failure is not None:
        yield failure
        failure = failure.__context__


async def test_events_that_are_too_large_together_are_stored_one_by_one(adk_store_local: Store) -> None:
    """As far as the document has room; the calls beyond raise."""
    service = adk_store_local.sessions
    session = await service.create_session(**WHO)
    events = [said(number, **{f"k{number}": "x" * 60_000}) for number in range(22)]
    found = await outcomes(service, session, *events)
    refused = [one for one in found if isinstance(one, Exception)]

    assert refused
    assert all(isinstance(one, InvalidInputError) for one in refused)
    # Its own errors, before and after the seal, and not that of its group.
    assert {2} == {len([*chain(one)]) for one in refused}
    assert 15 <= len(found) - len(refused)
    assert [one for one in found if not isinstance(one, Exception)] == session.events
    whole = await stored(service)
    assert (whole.events, whole.state) == (session.events, session.state)


async def test_a_conflict_is_raised_to_every_call_of_a_group(adk_store_local: Store) -> None:
    """Nothing of it is written, and each call has an error of its own."""
    service = adk_store_local.sessions
    session = await service.create_session(**WHO)
    other = await stored(service)
    await service.append_event(other, said(100))
    events = [said(number, k=number) for number in range(8)]
    found = await outcomes(service, session, *events)

    assert [SessionConflictError] * 8 == [type(one) for one in found]
    assert 8 == len({id(one) for one in found})
    assert all("append_event app_name='app'" in str(one) for one in found)
    assert other == await stored(service)
    assert ([], {}) == (session.events, session.state)
    assert [said(number, k=number).actions for number in range(8)] == [event.actions for event in events]


async def test_merging_handles_share_a_commit_and_learn_of_each_other(commits: list[int]) -> None:
    """Each has all events afterwards, in the order of storage, and the state of all."""
    async with Store.local(MEMORY, on_conflict="merge") as store:
        service = store.sessions
        handles = [await service.create_session(**WHO)]
        handles += [await stored(service) for _ in range(3)]
        calls = [
            service.append_event(handles[number % 4], said(number, **{f"k{number}": number}))
            for number in range(20)
        ]
        await asyncio.gather(*calls)

        assert [20] == commits
        whole = await stored(service)
        assert [whole] * 4 == handles
        assert 20 == len(handles[0].events)


async def test_a_call_that_is_cancelled_while_it_waits_stores_nothing(
    adk_store_local: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calls before and behind it are stored."""
    service = adk_store_local.sessions
    session = await service.create_session(**WHO)
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def hold(_: Sequence[Any]) -> None:
        begun.set()
        await go_on.wait()

    before_commits(monkeypatch, hold)
    calls = [asyncio.ensure_future(service.append_event(session, said(0)))]
    await begun.wait()
    calls += [asyncio.ensure_future(service.append_event(session, said(number))) for number in range(1, 5)]
    await asyncio.wait(calls, timeout=0)  # until all of them wait
    calls[2].cancel()
    with pytest.raises(asyncio.CancelledError):
        await calls[2]
    go_on.set()
    await asyncio.gather(*calls[:2], *calls[3:])

    assert ["e0", "e1", "e3", "e4"] == [event.id for event in (await stored(service)).events]
    assert session == await stored(service)


async def test_an_event_with_payloads_keeps_its_place(adk_store_local: Store, commits: list[int]) -> None:
    """It goes alone, since its payloads are written before."""
    service = adk_store_local.sessions
    session = await service.create_session(**WHO)
    events = [said(number) for number in range(7)]
    events[3].content = types.Content(
        role="user", parts=[types.Part.from_bytes(data=bytes(100_000), mime_type="image/png")]
    )
    await outcomes(service, session, *events)

    assert [3, 1, 3] == commits
    assert [event.id for event in events] == [event.id for event in session.events]
    assert session == await stored(service)
