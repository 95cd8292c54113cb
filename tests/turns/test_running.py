"""Run agents in turns: one at a time, and each message that waits once and in order."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pytest
from google.adk.agents import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.run_config import RunConfig
from google.adk.apps import App
from google.adk.apps.app import EventsCompactionConfig
from google.adk.apps.base_events_summarizer import BaseEventsSummarizer
from google.adk.events import Event, EventActions
from google.adk.events.event_actions import EventCompaction
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types
from pydantic import Field

from gcp_adk_store import (
    InvalidInputError,
    OutcomeUnknownError,
    Point,
    SessionInboxFullError,
    SessionLimits,
    SessionMissingError,
    Store,
    StoredDataError,
    TurnLostError,
    UnavailableError,
)
from gcp_adk_store.kernel.ports import ConditionFailedError
from gcp_adk_store.model.session_fields import MAX_WAITING
from gcp_adk_store.testing.conformance.running import read
from tests.services.conftest import texts
from tests.support.stored import change, fields_of, session_path
from tests.turns.conftest import WHO, Calls, Passes, event, history
from tools.benchmarks.stub_agent import runner

WHERE: dict[str, Any] = {"user_id": "user", "session_id": "session"}


class Echo(BaseAgent):
    """Answers twice, and may wait between."""

    gates: dict[str, Any] = Field(default_factory=dict)
    """Text of a message -> two asyncio events: that it came there, and that it may go on."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        assert ctx.user_content
        assert ctx.user_content.parts
        said = ctx.user_content.parts[0].text or ""
        if said == "fail":
            raise RuntimeError("the model is down")
        await self._wait(f"before {said}")
        yield self._says(ctx, f"hears {said}")
        await self._wait(said)
        yield self._says(ctx, f"answers {said}")

    async def _wait(self, at: str) -> None:
        if at in self.gates:
            came, may_go_on = self.gates[at]
            came.set()
            await may_go_on.wait()

    def _says(self, ctx: InvocationContext, text: str) -> Event:
        content = types.Content(role="model", parts=[types.Part(text=text)])
        return Event(author=self.name, invocation_id=ctx.invocation_id, content=content)


def runner_of(store: Store, **options: Any) -> Runner:
    """Return a runner of the agent on *store*."""
    return Runner(app_name="app", agent=Echo(name="echo", **options), session_service=store.sessions)


def says(text: str) -> types.Content:
    """Return the message of a user."""
    return types.Content(role="user", parts=[types.Part(text=text)])


async def texts_of(store: Store, runner: Runner, text: str, **options: Any) -> list[str | None]:
    """Run *runner* on a message; return what it answered."""
    return texts(
        [event async for event in store.turns.run(runner, **WHERE, new_message=says(text), **options)]
    )


def whole(*messages: str) -> list[str]:
    """Return the history of messages that were answered one after the other."""
    return [text for said in messages for text in (said, f"hears {said}", f"answers {said}")]


class Gate:
    """Where an agent waits."""

    def __init__(self) -> None:
        self.came, self.may_go_on = asyncio.Event(), asyncio.Event()

    def of(self, said: str) -> dict[str, Any]:
        """Return the option of an agent that waits here at the message *said*."""
        return {"gates": {said: (self.came, self.may_go_on)}}


async def test_a_turn_takes_a_commit_more_for_each_wait_for_its_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the agent waits, what it has made is stored: six events of three calls of a model take four."""
    async with Store.local(folder, durability="turn") as store:
        calls = Calls(store, monkeypatch)
        stored: list[int] = []

        async def wait(**_given: Any) -> None:
            for _ in range(100):
                await asyncio.sleep(0)
            if stored:  # the event of the message waits for the first one of the agent
                await store.sessions.flush()
            stored.append(calls.commits)

        speaking = runner(store.sessions, app="app", calls=2)
        speaking.agent.before_model_callback = wait  # type: ignore[attr-defined]  # of a model's agent
        await store.sessions.create_session(**WHO)
        calls.take()
        events = store.turns.run(speaking, **WHERE, new_message=says("hi"))
        assert 5 == len([event async for event in events])

    assert ([1, 2, 3], 4) == (stored, calls.commits)


class Reciting(BaseAgent):
    """Says what its session holds as it begins."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        content = types.Content(role="model", parts=[types.Part(text=f"{texts(ctx.session.events)}")])
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=content)


