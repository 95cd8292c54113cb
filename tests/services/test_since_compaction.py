"""Read the events that ADK needs since its summaries: agents on such a store ask their model the same."""

import asyncio
import shutil
import zlib
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AsyncExitStack, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import BaseAgent, LlmAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.run_config import RunConfig
from google.adk.apps.app import App, EventsCompactionConfig
from google.adk.apps.llm_event_summarizer import LlmEventSummarizer
from google.adk.events import Event
from google.adk.events.event_actions import EventCompaction
from google.adk.models.llm_request import LlmRequest
from google.adk.runners import Runner
from google.adk.tools.function_tool import FunctionTool
from google.genai import types
from pydantic import Field

from gcp_adk_store import (
    HistoryChange,
    HistoryConfig,
    KmsEnvelope,
    LocalKeyWrapper,
    Point,
    SessionLimits,
    Store,
    StoredDataError,
)
from tests.services.conftest import APP, SESSION, USER, WHO
from tests.support.repeating_model import StandInModel
from tests.support.stored import change, packed, remove, session_path, unpacked
from tests.support.temporary import temporary_folder

pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")
SINCE = HistoryConfig(history="since_compaction")
SMALL = SessionLimits(seal_tail_bytes=1500)
TURNS = 20
WINDOWS: dict[str, Any] = {"history": "since_compaction"}


class Recorder(StandInModel):
    """Keeps what it is asked, and calls a tool at each second question."""

    asked: list[str] = Field(default_factory=list)

    def answer(self, request: LlmRequest) -> types.Part:
        """Answer with a text that depends on the question alone."""
        self.asked.append("\n".join(each.model_dump_json(exclude_none=True) for each in request.contents))
        if request.tools_dict and len(self.asked) % 4 == 1:
            return types.Part(function_call=types.FunctionCall(name="look", args={}))
        return types.Part(text=f"answer {sha256(self.asked[-1].encode()).hexdigest()[:8]} " * 5)


def look() -> str:
    """Look."""
    return "seen"


def running(store: Store) -> tuple[Runner, Recorder]:
    """Return a runner whose app summarizes four invocations at a time, and its model."""
    model = Recorder()
    agent = LlmAgent(name="agent", model=model, tools=[look])
    summarizer = LlmEventSummarizer(llm=Recorder())
    every = EventsCompactionConfig(compaction_interval=4, overlap_size=1, summarizer=summarizer)
    app = App(name=APP, root_agent=agent, events_compaction_config=every)
    return Runner(app=app, session_service=store.sessions, auto_create_session=True), model


async def turn(runner: Runner, text: str, config: RunConfig | None = None) -> None:
    """Take one turn."""
    message = types.Content(role="user", parts=[types.Part(text=text)])
    who: dict[str, Any] = {"user_id": USER, "session_id": SESSION, "new_message": message}
    async for _ in runner.run_async(**who, run_config=config):
        pass


async def talk(folder: Path, config: RunConfig | None = None, *, turns: int = TURNS, **options: Any) -> None:
    """Take so many turns of one session."""
    async with Store.local(folder, session_limits=SMALL, **options) as store:
        runner, model = running(store)
        for number in range(turns):
            await turn(runner, f"question {number}", config)
    assert model.asked


async def ids(store: Store, config: HistoryConfig | None = None) -> list[str]:
    """Return the ids of the events that a read returns."""
    session = await store.sessions.get_session(**WHO, config=config)
    assert session is not None
    return [event.id for event in session.events]


@pytest.fixture(scope="module")
def many_turns() -> Iterator[Path]:
    """A folder with a session that took turns since its newest summary; tests take copies."""
    with temporary_folder() as folder:
        asyncio.run(talk(folder, turns=TURNS + 2, **WINDOWS))
        yield folder


