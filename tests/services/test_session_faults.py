"""Sessions whose answers get lost, whose callers give up, whose event loops end."""

import asyncio
import gc
import math
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from google.adk.sessions import Session
from google.cloud.firestore import AsyncClient

from gcp_adk_store import (
    FirestoreSessionService,
    InvalidInputError,
    OutcomeUnknownError,
    SessionConflictError,
    SessionExistsError,
    SessionLimits,
    SessionMissingError,
    StoredDataError,
    UnavailableError,
)
from tests.services.conftest import (
    APP,
    SESSION,
    USER,
    WHO,
    Connect,
    LosesAllButTheFirst,
    LosesOneWhile,
    LostAnswers,
    event,
    texts,
)
from tests.support.clock import PassingTime
from tests.support.http2 import silent_http2

pytestmark = pytest.mark.emulators


class BeforeEveryCommit(grpc.aio.UnaryUnaryClientInterceptor):
    """Lets something happen before each commit is sent."""

    def __init__(self, happens: Callable[[], Awaitable[None]]) -> None:
        self._happens = happens

    async def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        """Let it happen, then send *request*."""
        await self._happens()
        return await continuation(details, request)


@pytest.mark.parametrize("lost", [1, 3])
async def test_an_append_whose_answers_are_lost_happens_once(connect: Connect, lost: int) -> None:
    """Event and state are stored once, and the handle is current."""
    held = await connect().create_session(**WHO)
    losing = connect(interceptors=[LostAnswers(lost)])
    await losing.append_event(held, event("one", delta={"mine": 1, "user:n": 1}))
    await losing.append_event(held, event("two"))
    found = await connect().get_session(**WHO)

    assert held == found
    assert ["one", "two"] == texts(held.events)


async def test_an_append_without_a_marker_happens_once_too(connect: Connect) -> None:
    """It stands on what it saw of the session: sent again, it is refused and found to be stored."""
    held = await connect().create_session(**WHO)
    bare = Session.model_validate_json(held.model_dump_json())
    interceptor = LostAnswers(1)
    await connect(interceptors=[interceptor]).append_event(bare, event("one", delta={"mine": 1}))
    found = await connect().get_session(**WHO)

    assert 2 == interceptor.seen
    assert found is not None
    assert (["one"], {"mine": 1}) == (texts(found.events), found.state)


async def test_an_append_that_never_left_is_sent_again(connect: Connect) -> None:
    """A connection that fails before the request is out costs a retry, no event."""
    held = await connect().create_session(**WHO)
    interceptor = LostAnswers(2, before_sending=True)
    await connect(interceptors=[interceptor]).append_event(held, event("one"))

    assert 3 == interceptor.seen
    assert held == await connect().get_session(**WHO)


async def test_a_lost_append_that_others_overtook_is_no_conflict(connect: Connect) -> None:
    """It is stored; the handle is told at its next append that others came after."""
    held = await connect().create_session(**WHO)

    async def overtake() -> None:
        other = await connect().get_session(**WHO)
        assert other is not None
        await connect().append_event(other, event("overtaking"))

    await connect(interceptors=[LosesOneWhile(overtake)]).append_event(held, event("lost"))
    found = await connect().get_session(**WHO)

    assert found is not None
    assert ["lost", "overtaking"] == texts(found.events)
    assert ["lost"] == texts(held.events)
    with pytest.raises(ValueError, match="modified in storage"):
        await connect().append_event(held, event("late"))


async def test_a_lost_append_is_found_in_the_segment_that_it_was_sealed_into(connect: Connect) -> None:
    """Another process may seal between the commit and the look at it."""
    held = await connect().create_session(**WHO)

    async def seal() -> None:
        other = await connect().get_session(**WHO)
        assert other is not None
        await connect(limits=SessionLimits(seal_tail_bytes=1)).append_event(other, event("sealing"))

    await connect(interceptors=[LosesOneWhile(seal)]).append_event(held, event("lost"))
    found = await connect().get_session(**WHO)

    assert found is not None
    assert ["lost", "sealing"] == texts(found.events)