async def test_a_turn_begins_with_what_others_made_of_the_session_since_the_last_one(folder: Path) -> None:
    """An archive adds no event, so the number of events does not tell that a read returns fewer."""
    limits = SessionLimits(seal_tail_bytes=500)
    store, other = (Store.local(folder, session_limits=limits) for _ in range(2))
    await store.sessions.create_session(**WHO)
    for said in ("one", "two", "three"):
        await texts_of(store, runner_of(store), said)
    await other.sessions.archive_session(**WHO, before=Point.position(6))
    agent = Runner(app_name="app", agent=Reciting(name="reciting"), session_service=store.sessions)
    assert [f"{[*whole('three'), 'now']}"] == await texts_of(store, agent, "now")


async def test_a_message_that_is_too_large_to_wait_goes_with_its_event(store: Store) -> None:
    """The lease is a write of its own then."""
    long = types.Content(role="user", parts=[types.Part(text="x" * 20_000)] * 4)
    events = store.turns.run(runner_of(store), **WHERE, new_message=long, message_id="mine")
    await anext(events)
    assert () == (await store.turns.status(**WHO)).waiting
    assert 1 == len([event async for event in events])
    found = await read(store.sessions, WHO)
    assert ("mine", long) == (found.events[0].id, found.events[0].content)


async def test_a_run_that_waits_after_its_answer_holds_it_back_no_longer(store: Store, other: Store) -> None:
    """Such as one that makes a summary of what was said."""
    gate = Gate()
    events = store.turns.run(runner_of(store, **gate.of("one")), **WHERE, new_message=says("one"))
    assert ["hears one"] == texts([await anext(events)])
    assert ["one", "hears one"] == await history(other)
    gate.may_go_on.set()
    assert ["answers one"] == texts([event async for event in events])


async def test_a_message_whose_process_is_killed_before_its_event_is_answered_by_the_next_turn(
    store: Store, other: Store, passes: Passes
) -> None:
    """It waits since its turn began."""
    gate = Gate()
    runner = runner_of(store, **gate.of("before one"))
    first = asyncio.create_task(texts_of(store, runner, "one"))
    await gate.came.wait()
    assert [] == await history(other)
    assert 1 == len((await other.turns.status(**WHO)).waiting)
    passes(61)
    assert 4 == len(await texts_of(other, runner_of(other), "two", on_busy="reject"))
    gate.may_go_on.set()
    with pytest.raises(TurnLostError):
        await first
    assert whole("one", "two") == await history(other)


@pytest.mark.parametrize("answered", ["one", "left"])
async def test_a_run_that_loses_its_turn_names_the_message_that_waits(
    store: Store, other: Store, passes: Passes, answered: str
) -> None:
    """By the id under which it waits, also if the turn is lost while it answers another one."""
    if answered == "left":
        await other.turns.enqueue(**WHO, new_message=says("left"))
    gate = Gate()
    first = asyncio.create_task(texts_of(store, runner_of(store, **gate.of(f"before {answered}")), "one"))
    await gate.came.wait()
    *_, waiting = (await other.turns.status(**WHO)).waiting
    passes(61)
    async with other.turns.hold(**WHO, on_busy="reject"):
        gate.may_go_on.set()
        with pytest.raises(TurnLostError, match=rf"The message {waiting} waits"):
            await first


