"""Answer the tool calls that a crash left without a response."""

import pytest
from google.adk.events import Event, EventActions
from google.genai import types

from gcp_adk_store import SessionBusyError, Store
from gcp_adk_store.testing.conformance.running import read
from tests.turns.conftest import WHO


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
    for event in (
        calls("a"),
        response("a"),
        calls("b", "c", "slow", long_running={"slow"}),
        response("b"),
        calls("d", author="helper"),
    ):
        await store.sessions.append_event(held, event)
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
    for event in (
        calls("a"),
        Event(author="user", invocation_id="second"),
        response("a"),
        calls("b", author="helper"),
        Event(author="user", invocation_id="third", actions=back),
    ):
        await store.sessions.append_event(held, event)
    assert 1 == await store.turns.repair(**WHO)
    found = await read(store.sessions, WHO)
    assert ["a"] == [one.id for one in found.events[-1].get_function_responses()]
