"""Hold the turn of a session: who gets it, what an append in it requires, what it costs; and repair one."""

import asyncio
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.genai import types

from gcp_adk_store import (
    CredentialsError,
    Point,
    SessionBusyError,
    SessionConflictError,
    SessionMissingError,
    Store,
    TurnLostError,
    UnavailableError,
)
from gcp_adk_store.testing.conformance.running import read
from tests.services.conftest import texts
from tests.turns.conftest import WHO, Calls, Passes, event, history


async def test_a_handle_from_before_the_turn_appends_without_a_read(store: Store, calls: Calls) -> None:
    """The turn knows the update time that its begin gave the session."""
    held = await read(store.sessions, WHO)
    async with store.turns.hold(**WHO):
        calls.take()
        await store.sessions.append_event(held, event("one"))
        assert (0, 1) == calls.take()


async def test_a_second_turn_is_refused_with_the_holder_and_the_end_of_its_lease(
    store: Store, other: Store, passes: Passes
) -> None:
    """Nothing was written, and the error pickles."""
    async with store.turns.hold(**WHO, lease_s=60):
        status = await store.turns.status(**WHO)
        with pytest.raises(SessionBusyError) as caught:
            async with other.turns.hold(**WHO, on_busy="reject"):
                pytest.fail("two turns at once")
        assert status.holder == caught.value.holder
        assert 1 == caught.value.fence
        assert status.until == pytest.approx(caught.value.until, abs=0.001)
        assert 0 < (caught.value.retry_after_s or 0) <= 60
        again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  # its own
        assert (caught.value.holder, caught.value.until) == (again.holder, again.until)
        passes(1)
        with pytest.raises(SessionBusyError):
            async with other.turns.hold(**WHO, wait_s=0.1):
                pytest.fail("two turns at once")
    async with other.turns.hold(**WHO, on_busy="reject") as turn:
        assert 2 == turn.fence


@pytest.mark.parametrize("on_busy", ["reject", "enqueue"])
async def test_a_turn_that_begins_without_a_message_takes_none_that_runs(
    store: Store, other: Store, on_busy: Any
) -> None:
    """There is nothing that could wait instead."""
    async with store.turns.hold(**WHO):
        with pytest.raises(SessionBusyError):
            await other.turns.begin(**WHO, on_busy=on_busy)


@pytest.mark.parametrize("merges", [False, True])
@pytest.mark.parametrize("reads_again", [False, True])
async def test_an_append_after_the_turn_was_lost_writes_nothing(
    folder: Path, other: Store, passes: Passes, *, merges: bool, reads_again: bool
) -> None:
    """Also through a handle that is read after the loss, and with appends that follow those of others."""
    store = Store.local(folder, on_conflict="merge" if merges else "raise")
    held = await store.sessions.create_session(**WHO)
    async with store.turns.hold(**WHO, lease_s=60) as turn:
        await store.sessions.append_event(held, event("before"))
        passes(61)
        taken = await other.turns.take(**WHO, on_busy="reject")
        if reads_again:
            found = await read(store.sessions, WHO)
            held = found
        with pytest.raises(TurnLostError) as caught:
            await store.sessions.append_event(held, event("late", delta={"late": 1, "app:late": 1}))
        assert isinstance(caught.value, SessionConflictError)
        assert turn.is_lost
        await asyncio.wait_for(turn.abort_signal.wait(), 60)
        with pytest.raises(TurnLostError):
            await store.sessions.append_event(held, event("later"))
    found = await read(other.sessions, WHO)
    assert ["before"] == texts(found.events)
    assert {} == found.state
    status = await other.turns.status(**WHO)
    assert (taken.fence, True) == (status.fence, status.is_running)


async def test_a_lease_that_expired_and_nobody_took_goes_on(store: Store, passes: Passes) -> None:
    """Its fence is still the stored one."""
    held = await read(store.sessions, WHO)
    async with store.turns.hold(**WHO, lease_s=60):
        passes(600)
        await store.sessions.append_event(held, event("late"))
        status = await store.turns.status(**WHO)
        assert status.is_running
    assert ["late"] == await history(store)


async def test_an_append_renews_the_lease(store: Store, other: Store, passes: Passes) -> None:
    """In its own commit."""
    held = await read(store.sessions, WHO)
    async with store.turns.hold(**WHO, lease_s=60):
        passes(59)
        await store.sessions.append_event(held, event("one"))
        passes(59)
        with pytest.raises(SessionBusyError):
            await other.turns.take(**WHO, on_busy="reject")