@pytest.fixture
async def since(many_turns: Path, tmp_path: Path) -> AsyncGenerator[Callable[..., Store], None]:
    """Open stores of one folder, with such a session."""
    folder = shutil.copytree(many_turns, tmp_path / "store")
    async with AsyncExitStack() as opened:

        def open_store(**options: Any) -> Store:
            store = Store.local(folder, session_limits=SMALL, **{**WINDOWS, **options})
            opened.push_async_callback(store.close)
            return store

        yield open_store


async def test_the_model_is_asked_the_same_as_with_the_full_history(tmp_path: Path) -> None:
    """Each turn, also after another process has begun, and a fraction of the events is read."""
    full = Store.local(tmp_path / "full", session_limits=SMALL)
    since = Store.local(tmp_path / "since", session_limits=SMALL, **WINDOWS)
    (one, asked), (other, asked_since) = running(full), running(since)
    for number in range(TURNS):
        if number == 13:
            await since.close()
            since = Store.local(tmp_path / "since", session_limits=SMALL, **WINDOWS)
            other, fresh = running(since)
            fresh.asked, asked_since = asked_since.asked, fresh
        await turn(one, f"question {number}")
        await turn(other, f"question {number}")

    assert asked.asked == asked_since.asked
    assert len(await ids(since)) < len(await ids(full)) / 2
    assert len(await ids(since, HistoryConfig())) == len(await ids(full))
    assert await ids(since) == await ids(since)
    await full.close()
    await since.close()


class Payer(StandInModel):
    """Calls the tool `pay` if it is asked to."""

    def answer(self, request: LlmRequest) -> types.Part:
        """Answer the last text."""
        said = (request.contents[-1].parts or [types.Part()])[-1].text
        call = types.FunctionCall(name="pay", args={})
        return types.Part(function_call=call) if said == "pay" else types.Part(text="so be it")


class Outer(BaseAgent):
    """Runs its agent whatever the last event answers, as ADK's workflows do."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        async for event in self.sub_agents[0].run_async(ctx):
            yield event


async def confirm(store: Store, *, takes_back: str | None) -> int:
    """Confirm a payment, and once more after many turns; return how often it was paid.

    Between the two, *takes_back* a rewind the answer, or the question before it is answered.
    """
    paid: list[str] = []

    def pay() -> str:
        paid.append("paid")
        return "paid"

    agent = LlmAgent(name="agent", model=Payer(), tools=[FunctionTool(pay, require_confirmation=True)])
    summarizer = LlmEventSummarizer(llm=Recorder())
    every = EventsCompactionConfig(compaction_interval=4, overlap_size=1, summarizer=summarizer)
    root = Outer(name="root", sub_agents=[agent])
    app = App(name=APP, root_agent=root, events_compaction_config=every)
    runner = Runner(app=app, session_service=store.sessions, auto_create_session=True)
    await turn(runner, "pay")
    session = await store.sessions.get_session(**WHO)
    assert session is not None
    name = "adk_request_confirmation"
    (asked,) = (call.id for each in session.events for call in each.get_function_calls() if call.name == name)
    said = types.FunctionResponse(id=asked, name=name, response={"confirmed": True})
    answer = types.Content(role="user", parts=[types.Part(function_response=said)])
    who: dict[str, Any] = {"user_id": USER, "session_id": SESSION}
    if takes_back != "question":
        await turn(runner, "wait")
        async for _ in runner.run_async(**who, new_message=answer):
            pass
    if takes_back is not None:
        session = await store.sessions.get_session(**WHO)
        assert session is not None
        last = session.events[-1].invocation_id
        await runner.rewind_async(**who, rewind_before_invocation_id=last)
    for number in range(TURNS):
        await turn(runner, f"question {number}")
    with suppress(ValueError):  # of ADK, which does not find the question any more
        async for _ in runner.run_async(**who, new_message=answer):
            pass
    return len(paid)


@pytest.mark.parametrize("takes_back", [None, "answer", "question"])
async def test_a_tool_that_is_confirmed_again_runs_as_often_as_with_the_full_history(
    takes_back: str | None,
) -> None:
    """Also if a rewind took back the answer, or the question. With all events, ADK 2.8 may run it again."""
    async with Store.local(":memory:") as full, Store.local(":memory:", **WINDOWS) as since:
        most, paid = [await confirm(store, takes_back=takes_back) for store in (full, since)]

    assert 1 <= paid <= most


async def test_one_read_and_one_run_may_ask_for_another_history(tmp_path: Path) -> None:
    """By a config of ADK's, which its runner hands on."""
    await talk(tmp_path, RunConfig(get_session_config=SINCE))
    async with Store.local(tmp_path, session_limits=SMALL) as store:
        assert len(await ids(store, SINCE)) < len(await ids(store)) / 2