@pytest.mark.parametrize("marked", [True, False])
async def test_a_lost_append_is_found_however_often_others_sealed(connect: Connect, marked: bool) -> None:  # noqa: FBT001
    """As many segments are read as the append can lie in, so it is never stored twice."""
    held = await connect().create_session(**WHO)
    if not marked:
        held = Session.model_validate_json(held.model_dump_json())
    sealing = connect(limits=SessionLimits(seal_tail_bytes=1))

    async def seal_twice() -> None:
        other = await connect().get_session(**WHO)
        assert other is not None
        for number in range(3):
            await sealing.append_event(other, event(f"{number}"))

    await connect(interceptors=[LosesOneWhile(seal_twice)]).append_event(held, event("lost"))
    found = await connect().get_session(**WHO)

    assert found is not None
    assert ["lost", "0", "1", "2"] == texts(found.events)


@pytest.mark.usefixtures("passing")
async def test_an_append_whose_tail_cannot_be_sealed_has_succeeded(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """Sealing is put off, with a warning; a later append does it."""
    held = await connect().create_session(**WHO)

    limits = SessionLimits(seal_tail_bytes=1)
    failing = LosesAllButTheFirst()
    await connect(interceptors=[failing], limits=limits).append_event(held, event("one"))
    await connect(limits=limits).append_event(held, event("two"))

    assert "session_id='session': sealing is put off: OutcomeUnknownError" in caplog.text
    assert held == await connect().get_session(**WHO)
    assert ["one", "two"] == texts(held.events)


async def test_a_delete_that_others_always_come_before_ends_in_time(
    connect: Connect, passing: PassingTime
) -> None:
    """It gives up at the service's deadline, says so, and removes nothing."""
    held = await connect().create_session(**WHO)
    other = connect()

    async def append() -> None:
        await other.append_event(held, event("other"))
        passing.for_library(16)  # of the 30 seconds that there are

    service = connect(interceptors=[BeforeEveryCommit(append)])
    async with asyncio.timeout(60):
        with pytest.raises(UnavailableError, match="other writers were first on every try") as caught:
            await service.delete_session(**WHO)

    assert 2 == caught.value.attempts
    assert held == await connect().get_session(**WHO)


async def test_a_create_whose_answer_is_lost_succeeds(connect: Connect) -> None:
    """It recognises its own session; anyone else's id of that name still refuses."""
    made = await connect(interceptors=[LostAnswers(1)]).create_session(**WHO, state={"user:n": 1})
    with pytest.raises(SessionExistsError):
        await connect(interceptors=[LostAnswers(1)]).create_session(**WHO)

    assert made == await connect().get_session(**WHO)


async def test_a_lost_create_that_others_appended_to_is_stale(connect: Connect) -> None:
    """Its handle knows nothing of their events, so its first append is a conflict."""

    async def append() -> None:
        other = await connect().get_session(**WHO)
        assert other is not None
        await connect().append_event(other, event("other"))

    service = connect(interceptors=[LosesOneWhile(append)])
    made = await service.create_session(**WHO)
    with pytest.raises(SessionConflictError):
        await service.append_event(made, event("mine"))
    found = await connect().get_session(**WHO)

    assert found is not None
    assert ["other"] == texts(found.events)


async def test_an_equal_event_of_another_worker_hides_no_conflict(connect: Connect) -> None:
    """Where events came between that this handle never saw, its next append is told."""
    await connect().create_session(**WHO)
    mine, theirs = await connect().get_session(**WHO), await connect().get_session(**WHO)
    assert mine is not None
    assert theirs is not None
    same = event("same")
    await connect().append_event(theirs, event("between"))
    await connect().append_event(theirs, same.model_copy(deep=True))
    await connect().append_event(mine, same)
    with pytest.raises(SessionConflictError):
        await connect().append_event(mine, event("next"))
    found = await connect().get_session(**WHO)

    assert found is not None
    assert ["between", "same"] == texts(found.events)


@pytest.mark.usefixtures("passing")
async def test_what_an_interrupted_deletion_left_goes_with_the_next_session_of_that_id(
    connect: Connect, raw_documents: Any, small_segments: SessionLimits
) -> None:
    """A re-created session does not hide the notes of the one before."""
    sealing = connect(limits=small_segments)
    held = await sealing.create_session(**WHO)
    for number in range(12):
        await sealing.append_event(held, event(f"{number}"))

    failing = LosesAllButTheFirst()
    with pytest.raises(OutcomeUnknownError):
        await connect(interceptors=[failing]).delete_session(**WHO)
    await sealing.create_session(**WHO)
    await sealing.delete_session(**WHO)

    assert {} == raw_documents()


async def test_a_delete_whose_answers_are_lost_is_complete(
    connect: Connect, raw_documents: Any, small_segments: SessionLimits
) -> None:
    """Segments included, at every commit of the deletion."""
    for lost in (1, 2):
        sealing = connect(limits=small_segments)
        held = await sealing.create_session(**WHO)
        for number in range(12):
            await sealing.append_event(held, event(f"{number}"))
        await connect(interceptors=[LostAnswers(lost)]).delete_session(**WHO)
        assert {} == raw_documents()


@pytest.mark.usefixtures("passing")
async def test_a_deletion_that_was_interrupted_is_completed_by_the_next(
    connect: Connect, raw_documents: Any, small_segments: SessionLimits
) -> None:
    """The session is gone at once; what was left is found by its note, even under a new session."""
    sealing = connect(limits=small_segments)
    held = await sealing.create_session(**WHO)
    for number in range(12):
        await sealing.append_event(held, event(f"{number}"))

    failing = LosesAllButTheFirst()
    with pytest.raises(OutcomeUnknownError):
        await connect(interceptors=[failing]).delete_session(**WHO)
    left = {path.split("/")[-2] for path in raw_documents()}
    assert await sealing.get_session(**WHO) is None
    await sealing.delete_session(**WHO)

    assert {"adk_segments", "adk_deletions"} == left
    assert {} == raw_documents()


@pytest.mark.usefixtures("passing")
async def test_an_append_that_is_never_answered_says_that_its_outcome_is_unknown(connect: Connect) -> None:
    """After its deadline; the caller's session stays as it was."""
    held = await connect().create_session(**WHO)
    before = held.model_copy(deep=True)
    silent = connect(interceptors=[LostAnswers(-1, before_sending=True)])
    with pytest.raises(OutcomeUnknownError) as caught:
        await silent.append_event(held, event("one"))

    assert not isinstance(caught.value, UnavailableError)
    assert before == held
    assert held == await connect().get_session(**WHO)


async def test_a_cancelled_append_leaves_the_session_in_step_with_storage(connect: Connect) -> None:
    """Once it is sent it is seen through, so that the abort event appended next is not stale."""
    held = await connect().create_session(**WHO)
    sent = asyncio.Event()
    may_answer = asyncio.Event()

    class Pausing(grpc.aio.UnaryUnaryClientInterceptor):
        async def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
            call = await continuation(details, request)
            await call
            sent.set()
            await may_answer.wait()
            return call

    service = connect(interceptors=[Pausing()])
    append = asyncio.create_task(service.append_event(held, event("turn")))
    await sent.wait()
    append.cancel()
    with pytest.raises(asyncio.CancelledError):
        await append
    may_answer.set()
    await service.append_event(held, event("abort"))

    assert ["turn", "abort"] == texts(held.events)
    assert held == await connect().get_session(**WHO)


async def test_an_append_cancelled_before_its_turn_was_never_sent(connect: Connect) -> None:
    """It waited for another of the same session; nothing of it is stored."""
    held = await connect().create_session(**WHO)
    sent, may_answer = asyncio.Event(), asyncio.Event()

    class Pausing(grpc.aio.UnaryUnaryClientInterceptor):
        async def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
            sent.set()
            await may_answer.wait()
            return await continuation(details, request)

    service = connect(interceptors=[Pausing()])
    first = asyncio.create_task(service.append_event(held, event("first")))
    await sent.wait()
    queued = asyncio.create_task(service.append_event(held, event("queued")))
    await asyncio.sleep(0)  # lets it queue, no more
    queued.cancel()
    with pytest.raises(asyncio.CancelledError):
        await queued
    may_answer.set()
    await first
    await service.append_event(held, event("last"))

    assert ["first", "last"] == texts(held.events)
    assert held == await connect().get_session(**WHO)


async def test_a_loop_that_ends_all_its_tasks_leaves_the_turn_to_others(connect: Connect) -> None:
    """As ``asyncio.run`` does: also for an append that had its turn and had not begun."""
    service = connect()
    held = await service.create_session(**WHO)
    outer = asyncio.create_task(service.append_event(held, event("never")))
    await asyncio.sleep(0)  # lets it take its turn and make its task, no more
    ended = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in ended:
        task.cancel()
    await asyncio.wait(ended)
    async with asyncio.timeout(60):
        await service.append_event(held, event("next"))

    assert outer.cancelled()
    assert 2 == len(ended)
    assert ["next"] == texts(held.events)
    assert held == await service.get_session(**WHO)


@pytest.mark.parametrize("ending", ["close", "flush"])
async def test_closing_waits_for_an_append_that_nobody_awaits(connect: Connect, ending: str) -> None:
    """A turn that was cancelled just before the shutdown is not lost; ADK's servers only flush."""
    service = connect()
    held = await service.create_session(**WHO)
    append = asyncio.create_task(service.append_event(held, event("last")))
    await asyncio.sleep(0)  # lets the append start, no more
    append.cancel()
    await getattr(service, ending)()
    stored = texts(held.events)
    with pytest.raises(asyncio.CancelledError):
        await append

    assert ["last"] == stored
    assert held == await connect().get_session(**WHO)


def test_flushing_is_not_disturbed_by_appends_of_other_threads() -> None:
    """It waits for those of its own loop, whatever begins and ends meanwhile; these are never sent."""
    service = FirestoreSessionService(project="demo")
    held = [Session(id=f"{number}", app_name=APP, user_id=USER) for number in range(20)]
    broken = event("no time", at=math.nan)
    started, done = threading.Event(), threading.Event()

    async def append() -> None:
        while not done.is_set():
            started.set()
            ends = await asyncio.gather(
                *(service.append_event(one, broken) for one in held), return_exceptions=True
            )
            assert {InvalidInputError} == {type(end) for end in ends}

    async def flush() -> None:
        started.wait()
        for _ in range(20_000):
            await service.flush()

    def collected(_phase: str, _info: dict[str, int]) -> None:
        """Python code inside of what is one step of the interpreter, as finalizers are: threads change."""
        for _ in range(1000):
            pass

    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.callbacks.append(collected)
    gc.set_threshold(1)
    try:
        with ThreadPoolExecutor() as threads:
            appending = threads.submit(asyncio.run, append())
            try:
                asyncio.run(flush())
            finally:
                done.set()
            appending.result()
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.pop()
        sys.setswitchinterval(interval)


def test_one_service_serves_one_event_loop_after_another(connect: Connect) -> None:
    """As under ``Runner.run()``, which makes a loop for every call."""
    service = connect()
    held = asyncio.run(service.create_session(**WHO))
    for number in range(3):
        asyncio.run(service.append_event(held, event(f"{number}")))

    assert held == asyncio.run(service.get_session(**WHO))
    assert ["0", "1", "2"] == texts(held.events)


def test_one_handle_appended_from_many_threads_loses_nothing(
    connect: Connect, small_segments: SessionLimits
) -> None:
    """Live tools run in threads with loops of their own; turns hold across them, seals included."""
    service = connect(limits=small_segments)
    held = asyncio.run(service.create_session(**WHO))
    failures: list[BaseException] = []

    async def append_ten(name: str) -> None:
        try:
            for number in range(10):
                await service.append_event(held, event(f"{name}{number}"))
        except BaseException as exc:  # noqa: BLE001  # shown below
            failures.append(exc)

    threads = [threading.Thread(target=asyncio.run, args=(append_ten(name),)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [] == failures
    assert held == asyncio.run(service.get_session(**WHO))
    assert sorted(f"{name}{number}" for name in "abcd" for number in range(10)) == sorted(
        filter(None, texts(held.events))
    )


def open_channels() -> int:
    """Return how many gRPC channels of event loops this process holds."""
    gc.collect()
    return sum(issubclass(type(thing), grpc.aio.Channel) for thing in gc.get_objects())


def test_channels_of_event_loops_that_have_ended_are_let_go(connect: Connect) -> None:
    """``Runner.run()`` makes a loop for every turn: each would keep a connection for ever."""
    service = connect()
    held = asyncio.run(service.create_session(**WHO))
    before = open_channels()
    for number in range(20):
        asyncio.run(service.append_event(held, event(f"{number}")))

    assert before == open_channels() > 0
    assert 20 == len(held.events)


async def test_a_borrowed_client_is_used_and_left_open(project: str, connect: Connect) -> None:
    """Its project decides, and it still works after the service is closed."""
    client = AsyncClient(project=project)
    service = FirestoreSessionService(client=client)
    made = await service.create_session(**WHO)
    await service.append_event(made, event("one"))
    await service.close()
    document = await client.document(f"adk_apps/{APP}/adk_users/{USER}/adk_sessions/{SESSION}").get()

    assert 1 == document.get("rev")
    assert made == await connect().get_session(**WHO)


async def test_two_prefixes_never_see_each_other(connect: Connect) -> None:
    """Neither sessions nor shared state, in one database."""
    blue, green = connect(prefix="blue"), connect(prefix="green")
    await blue.create_session(**WHO, state={"user:n": 1, "app:m": 1})
    fresh = await green.create_session(**WHO)

    assert {} == fresh.state
    assert 1 == len((await green.list_sessions(app_name=APP)).sessions)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 3}, "format 3, this release reads 2"),
        ({"chain": b"x"}, "session has a field that cannot be right: chain"),
        ({"rev": 1, "tail": ['{"author": 5}'], "tail_bytes": 13}, "event 0: .*google-adk at: author"),
        ({"rev": 1, "sealed": 1, "sealed_max": 1.0}, "segments is missing"),
        ({"sealed": 1, "sealed_max": 1.0}, "session has a field that cannot be right: rev"),
        ({"state": {"k": {"unheard": "of"}}}, "unknown to this release"),
    ],
)
async def test_documents_that_cannot_be_read_are_a_typed_error(
    connect: Connect, project: str, change: dict[str, Any], message: str
) -> None:
    """It says where, never guesses, and shows no content."""
    await connect().create_session(**WHO)
    client = AsyncClient(project=project)
    await client.document(f"adk_apps/{APP}/adk_users/{USER}/adk_sessions/{SESSION}").update(change)

    with pytest.raises(StoredDataError, match=message):
        await connect().get_session(**WHO)