@pytest.mark.usefixtures("frequent_heartbeats")
async def test_a_turn_without_appends_is_renewed_by_heartbeats(
    store: Store, other: Store, passes: Passes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most of the lease passes several times; nobody else gets the turn."""
    held = await read(store.sessions, WHO)
    async with store.turns.hold(**WHO, lease_s=60) as turn:
        documents, renewed = store.sessions.storage.documents, asyncio.Event()
        commit = documents.commit

        async def seen_commit(*args: Any, **kwargs: Any) -> Any:
            written = await commit(*args, **kwargs)
            renewed.set()
            return written

        monkeypatch.setattr(documents, "commit", seen_commit)
        for _ in range(3):
            passes(50)
            renewed.clear()
            await renewed.wait()
            with pytest.raises(SessionBusyError):
                await other.turns.take(**WHO, on_busy="reject")
        assert not turn.is_lost
        await store.sessions.append_event(held, event("one"))
    assert ["one"] == await history(store)


async def test_a_lease_counts_as_renewed_since_its_write_began(
    store: Store, monkeypatch: pytest.MonkeyPatch, ticking: Callable[[float], Callable[[], float]]
) -> None:
    """The write says when the lease ends, however late it is answered: so a heartbeat is in time."""
    clock = ticking(0.001)
    documents = store.sessions.storage.documents
    began: list[float] = []
    commit = documents.commit

    async def slow_commit(*args: Any, **kwargs: Any) -> Any:
        began.append(clock())
        return await commit(*args, **kwargs)

    monkeypatch.setattr(documents, "commit", slow_commit)
    async with store.turns.hold(**WHO) as turn:
        assert turn._turn.renewed_at <= began[-1]
        held = await read(store.sessions, WHO)
        await store.sessions.append_event(held, event("one"))
        assert began[0] < turn._turn.renewed_at <= began[1]
        await store.turns._leases.renew(turn._turn)
        assert began[1] < turn._turn.renewed_at <= began[2]


@pytest.mark.usefixtures("frequent_heartbeats")
async def test_heartbeats_go_on_after_one_that_failed(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A token that could not be had, for example; the turn runs on."""
    async with store.turns.hold(**WHO, lease_s=60) as turn:
        documents, answered = store.sessions.storage.documents, asyncio.Event()
        commit = documents.commit
        failures: list[Exception] = [CredentialsError("no token"), UnavailableError("away")]

        async def failing_commit(*args: Any, **kwargs: Any) -> Any:
            if failures:
                raise failures.pop()
            written = await commit(*args, **kwargs)
            answered.set()
            return written

        monkeypatch.setattr(documents, "commit", failing_commit)
        async with asyncio.timeout(60):
            await answered.wait()
        assert not turn.is_lost
    assert caplog.text.count("the lease of a turn could not be renewed yet") >= 2


async def test_appends_after_a_heartbeat_take_no_read(store: Store, calls: Calls) -> None:
    """The handle does not know the update time after the heartbeat; the turn does."""
    held = await read(store.sessions, WHO)
    async with store.turns.hold(**WHO) as turn:
        await store.turns._leases.renew(turn._turn)  # what the heartbeat calls
        calls.take()
        await store.sessions.append_event(held, event("one"))
        assert (0, 1) == calls.take()


async def test_a_writer_outside_of_the_turn_conflicts_or_merges_as_ever(
    store: Store, other: Store, folder: Path
) -> None:
    """A webhook that changes state, for example."""
    held = await read(store.sessions, WHO)
    merging = Store.local(folder, on_conflict="merge")
    webhook = await read(merging.sessions, WHO)
    async with store.turns.hold(**WHO):
        await merging.sessions.append_event(webhook, event("webhook", delta={"paid": True}))
        with pytest.raises(SessionConflictError) as caught:
            await store.sessions.append_event(held, event("mine"))
        assert not isinstance(caught.value, TurnLostError)
        found = await read(store.sessions, WHO)
        await store.sessions.append_event(found, event("mine"))
    await merging.sessions.append_event(webhook, event("after"))
    assert ["webhook", "mine", "after"] == await history(other)


async def test_tasks_of_a_turn_belong_to_it_and_those_that_outlive_it_are_refused(store: Store) -> None:
    """They have a copy of its context."""
    held = await read(store.sessions, WHO)
    go_on = asyncio.Event()

    async def late() -> None:
        await go_on.wait()
        await store.sessions.append_event(held, event("late"))

    async with store.turns.hold(**WHO):
        task = asyncio.create_task(late())
        await store.sessions.append_event(held, event("in time"))
    go_on.set()
    with pytest.raises(TurnLostError, match="its block has ended"):
        await task
    assert ["in time"] == await history(store)
    found = await read(store.sessions, WHO)
    await store.sessions.append_event(found, event("outside"))


@pytest.mark.usefixtures("frequent_heartbeats")
async def test_an_interrupted_turn_is_reported_and_gives_way(store: Store, other: Store) -> None:
    """Nobody takes it before its end."""
    fences: list[int] = []

    async def interrupt() -> None:
        async with other.turns.hold(**WHO, on_busy="interrupt", wait_s=60) as turn:
            fences.append(turn.fence)

    async with store.turns.hold(**WHO, lease_s=60) as turn:
        task = asyncio.create_task(interrupt())
        await asyncio.wait_for(turn.abort_signal.wait(), 60)
        assert not turn.is_lost
        assert not fences
    await task
    assert [2] == fences


async def test_a_request_to_stop_is_noticed_through_a_handle_that_was_read_after_it(
    store: Store, other: Store
) -> None:
    """And a renewal keeps the request."""
    async with store.turns.hold(**WHO) as turn:
        await other.turns.request_abort(**WHO)
        held = await read(store.sessions, WHO)
        await store.sessions.append_event(held, event("one"))
        await store.turns._leases.renew(turn._turn)
        await asyncio.wait_for(turn.abort_signal.wait(), 60)
        assert (await other.turns.status(**WHO)).abort


async def test_a_restore_ends_a_turn(store: Store, other: Store) -> None:
    """The fence is raised, and nobody holds the turn."""
    held = await read(store.sessions, WHO)
    async with store.turns.hold(**WHO):
        await store.sessions.append_event(held, event("one"))
        await other.restore_session(**WHO, at=Point.position(0))
        with pytest.raises(TurnLostError):
            await store.sessions.append_event(held, event("late"))
    async with other.turns.hold(**WHO, on_busy="reject") as turn:
        assert 3 == turn.fence


async def test_a_session_that_is_deleted_during_a_turn_is_missing(store: Store, other: Store) -> None:
    """As for any append."""
    held = await read(store.sessions, WHO)
    async with store.turns.hold(**WHO):
        await other.sessions.delete_session(**WHO)
        with pytest.raises(SessionMissingError):
            await store.sessions.append_event(held, event("late"))
    with pytest.raises(SessionMissingError):
        await store.turns.take(**WHO)


async def test_a_turn_does_not_write_to_a_later_session_of_the_id(store: Store, other: Store) -> None:
    """Its turn may even have the same number."""
    async with store.turns.hold(**WHO):
        await other.sessions.delete_session(**WHO)
        await other.sessions.create_session(**WHO)
        await other.turns.take(**WHO)
        held = await read(store.sessions, WHO)
        with pytest.raises(TurnLostError):
            await store.sessions.append_event(held, event("late"))
    assert [] == await history(other)


def calls(*ids: str, author: str = "agent", long_running: set[str] | None = None) -> Event:
    """Return an event that calls a tool under each id."""
    parts = [types.Part(function_call=types.FunctionCall(id=id_, name="tool", args={})) for id_ in ids]
    return Event(
        author=author,
        invocation_id=f"of {author}",
        branch=author,
        content=types.Content(role="model", parts=parts),
        long_running_tool_ids=long_running,
    )


def response(id_: str) -> Event:
    """Return the response to a call."""
    part = types.Part(function_response=types.FunctionResponse(id=id_, name="tool", response={"ok": True}))
    return Event(author="agent", invocation_id="of agent", content=types.Content(role="user", parts=[part]))


async def test_calls_without_a_response_are_answered_once(store: Store) -> None:
    """In the name of the agent that called; those that have a response, or run long, are left."""
    held = await read(store.sessions, WHO)
    for each in (
        calls("a"),
        response("a"),
        calls("b", "c", "slow", long_running={"slow"}),
        response("b"),
        calls("d", author="helper"),
    ):
        await store.sessions.append_event(held, each)
    assert 2 == await store.turns.repair(**WHO, error="cut")
    assert 0 == await store.turns.repair(**WHO)
    found = await read(store.sessions, WHO)
    made = found.events[5:]
    assert [("agent", "of agent", "agent"), ("helper", "of helper", "helper")] == [
        (one.author, one.invocation_id, one.branch) for one in made
    ]
    assert [("c", {"error": "cut"}), ("d", {"error": "cut"})] == [
        (one.id, one.response) for event in made for one in event.get_function_responses()
    ]
    assert not (await store.turns.status(**WHO)).is_running


async def test_calls_of_a_turn_that_runs_are_left_to_it(store: Store, other: Store) -> None:
    """It may still answer them."""
    held = await read(store.sessions, WHO)
    await store.sessions.append_event(held, calls("a"))
    async with store.turns.hold(**WHO):
        with pytest.raises(SessionBusyError):
            await other.turns.repair(**WHO)
        assert 1 == await store.turns.repair(**WHO)


async def test_what_a_rewind_took_back_neither_asks_nor_answers(store: Store) -> None:
    """No model sees it any more."""
    held = await read(store.sessions, WHO)
    back = EventActions(rewind_before_invocation_id="second")
    for each in (
        calls("a"),
        Event(author="user", invocation_id="second"),
        response("a"),
        calls("b", author="helper"),
        Event(author="user", invocation_id="third", actions=back),
    ):
        await store.sessions.append_event(held, each)
    assert 1 == await store.turns.repair(**WHO)
    found = await read(store.sessions, WHO)
    assert ["a"] == [one.id for one in found.events[-1].get_function_responses()]