async def test_a_run_whose_turn_is_taken_before_its_end_is_stored_names_its_message(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn is asked to stop, and what ends it is sent and not answered: the next turn has the message."""
    documents = store.sessions.storage.documents
    commit = documents.commit

    async def overtaken(writes: Any) -> Any:
        if {"fence": 1} in [write.fields.get("turn") for write in writes]:
            monkeypatch.undo()
            async with other.turns.hold(**WHO, on_busy="interrupt", wait_s=0):
                refused = ConditionFailedError("the session has changed")
            refused.maybe_applied = True
            raise refused
        return await commit(writes)

    monkeypatch.setattr(documents, "commit", overtaken)
    await other.turns.enqueue(**WHO, new_message=says("left"))
    gate = Gate()
    first = asyncio.create_task(texts_of(store, runner_of(store, **gate.of("before left")), "one"))
    await gate.came.wait()
    assert await other.turns.request_abort(**WHO)
    gate.may_go_on.set()
    with pytest.raises(TurnLostError) as caught:
        await first
    (waiting,) = (await other.turns.status(**WHO)).waiting
    assert f"The message {waiting} waits" in str(caught.value)


async def test_a_message_goes_with_the_session_that_another_one_replaces(store: Store, other: Store) -> None:
    """The turn is lost as well, and nobody answers the message."""

    async def replace() -> None:
        await other.sessions.delete_session(**WHO)
        await other.sessions.create_session(**WHO)
        await store.sessions.append_event(await read(store.sessions, WHO), event("new"))

    agent = Echo(name="echo", before_agent_callback=lambda callback_context: replace())  # noqa: ARG005
    runner = Runner(app_name="app", agent=agent, session_service=store.sessions)
    with pytest.raises(TurnLostError, match=r"new turn\.$"):
        await texts_of(store, runner, "one")
    assert [] == await history(other)


async def test_a_run_without_an_answer_names_its_message(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its id is that of the event that the next turn stores, if the message has come."""
    documents = store.sessions.storage.documents
    commit = documents.commit

    async def unanswered(writes: Any) -> Any:
        await commit(writes)
        raise OutcomeUnknownError("not answered; read before repeating it")

    monkeypatch.setattr(documents, "commit", unanswered)
    with pytest.raises(OutcomeUnknownError) as caught:
        await texts_of(store, runner_of(store), "one")
    (waiting,) = (await other.turns.status(**WHO)).waiting
    assert f"the id of the message, and of its event, is {waiting}" in str(caught.value)


async def test_a_run_that_can_neither_store_its_events_nor_end_its_turn_names_its_message(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next turn answers it."""
    gate = Gate()
    first = asyncio.create_task(texts_of(store, runner_of(store, **gate.of("before one")), "one"))
    await gate.came.wait()

    async def refuse(_: Any) -> None:
        raise UnavailableError("over quota; try again later")

    monkeypatch.setattr(store.sessions.storage.documents, "commit", refuse)
    gate.may_go_on.set()
    with pytest.raises(OutcomeUnknownError) as caught:
        await first
    (waiting,) = (await other.turns.status(**WHO)).waiting
    assert str(caught.value).startswith("run app_name='app' user_id='user' session_id='session': an event")
    assert f"the message {waiting} may wait" in str(caught.value)


@pytest.mark.parametrize("name", ["hold", "run", "drain", "repair"])
async def test_an_error_names_the_call_and_not_what_it_is_made_of(store: Store, name: str) -> None:
    """With the ids of the session; inside of it are other calls, such as an append."""
    gone = WHO | {"session_id": "gone"}
    turns, runner, where = store.turns, runner_of(store), WHERE | {"session_id": "gone"}

    async def hold() -> None:
        async with turns.hold(**gone):
            pytest.fail("a turn without a session")

    calls: dict[str, Any] = {
        "hold": hold,
        "run": lambda: anext(turns.run(runner, **where, new_message=says("one"))),
        "drain": lambda: anext(turns.drain(runner, **where)),
        "repair": lambda: turns.repair(**gone),
    }
    with pytest.raises(SessionMissingError) as caught:
        await calls[name]()
    key = "app_name='app' user_id='user' session_id='gone'"
    assert (name, key) == (caught.value.operation, caught.value.key)


async def test_an_error_of_another_session_that_an_agent_asked_for_keeps_its_name(store: Store) -> None:
    """The caller of the run sees which session it was."""
    gone = Session(id="gone", app_name="app", user_id="user")

    class Asks:
        async def wait(self) -> None:
            await store.sessions.append_event(gone, event("lost"))

    runner = runner_of(store, gates={"one": (asyncio.Event(), Asks())})
    with pytest.raises(SessionMissingError) as caught:
        await texts_of(store, runner, "one")
    key = "app_name='app' user_id='user' session_id='gone'"
    assert ("append_event", key) == (caught.value.operation, caught.value.key)


async def test_a_message_of_a_run_that_fails_before_its_event_does_not_wait(store: Store) -> None:
    """Its caller gets the error."""

    async def refuse(**_: Any) -> None:
        raise RuntimeError("the message is not allowed")

    plugin = BasePlugin("refuses")
    plugin.on_user_message_callback = refuse  # type: ignore[method-assign]
    app = App(name="app", root_agent=Echo(name="echo"), plugins=[plugin])
    with pytest.raises(RuntimeError, match="not allowed"):
        await texts_of(store, Runner(app=app, session_service=store.sessions), "one")
    status = await store.turns.status(**WHO)
    assert (False, ()) == (status.is_running, status.waiting)
    assert ["hears two", "answers two"] == await texts_of(store, runner_of(store), "two", on_busy="reject")


async def test_messages_that_wait_are_answered_by_the_holder_in_order(store: Store, other: Store) -> None:
    """Each event has the id under which its message waited; the holder's caller sees all answers."""
    gate = Gate()
    first = asyncio.create_task(texts_of(store, runner_of(store, **gate.of("one")), "one", on_busy="enqueue"))
    await gate.came.wait()
    await store.sessions.flush_session(**WHO)  # until then its own message waits, too
    assert [] == await texts_of(other, runner_of(other), "two", on_busy="enqueue", state_delta={"two": 2})
    assert [] == await texts_of(other, runner_of(other), "three", on_busy="enqueue")
    waiting = (await other.turns.status(**WHO)).waiting
    assert 2 == len(waiting)
    gate.may_go_on.set()
    answers = [f"{does} {said}" for said in ("one", "two", "three") for does in ("hears", "answers")]
    assert answers == await first
    assert whole("one", "two", "three") == await history(other)
    found = await read(other.sessions, WHO)
    assert waiting == (found.events[3].id, found.events[6].id)
    assert {"two": 2} == found.state
    status = await other.turns.status(**WHO)
    assert (False, ()) == (status.is_running, status.waiting)


async def test_a_message_that_waits_takes_no_write_more_than_its_events(
    store: Store, other: Store, calls: Calls
) -> None:
    """It leaves the inbox in the commit of its event."""
    async with store.turns.hold(**WHO):
        await texts_of(other, runner_of(other), "one", on_busy="enqueue")
        await texts_of(other, runner_of(other), "two", on_busy="enqueue")
    calls.take()
    answers = store.turns.drain(runner_of(store), **WHERE)
    assert ["hears one", "answers one", "hears two", "answers two"] == texts([one async for one in answers])
    # The status, and the session for each message; the lease, a commit for each message, and the end.
    assert (3, 4) == calls.take()
    assert whole("one", "two") == await history(other)


async def test_a_message_that_waits_with_a_file_or_half_of_an_emoji_is_answered(
    store: Store, other: Store
) -> None:
    """In a text and in a key; the parser of JSON that ADK's models have refuses it. A file has its bytes."""
    answer = types.FunctionResponse(id="c", name="ask", response={"a": {"key \ud83d": 1}})
    blob = types.Blob(data=bytes(range(256)), mime_type="image/png")
    more = [[], [types.Part(function_response=answer)], [types.Part(inline_data=blob)]]
    messages = [types.Content(role="user", parts=[types.Part(text="cut \ud83d"), *one]) for one in more]
    async with store.turns.hold(**WHO):
        for content in messages:
            left = other.turns.run(runner_of(other), **WHERE, new_message=content, on_busy="enqueue")
            assert [] == [one async for one in left]
    answers = store.turns.drain(runner_of(store), **WHERE)
    assert ["hears cut \ud83d", "answers cut \ud83d"] * 3 == texts([one async for one in answers])
    events = (await read(store.sessions, WHO)).events
    assert messages == [event.content for event in events if event.author == "user"]


async def test_the_next_turn_answers_first_what_a_killed_holder_left(
    store: Store, other: Store, passes: Passes
) -> None:
    """Each once, in order, and before its own message."""
    await store.turns.take(**WHO)  # by a process that ends here
    for said in ("one", "two"):
        await texts_of(other, runner_of(other), said, on_busy="enqueue")
    passes(61)
    assert 6 == len(await texts_of(other, runner_of(other), "three", on_busy="reject"))
    assert whole("one", "two", "three") == await history(store)


async def test_a_message_for_a_turn_that_this_process_still_knows_is_answered_if_it_has_ended(
    store: Store, other: Store
) -> None:
    """The write that leaves it is refused: the session is read, and the turn taken."""
    async with store.turns.hold(**WHO):
        assert [] == await texts_of(other, runner_of(other), "one", on_busy="enqueue")
    assert 4 == len(await texts_of(other, runner_of(other), "two", on_busy="enqueue"))
    assert whole("one", "two") == await history(store)


async def test_a_message_fits_that_the_inbox_had_no_room_for_when_it_was_last_read(
    store: Store, other: Store
) -> None:
    """Others may have taken some out since."""
    await store.turns.take(**WHO)
    for _ in range(MAX_WAITING):
        await texts_of(other, runner_of(other), "one", on_busy="enqueue")
    for waiting in (await store.turns.status(**WHO)).waiting[1:]:
        await store.turns.withdraw(**WHO, message_id=waiting)
    await texts_of(other, runner_of(other), "two", on_busy="enqueue")
    assert 2 == len((await store.turns.status(**WHO)).waiting)


@pytest.mark.parametrize("passed_s", [0, 61])
async def test_a_message_whose_run_reads_no_events_replaces_none_that_waits(
    store: Store, other: Store, passes: Passes, passed_s: int
) -> None:
    """Its first read of the session has the inbox, too."""
    await store.turns.take(**WHO)
    await texts_of(store, runner_of(store), "one", on_busy="enqueue")
    passes(passed_s)
    reads_none = RunConfig(get_session_config=GetSessionConfig(num_recent_events=0))
    await texts_of(other, runner_of(other), "two", on_busy="enqueue", run_config=reads_none)
    passes(61)
    await texts_of(store, runner_of(store), "three")
    assert whole("one", "two", "three") == await history(store)


async def test_what_waits_can_be_answered_without_a_message(
    store: Store, other: Store, passes: Passes
) -> None:
    """Nothing happens while a turn runs."""
    await store.turns.take(**WHO)
    await texts_of(other, runner_of(other), "one", on_busy="enqueue")

    async def drained() -> list[str | None]:
        return texts([event async for event in other.turns.drain(runner_of(other), **WHERE)])

    assert [] == await drained()
    passes(61)
    assert ["hears one", "answers one"] == await drained()
    assert [] == await drained()
    assert whole("one") == await history(store)


@pytest.mark.usefixtures("frequent_heartbeats")
async def test_an_interrupted_run_ends_and_the_next_begins(store: Store, other: Store) -> None:
    """The holder sees it within a third of its lease."""
    gate = Gate()
    runner = runner_of(store, **gate.of("one"))
    first = asyncio.create_task(texts_of(store, runner, "one", lease_s=60))
    await gate.came.wait()
    second = asyncio.create_task(texts_of(other, runner_of(other), "two", on_busy="interrupt"))
    status = await store.turns.status(**WHO)
    while not status.abort:
        status = await store.turns.status(**WHO)
    gate.may_go_on.set()
    await first
    await second
    said = await history(store)
    assert ["one", "hears one"] == said[:2]
    assert whole("two") == said[-3:]


async def test_a_caller_that_stops_early_ends_the_turn(store: Store, other: Store) -> None:
    """What waits is left to the next one; the run is a step ahead of what its caller got."""
    events = store.turns.run(runner_of(store), **WHERE, new_message=says("one"))
    await anext(events)
    await texts_of(other, runner_of(other), "two", on_busy="enqueue")
    await events.aclose()
    status = await other.turns.status(**WHO)
    assert (False, 1) == (status.is_running, len(status.waiting))
    await texts_of(other, runner_of(other), "three", on_busy="reject")
    assert whole("one", "two", "three") == await history(store)


async def test_a_full_inbox_refuses_a_message(store: Store, other: Store) -> None:
    """And a message that could never wait; one of those that wait can be withdrawn."""
    await store.turns.take(**WHO)
    runner = runner_of(other)
    with pytest.raises(InvalidInputError, match="bytes as JSON"):
        await texts_of(other, runner, "x" * 300_000, on_busy="enqueue")
    await texts_of(other, runner, "x" * 200_000, on_busy="enqueue")
    with pytest.raises(SessionInboxFullError):
        await texts_of(other, runner, "y" * 100_000, on_busy="enqueue")
    (waiting,) = (await other.turns.status(**WHO)).waiting
    assert await other.turns.withdraw(**WHO, message_id=waiting)
    assert not await other.turns.withdraw(**WHO, message_id=waiting)
    await texts_of(other, runner, "y" * 100_000, on_busy="enqueue")


@pytest.mark.parametrize("parts", ["secret", [{"toolCall": {"toolType": ["secret"]}}]], ids=str)
async def test_a_damaged_message_is_named_without_its_content(store: Store, parts: Any) -> None:
    """The second one makes an enumeration of google-genai fail in a way of its own."""
    await store.turns.enqueue(**WHO, new_message=says("one"))
    path = session_path(WHO)
    (text,) = (await fields_of(store, path))["inbox"]
    await change(store, path, {"inbox": [json.dumps({**json.loads(text), "message": {"parts": parts}})]})
    with pytest.raises(StoredDataError, match="in the inbox of the session is damaged") as caught:
        await texts_of(store, runner_of(store), "two")

    assert "secret" not in f"{caught.value}"


async def test_a_message_waits_without_a_runner_until_a_turn_answers_it(store: Store, other: Store) -> None:
    """Whether a turn runs or not; its event has its id, and changes the state."""
    first = await other.turns.enqueue(**WHO, new_message=says("one"), state_delta={"asked": 1})
    assert (first,) == (await store.turns.status(**WHO)).waiting
    await texts_of(store, runner_of(store), "two")
    async with store.turns.hold(**WHO):
        last = await other.turns.enqueue(**WHO, new_message=says("three"))
    async for _ in store.turns.drain(runner_of(store), **WHERE):
        pass

    found = await read(store.sessions, WHO)
    assert whole("one", "two", "three") == texts(found.events)
    assert 1 == found.state["asked"]
    assert [first, last] == [found.events[0].id, found.events[6].id]


async def test_a_message_of_an_id_that_waits_is_not_added(store: Store, other: Store) -> None:
    """Whoever sends it, and however: the turn that runs, or that begins with it, answers it once."""
    for _ in range(2):
        assert "m1" == await other.turns.enqueue(**WHO, new_message=says("one"), message_id="m1")
    async with store.turns.hold(**WHO):
        for on_busy in ("enqueue", "wait", "reject", "interrupt"):
            assert [] == await texts_of(other, runner_of(other), "one", on_busy=on_busy, message_id="m1")
        assert ("m1",) == (await store.turns.status(**WHO)).waiting
    for on_busy in ("enqueue", "wait"):
        heard = await texts_of(other, runner_of(other), "one", on_busy=on_busy, message_id="m1")
        assert ["hears one", "answers one"] == heard
        assert () == (await store.turns.status(**WHO)).waiting
        await store.restore_session(**WHO, at=Point.position(0))
        await other.turns.enqueue(**WHO, new_message=says("one"), message_id="m1")
    async for _ in store.turns.drain(runner_of(store), **WHERE):
        pass
    found = await read(store.sessions, WHO)
    assert (whole("one"), "m1") == (texts(found.events), found.events[0].id)


def nested(levels: int) -> list[Any]:
    """Return a list of so many levels."""
    return [nested(levels - 1)] if levels > 1 else []


def responds(levels: int) -> types.Content:
    """Return a message whose JSON has eight levels more."""
    response = types.FunctionResponse(name="tool", response={"a": nested(levels)})
    return types.Content(role="user", parts=[types.Part(function_response=response)])


CALL = types.Part(function_call=types.FunctionCall(id="c", name="pay", args={}))


@pytest.mark.parametrize(
    ("given", "says_why"),
    [
        ({"state_delta": {"x" * 1501: 1}}, "1501 bytes as a Firestore name, the limit is 1500"),
        ({"state_delta": {"app:" + "x" * 1501: 1}}, "1501 bytes as a Firestore name, the limit is 1500"),
        ({"state_delta": {"a": nested(198)}}, "state key 'a' holds more than 197 maps and lists"),
        ({"new_message": responds(195)}, "the message holds more than 199 maps and lists"),
        ({"new_message": types.Content()}, "has no parts"),
        ({"new_message": types.Content(role="user", parts=[])}, "has no parts"),
        ({"new_message": types.Content(role="user", parts=[types.Part(text="x"), CALL])}, "a function_call"),
    ],
)
async def test_a_message_that_no_runner_takes_or_no_event_can_have_does_not_wait(
    store: Store, other: Store, given: dict[str, Any], says_why: str
) -> None:
    """Each later turn of the session would fail at it. What is just within the limits is answered."""
    message = {"new_message": says("one"), **given}
    async with store.turns.hold(**WHO):
        with pytest.raises(InvalidInputError, match=says_why):
            await other.turns.enqueue(**WHO, **message)
        with pytest.raises(InvalidInputError, match=says_why):
            async for _ in other.turns.run(runner_of(other), **WHERE, **message, on_busy="enqueue"):
                pass
        await other.turns.enqueue(**WHO, new_message=responds(194), state_delta={"a": nested(197)})
    with suppress(ValueError, InvalidInputError):  # of a runner that takes the turn at once, or of its event
        async for _ in store.turns.run(runner_of(store), **WHERE, **message):
            pass
    heard = await texts_of(store, runner_of(store), "two")

    assert ["hears two", "answers two"] == heard[-2:]
    assert nested(197) == (await read(store.sessions, WHO)).state["a"]


async def test_the_state_of_a_message_that_waits_becomes_what_its_event_would_store(
    store: Store, other: Store
) -> None:
    """A time is text as in every state; what an event stores as its representation cannot wait."""
    when = {"when": datetime(2026, 1, 2, tzinfo=UTC), "temp:tags": ("a", "b"), "tags": {"b"}}
    async with store.turns.hold(**WHO):
        await other.turns.enqueue(**WHO, new_message=says("one"), state_delta=when)
        for odd, says_what in ((object(), "an? object"), (10**5000, "an integer of over 4,300 digits")):
            with pytest.raises(InvalidInputError, match=f"state_delta holds {says_what}"):
                await other.turns.enqueue(**WHO, new_message=says("odd"), state_delta={"temp:odd": odd})
    await texts_of(store, runner_of(store), "two")

    assert {"when": "2026-01-02T00:00:00Z", "tags": ["b"]} == (await read(store.sessions, WHO)).state


async def test_a_runner_of_another_session_service_is_refused(store: Store, other: Store) -> None:
    """Its appends would not belong to the turn."""
    with pytest.raises(InvalidInputError, match="another session service"):
        await texts_of(store, runner_of(other), "one")


async def test_a_missing_session_is_made_if_the_runner_makes_them(store: Store) -> None:
    """As without a turn."""
    await store.sessions.delete_session(**WHO)
    with pytest.raises(SessionMissingError):
        await texts_of(store, runner_of(store), "one")
    runner = runner_of(store)
    runner.auto_create_session = True
    await texts_of(store, runner, "one", on_busy="enqueue")
    assert whole("one") == await history(store)


@pytest.mark.parametrize("durability", ["event", "turn"])
async def test_a_run_begins_after_the_appends_of_its_process_that_go_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch, durability: Literal["event", "turn"]
) -> None:
    """Those that were acknowledged before they are stored, and those whose caller was cancelled."""
    came, may_go_on = asyncio.Event(), asyncio.Event()
    async with Store.local(folder, durability=durability) as store:
        session = await store.sessions.create_session(**WHO)
        documents = store.sessions.storage.documents
        commit = documents.commit

        async def slow_commit(*args: Any, **kwargs: Any) -> Any:
            came.set()
            await may_go_on.wait()
            return await commit(*args, **kwargs)

        monkeypatch.setattr(documents, "commit", slow_commit)
        appending = asyncio.create_task(store.sessions.append_event(session, event("webhook")))
        await came.wait()
        appending.cancel()  # nothing, if it was acknowledged
        await asyncio.wait([appending])
        calls = Calls(store, monkeypatch)
        running = asyncio.create_task(texts_of(store, runner_of(store), "one"))
        for _ in range(100):
            await asyncio.sleep(0)
        taken = calls.take()
        may_go_on.set()
        assert ["hears one", "answers one"] == await running
        assert (0, 0) == taken
        assert ["webhook", *whole("one")] == await history(store)


class Overtaken(BaseEventsSummarizer):
    """Makes a summary while another process appends an event."""

    def __init__(self, other: Store) -> None:
        self._other = other

    async def maybe_summarize_events(self, *, events: list[Event]) -> Event | None:
        found = await read(self._other.sessions, WHO)
        await self._other.sessions.append_event(found, event("webhook"))
        summary = EventCompaction(
            start_timestamp=events[0].timestamp,
            end_timestamp=events[-1].timestamp,
            compacted_content=says("a summary"),
        )
        return Event(author="user", actions=EventActions(compaction=summary))


@pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")
@pytest.mark.parametrize("durability", ["event", "turn"])
async def test_a_summary_that_another_event_overtook_is_given_up_and_not_its_run(
    folder: Path, other: Store, durability: Literal["event", "turn"]
) -> None:
    """As ADK does: the run has answered already."""
    every = EventsCompactionConfig(compaction_interval=1, overlap_size=0, summarizer=Overtaken(other))
    app = App(name="app", root_agent=Echo(name="echo"), events_compaction_config=every)
    async with Store.local(folder, durability=durability) as store:
        await store.sessions.create_session(**WHO)
        runner = Runner(app=app, session_service=store.sessions)
        assert ["hears one", "answers one"] == await texts_of(store, runner, "one")
        await store.sessions.flush()
    assert [*whole("one"), "webhook"] == await history(other)
