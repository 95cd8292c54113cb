"""What the session service appends is remembered without a call."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

import pytest
from google.adk.agents import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.runners import Runner
from google.adk.sessions import Session
from google.genai import types
from pydantic import Field

from gcp_adk_store import InvalidInputError, MemoryService, SessionConflictError, Store, UnavailableError
from tests.memory.conftest import USER, said
from tests.support.local_commits import before_commits


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """A store in memory that remembers what is appended."""
    async with Store.local(":memory:", index_on_append=True) as store:
        yield store


async def listed(store: Store) -> list[str | None]:
    """Return what a process that knows nothing yet finds remembered, the oldest first."""
    service = MemoryService(store.sessions.storage)
    page = await service.list_memories(page_size=1000, **USER)
    return [memory.content.parts[0].text for memory in page.memories if memory.content.parts][::-1]


async def test_what_is_appended_is_remembered(store: Store) -> None:
    """Once, with its session; also what a process that did not remember appended before."""
    follower, store.sessions._appender.follower = store.sessions._appender.follower, None
    held = await store.sessions.create_session(session_id="s", **USER)
    await store.sessions.append_event(held, said("before"))
    store.sessions._appender.follower = follower
    for number in range(5):
        await store.sessions.append_event(held, said(f"turn {number}"))
    await store.sessions.append_event(held, held.events[-1])
    await store.sessions.flush()

    assert ["before", *(f"turn {number}" for number in range(5))] == await listed(store)
    found = await store.memory.search_memories(query="turn 3", session_id="s", **USER)
    assert "turn 3" == found[0].memory.content.parts[0].text  # type: ignore[index]


async def test_appends_of_many_sessions_share_commits(store: Store) -> None:
    """While one is under way, the others wait for the next."""
    held = [await store.sessions.create_session(session_id=f"{n}", **USER) for n in range(20)]
    await asyncio.gather(*(store.sessions.append_event(one, said(f"in {one.id}")) for one in held))
    await store.sessions.flush()

    assert {f"in {n}" for n in range(20)} == set(await listed(store))


@pytest.mark.parametrize("has_extract", [False, True])
async def test_events_of_one_commit_are_remembered_once_in_their_order(*, has_extract: bool) -> None:
    """Appends of one session that wait for each other go in one commit."""
    seen: list[str] = []

    def extract(events: Sequence[Event]) -> list[MemoryEntry]:
        seen.extend(event.content.parts[0].text for event in events)  # type: ignore[union-attr,index,misc]
        return []

    options: dict[str, Any] = {"extract": extract} if has_extract else {}
    async with Store.local(":memory:", index_on_append=True, **options) as store:
        held = await store.sessions.create_session(session_id="s", **USER)
        events = [said(f"part {number}", "agent") for number in range(6)]
        await asyncio.gather(*(store.sessions.append_event(held, event) for event in events))
        await store.sessions.flush()

        assert [f"part {number}" for number in range(6)] == (seen if has_extract else await listed(store))


async def test_events_are_remembered_in_their_order_when_appends_return_before_they_are_stored() -> None:
    """Those of an append that failed are not: a later one would find them in the caller's session alone."""
    async with Store.local(":memory:", index_on_append=True, durability="turn") as store:
        held = await store.sessions.create_session(session_id="s", **USER)
        for number in range(6):
            await store.sessions.append_event(held, said(f"part {number}", "agent"))
        await store.sessions.flush()
        assert [f"part {number}" for number in range(6)] == await listed(store)

        held = await store.sessions.create_session(session_id="gone", **USER)
        other = await store.sessions.get_session(session_id="gone", **USER)
        assert other is not None
        await store.sessions.append_event(other, said("of another writer"))
        await store.sessions.flush()

        async def append() -> None:
            await store.sessions.append_event(held, said("refused"))
            await store.sessions.flush()

        with pytest.raises(SessionConflictError):
            await append()
        assert "refused" not in await listed(store)