async def test_a_database_that_does_not_answer_is_a_typed_error(
    monkeypatch: pytest.MonkeyPatch, passing: PassingTime
) -> None:
    """Nothing was written, and the caller is told to try again."""
    async with silent_http2(on_connection=lambda: passing.for_library(60)) as address:
        monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", f"http://{address}/")
        service = FirestoreSessionService()

        told = rf"get_session.*emulator at {address} .FIRESTORE_EMULATOR_HOST.*DEADLINE_EXCEEDED"
        with pytest.raises(UnavailableError, match=told):
            await service.get_session(**WHO)
        await service.close()


@pytest.mark.parametrize("known", [True, False])
async def test_an_append_never_lands_in_a_later_session_of_the_id(connect: Connect, known: bool) -> None:  # noqa: FBT001  # two cases
    """Merging, and through a handle without a marker: the session that it was meant for is gone."""
    other = connect()
    made = await other.create_session(**WHO)
    handle = await other.get_session(**WHO) if known else Session.model_validate_json(made.model_dump_json())
    assert handle is not None
    if known:
        await other.append_event(made, event("others'"))

    async def replaced() -> None:
        await other.delete_session(**WHO)
        await other.create_session(**WHO)

    mine = connect(on_conflict="merge", interceptors=[LosesOneWhile(replaced, before_sending=True)])
    with pytest.raises(SessionMissingError):
        await mine.append_event(handle, event("meant for another"))
    found = await other.get_session(**WHO)

    assert found is not None
    assert [] == found.events