async def test_what_takes_events_back_is_seen_by_the_next_read(since: Callable[..., Store]) -> None:
    """A rewind, which finds an invocation of the window alone, and a restore, which finds any."""
    store = since()
    runner, _ = running(store)
    before = await ids(store)
    session = await store.sessions.get_session(**WHO, config=HistoryConfig())
    assert session is not None
    old, new = session.events[6], session.events[-1]
    rewind = partial(runner.rewind_async, user_id=USER, session_id=SESSION)
    await rewind(rewind_before_invocation_id=new.invocation_id)

    assert len(before) < len(session.events)
    assert before == (await ids(store))[: len(before)]
    with pytest.raises(ValueError, match="Invocation ID not found"):
        await rewind(rewind_before_invocation_id=old.invocation_id)
    await store.restore_session(**WHO, at=Point.after_event(old.id))
    assert [event.id for event in session.events[:7]] == await ids(store)


async def test_a_number_of_events_that_is_repaired_counts_none_twice(since: Callable[..., Store]) -> None:
    """The process has read the session while the number was too low."""
    store = since()
    right = await ids(store)
    count = len(await ids(store, HistoryConfig()))
    for events in (count - 2, count):
        await change(store, session_path(WHO), {"rev": events})

        assert right == await ids(store)


async def kept(store: Store, documents: Any = None) -> dict[str, bytes]:
    """Return the windows that segments keep, by the paths of these, oldest first."""
    storage = store.sessions.storage
    found = await (documents or storage.documents).query(
        "", storage.layout.segments_collection, all_descendants=True
    )
    windows = {one.path: one.fields["window"] for one in found if "window" in one.fields}
    paths = sorted(windows, key=lambda path: int(path.rpartition("-")[2]))
    return {path: window for path in paths if isinstance(window := windows[path], bytes)}


async def texts_kept(store: Store) -> str:
    """Return all that the windows of segments say."""
    return "\n".join(text for window in (await kept(store)).values() for text in unpacked(window))


async def test_a_new_process_reads_what_the_newest_segment_keeps(since: Callable[..., Store]) -> None:
    """The segments before it may be gone."""
    first = since()
    right = await ids(first)
    paths = [*await kept(first)]
    assert len(paths) > 3
    await remove(first, *paths[:-1])

    assert right == await ids(since())
    with pytest.raises(StoredDataError, match="segment"):
        await ids(since(), HistoryConfig())


async def test_a_redaction_leaves_nothing_of_the_event_in_what_segments_keep(
    since: Callable[..., Store],
) -> None:
    """A summary that each later segment keeps, redacted by a process that knows no window."""
    store = since()
    session = await store.sessions.get_session(**WHO)
    assert session is not None
    old = next(event for event in session.events if event.actions.compaction)
    assert old.id in await texts_kept(store)
    await since(history="full").sessions.redact_event(**WHO, event_id=old.id, reason="asked")

    assert old.id not in await texts_kept(store)
    assert await ids(since()) == await ids(store)
    assert (await store.verify_session(**WHO)).broken is None


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (lambda texts: [*texts, '{"id":"x","author":"user","timestamp":1.0}'], HistoryChange.ADDED),
        (lambda texts: texts[1:], HistoryChange.DROPPED),
    ],
)
async def test_a_proof_finds_what_was_changed_in_a_window(
    since: Callable[..., Store], damage: Callable[[list[str]], list[str]], found: HistoryChange
) -> None:
    """Events that were never appended, and events that a read would lack."""
    store = since()
    newest, window = [*(await kept(store)).items()][-1]
    await change(store, newest, {"window": packed(damage(unpacked(window)))})
    broken = (await store.verify_session(**WHO)).broken

    assert broken is not None
    assert (broken.change, broken.path) == (found, newest)