async def test_an_append_succeeds_when_it_cannot_be_remembered(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, and the next append of the session catches up."""
    held = await store.sessions.create_session(session_id="s", **USER)

    async def refuse(writes: Sequence[Any]) -> None:
        if any("memories" in write.path for write in writes):
            raise UnavailableError("down")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        before_commits(patch, refuse)
        await store.sessions.append_event(held, said("first"))
        await store.sessions.append_event(held, said("second"))
        await store.sessions.flush()
    assert [] == await listed(store)
    assert any("waits for its next append to be remembered" in record.message for record in caplog.records)
    assert not any("first" in record.getMessage() for record in caplog.records)
    await store.sessions.append_event(held, said("third"))
    await store.sessions.flush()

    assert ["first", "second", "third"] == await listed(store)


def test_what_an_event_loop_cut_off_as_it_ended_is_caught_up_with(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As that of a script that neither flushes nor closes, or of a worker with a loop for each call."""
    store = Store.local(":memory:", index_on_append=True)
    arrived = asyncio.Event()

    async def never(writes: Sequence[Any]) -> None:
        if any("memories" in write.path for write in writes):
            arrived.set()
            await asyncio.Event().wait()

    async def cut_off() -> Session:
        held = await store.sessions.create_session(session_id="s", **USER)
        await store.sessions.append_event(held, said("first", author="agent"))
        await arrived.wait()
        return held

    async def go_on(held: Session) -> list[str | None]:
        await store.sessions.append_event(held, said("second"))
        await store.sessions.flush()
        return await listed(store)

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        before_commits(patch, never)
        held = asyncio.run(cut_off())

    assert any("waits for its next append to be remembered" in record.message for record in caplog.records)
    assert ["first", "second"] == asyncio.run(go_on(held))


async def test_an_event_that_no_memory_can_hold_keeps_no_other_from_being_remembered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By an append, or by a call with the session; a warning has its id, and no word of it."""
    async with Store.local(":memory:", index_on_append=True, memory_ttl_seconds=3600) as store:
        held = await store.sessions.create_session(session_id="s", **USER)
        milliseconds = said("late", at=time.time() * 1000)
        for event in (said("first"), milliseconds, said("last"), said("x", author="a" * 300_000)):
            await store.sessions.append_event(held, event)
        await store.sessions.flush()
        assert ["first", "last"] == await listed(store)

        await store.memory.delete_user_memory(**USER)
        caplog.clear()
        await store.memory.add_session_to_memory(held)
        assert ["first", "last"] == await listed(store)
        (warned,) = [each.getMessage() for each in caplog.records]
        assert "2 events of the session cannot be remembered, and are left out" in warned
        assert milliseconds.id in warned
        assert "late" not in warned
        with pytest.raises(InvalidInputError, match="it must be Unix time in seconds"):
            await store.memory.add_events_to_memory(events=[milliseconds], **USER)


@pytest.mark.parametrize("is_async", [False, True])
async def test_facts_are_extracted_from_each_turn_once(*, is_async: bool) -> None:
    """Beside the append, from all events of the turn; another process does not extract them again."""
    seen: list[list[str]] = []

    def extract(events: Sequence[Event]) -> list[MemoryEntry]:
        texts = [
            str(event.content.parts[0].text) for event in events if event.content and event.content.parts
        ]
        seen.append(texts)
        return [MemoryEntry(content=types.Content(parts=[types.Part(text=" + ".join(texts))]))]

    async def later(events: Sequence[Event]) -> list[MemoryEntry]:
        await asyncio.sleep(0)
        return extract(events)

    options: dict[str, Any] = {"index_on_append": True, "extract": later if is_async else extract}
    async with Store.local(":memory:", **options) as store:
        held = await store.sessions.create_session(session_id="s", **USER)
        for number in range(2):
            await store.sessions.append_event(held, said(f"question {number}"))
            await store.sessions.append_event(held, said(f"answer {number}", "agent"))
            await store.sessions.flush()
        again = Store(sessions=store.sessions, artifacts=None, **options)
        await store.sessions.append_event(held, said("thanks"))
        await store.sessions.flush()

        assert [["question 0", "answer 0"], ["question 1", "answer 1"], ["thanks"]] == seen
        assert {"question 0 + answer 0", "question 1 + answer 1", "thanks"} == set(await listed(again))


@pytest.mark.parametrize(
    ("kind", "asked"), [("plain", [1, 1, 1]), ("async", [1, 1, 1]), ("fails once", [1, 2, 1])]
)
async def test_an_extraction_that_fails_is_tried_again_and_one_that_finds_nothing_is_not(
    kind: str, asked: list[int]
) -> None:
    """With the next turn, whatever it raises; it finds nothing if it returns None."""
    calls: list[int] = []

    def extract(events: Sequence[Event]) -> None:
        calls.append(len(events))
        if kind == "fails once" and len(calls) == 1:
            raise ZeroDivisionError

    async def later(events: Sequence[Event]) -> None:
        extract(events)

    made = Store.local(":memory:", index_on_append=True, extract=later if kind == "async" else extract)
    async with made as store:
        held = await store.sessions.create_session(session_id="s", **USER)
        for _ in range(3):
            await store.sessions.append_event(held, said("answer", "agent"))
            await store.sessions.flush()

        assert asked == calls
        assert [] == await listed(store)


async def test_a_fact_that_cannot_be_stored_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """Alone, with a warning: its events are not extracted again at each turn."""
    calls = []

    def extract(events: Sequence[Event]) -> list[MemoryEntry]:
        calls.append(len(events))
        facts = [MemoryEntry(content=types.Content(parts=[types.Part(text=f"fact {n}")])) for n in range(3)]
        facts[1].custom_metadata = {"large": "x" * 20_000}
        return facts

    async with Store.local(":memory:", index_on_append=True, extract=extract) as store:
        held = await store.sessions.create_session(session_id="s", **USER)
        for _ in range(2):
            await store.sessions.append_event(held, said("answer", "agent"))
            await store.sessions.flush()

        assert [1, 1] == calls
        assert ["fact 0", "fact 2"] * 2 == await listed(store)
        assert 2 == caplog.text.count("a memory that extract= returned cannot be stored, and is left out")


def test_extraction_needs_appends_to_be_remembered() -> None:
    """The error says which option is missing."""
    with pytest.raises(InvalidInputError, match="index_on_append=True"):
        Store.local(":memory:", extract=lambda _: [])


async def test_what_is_appended_just_when_a_commit_ends_is_not_left_waiting(store: Store) -> None:
    """Appends of one user, each at another moment of the work before it."""
    held = await store.sessions.create_session(session_id="s", **USER)
    for number in range(40):
        await store.sessions.append_event(held, said(f"turn {number}"))
        for _ in range(number):
            await asyncio.sleep(0)
        if number % 7 == 0:
            await store.sessions.flush()
    await store.sessions.flush()

    assert [f"turn {number}" for number in range(40)] == await listed(store)


class Asking(BaseAgent):
    """An agent that searches what it is asked, appends a note, searches again, and answers."""

    found: list[list[tuple[str, float]]] = Field(default_factory=list)

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        await self._search(ctx)
        call = types.Part.from_function_call(name="look", args={})
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=types.Content(parts=[call]))
        await self._search(ctx)
        yield said("It is Rex, of course.", self.name)

    async def _search(self, ctx: InvocationContext) -> None:
        assert ctx.memory_service is not None
        (asked,) = ctx.user_content.parts  # type: ignore[union-attr,misc]
        answer = await ctx.memory_service.search_memory(
            app_name=ctx.app_name, user_id=ctx.user_id, query=str(asked.text)
        )
        self.found.append(
            [
                (str(each.content.parts[0].text), each.custom_metadata["adk_store_score"])
                for each in answer.memories
                if each.content.parts
            ]
        )


FACT = "The name of my dog is Rex"
QUESTION = "What is the name of my dog?"


async def ask(store: Store, session_id: str, text: str, agent: Asking) -> list[tuple[str, float]]:
    """Run a turn; return what its last search found, with the scores."""
    runner = Runner(app_name="app", agent=agent, session_service=store.sessions, memory_service=store.memory)
    message = types.Content(role="user", parts=[types.Part(text=text)])
    async for _ in runner.run_async(user_id="user", session_id=session_id, new_message=message):
        pass
    return agent.found[-1]


async def test_a_turn_does_not_find_its_own_question(store: Store) -> None:
    """It scored 0.48, before the fact with 0.18; the turns before it are found, and later it is, too."""
    for session_id in ("past", "now", "later"):
        await store.sessions.create_session(session_id=session_id, **USER)
    agent = Asking(name="agent")
    assert [] == await ask(store, "past", FACT, agent)
    await store.sessions.flush()

    found = await ask(store, "now", QUESTION, agent)
    assert FACT == found[0][0]
    assert QUESTION not in dict(found)
    assert agent.found[-2] == found

    await store.sessions.flush()
    found = await ask(store, "later", QUESTION, agent)
    assert QUESTION == found[0][0]
    assert found[0][1] > dict(found)[FACT] > 0


async def test_the_end_of_another_turn_does_not_remember_a_question_of_one_that_runs(store: Store) -> None:
    """Of the same user, in another session, or before it in the same one."""
    one = await store.sessions.create_session(session_id="one", **USER)
    two = await store.sessions.create_session(session_id="two", **USER)
    await store.sessions.append_event(one, said("first question"))
    await store.sessions.append_event(one, said("first answer", "agent"))
    await store.sessions.append_event(one, said("second question"))
    await store.sessions.append_event(two, said("other question"))
    await store.sessions.append_event(two, said("other answer", "agent"))
    await asyncio.wait([task for task in asyncio.all_tasks() if task is not asyncio.current_task()])
    ended = {"first question", "first answer", "other question", "other answer"}
    assert ended == set(await listed(store))

    await store.sessions.flush()
    assert "second question" in await listed(store)


async def test_what_waits_of_an_erased_user_is_not_remembered_later(store: Store) -> None:
    """The turn had not ended when the user was erased; the end of the store would end it."""
    held = await store.sessions.create_session(session_id="s", **USER)
    other = await store.sessions.create_session(app_name="app", user_id="other", session_id="s")
    await store.sessions.append_event(held, said("answer", "agent"))
    await store.sessions.append_event(held, said("erased"))
    await store.sessions.append_event(other, said("kept"))
    await store.erase_user(**USER)
    await store.sessions.flush()

    assert [] == await listed(store)
    assert 1 == len((await store.memory.list_memories(app_name="app", user_id="other")).memories)


async def test_what_waits_of_one_user_keeps_no_other_from_being_remembered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor ends a turn of another: the session that has most waits for its next append."""
    monkeypatch.setattr("gcp_adk_store.memory.remembering._WAITING", 20)
    may_go = asyncio.Event()
    other: dict[str, Any] = {"app_name": "app", "user_id": "other"}

    async def extract(events: Sequence[Event]) -> list[MemoryEntry]:
        await may_go.wait()
        return [MemoryEntry(content=event.content) for event in events if event.content]

    async with Store.local(":memory:", index_on_append=True, extract=extract) as store:
        running = await store.sessions.create_session(session_id="running", **other)
        await store.sessions.append_event(running, said("question"))
        for session, count in (("first", 1), ("many", 30), ("endless", 0)):
            held = await store.sessions.create_session(session_id=session, **USER)
            for number in range(count):
                await store.sessions.append_event(held, said(f"{session} {number}", "agent"))
        for number in range(30):
            await store.sessions.append_event(held, said(f"step {number}"))
        ended = await store.sessions.create_session(session_id="ended", **other)
        await store.sessions.append_event(ended, said("fact", "agent"))
        may_go.set()
        await asyncio.wait([task for task in asyncio.all_tasks() if task is not asyncio.current_task()])
        found = (await store.memory.list_memories(**other)).memories
        await store.sessions.flush()

    assert ["fact"] == [each.content.parts[0].text for each in found if each.content.parts]
    warned = [each for each in caplog.messages if "too many" in each]
    assert warned
    assert all("session='many'" in each for each in warned)


async def test_turns_that_never_end_do_not_keep_others_from_being_remembered(
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such as those of agents that failed: one whose turn began first counts as ended."""
    monkeypatch.setattr("gcp_adk_store.memory.remembering._WAITING", 3)
    for number in range(5):
        failed = await store.sessions.create_session(session_id=f"{number}", **USER)
        await store.sessions.append_event(failed, said(f"question {number}"))
    held = await store.sessions.create_session(session_id="s", **USER)
    await store.sessions.append_event(held, said("fact"))
    await store.sessions.append_event(held, said("answer", "agent"))
    await asyncio.wait([task for task in asyncio.all_tasks() if task is not asyncio.current_task()])

    ended = [f"question {number}" for number in range(4)]
    assert [*ended, "fact", "answer"] == await listed(store)