async def test_a_damaged_window_is_named_found_and_removed(since: Callable[..., Store]) -> None:
    """Then the read takes all segments."""
    store = since()
    right = await ids(store)
    newest = [*await kept(store)][-1]
    await change(store, newest, {"window": b"no window"})
    with pytest.raises(StoredDataError, match=r"window: .* damaged; run: gcp-adk-store fsck --repair"):
        await ids(since())
    faults = [fault async for fault in store.sessions.check()]

    assert [("FSCK210", newest)] == [(one.code, one.path) for one in faults]
    assert faults == await store.sessions.repair(faults)
    assert right == await ids(since())
    assert [] == [fault async for fault in store.sessions.check()]


async def test_forks_and_points_of_such_a_session_are_read_as_any_other(since: Callable[..., Store]) -> None:
    """A fork has all events and no window; a restore goes on with the windows before the point."""
    store = since()
    whole = await ids(store, HistoryConfig())
    every = [each.event.id async for each in store.sessions.iter_events(**WHO)]
    fork = {**WHO, "session_id": "fork"}
    await store.fork_session(**WHO, to_session_id="fork")
    assert all("/fork/" not in path for path in await kept(store))
    assert every == whole == [each.event.id async for each in store.sessions.iter_events(**fork)]
    forked = await since().sessions.get_session(**fork)
    assert forked is not None
    assert [event.id for event in forked.events] == await ids(store)
    await store.restore_session(**WHO, at=Point.position(len(whole) - 8))

    read = await ids(since())
    assert read == [one for one in whole if one in {*read}] != whole[: len(whole) - 8]
    assert read == await ids(store)
    assert (await store.verify_session(**WHO)).broken is None


async def test_a_window_is_kept_only_if_it_can_be_read_again(tmp_path: Path) -> None:
    """Calls of 240 kB that wait for answers compress to little, and a reader unpacks at most 4 MiB."""
    open_store = partial(Store.local, tmp_path, session_limits=SMALL, **WINDOWS)
    async with open_store() as store, open_store() as other:
        session = await store.sessions.create_session(**WHO)
        for number in range(25):
            event = Event(author="agent", invocation_id=f"i{number}")
            if number in (2, 5):
                event.actions.compaction = EventCompaction(
                    start_timestamp=session.events[0].timestamp,
                    end_timestamp=session.events[-1].timestamp,
                    compacted_content=types.Content(role="model", parts=[types.Part(text="asked")]),
                )
            elif number > 5:
                call = types.FunctionCall(id=f"c{number}", name="ask", args={"text": "a" * 240_000})
                event.long_running_tool_ids = {f"c{number}"}
                event.content = types.Content(role="model", parts=[types.Part(function_call=call)])
            await store.sessions.append_event(session, event)
            assert await ids(store)

        assert await ids(other) == await ids(store)


async def test_a_window_is_encrypted_with_the_rest(tmp_path: Path) -> None:
    """Nobody reads it without the key, and a new process with it does."""
    options = {**WINDOWS, "encryption": KmsEnvelope(key=LocalKeyWrapper(bytes(32)))}
    await talk(tmp_path, **options)
    open_store = partial(Store.local, tmp_path, session_limits=SMALL, **options)
    async with open_store() as store, open_store() as other:
        windows = (await kept(store, store.sessions.storage.as_stored)).values()

        assert windows
        for window in windows:
            with pytest.raises(zlib.error):
                unpacked(window)
        assert await ids(other) == await ids(store)
