"""Sessions: what a runner and a user rely on, their ends, lost answers, and callers and loops that end."""

import asyncio
import gc
import math
import sys
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.adk.agents.context import Context
from google.adk.apps import App
from google.adk.events import Event, EventActions
from google.adk.runners import Runner
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.workflow import START, Workflow
from google.cloud.firestore import Client
from google.genai import types

from gcp_adk_store import (
    FirestoreSessionService,
    InvalidInputError,
    SessionConflictError,
    SessionLimits,
    SessionMissingError,
    SessionService,
    Store,
    StoredDataError,
    UnavailableError,
)
from gcp_adk_store.testing.conformance.running import event, read
from tests.services.conftest import APP, SESSION, USER, WHO, Connect, picture, texts
from tests.support.clock import Clock
from tests.support.lengths import at_length
from tests.support.local_commits import before_commits
from tests.support.stored import overwrite


async def test_state_that_json_cannot_hold_is_logged_by_its_key(
    sessions: SessionService, caplog: pytest.LogCaptureFixture
) -> None:
    """On creation and on an append; the text of such a value is stored."""
    held = await sessions.create_session(**WHO, state={"made": Client})
    await sessions.append_event(held, event(delta={"changed": Client}))

    assert {"made": str(Client), "changed": str(Client)} == held.state
    assert [
        f"state key {key!r} holds a type, which JSON cannot hold; its text is stored instead"
        for key in ("made", "changed")
    ] == caplog.messages


async def test_events_of_a_sealed_tail_may_come_again(connect: Connect) -> None:
    """To another process, through a handle without events: they are other events then, and are counted."""
    limits = SessionLimits(seal_tail_bytes=1)
    first = event("first")
    writer = connect(limits=limits)
    await writer.append_event(await writer.create_session(**WHO), first)
    other = connect(limits=limits)
    held = await read(other, WHO, config=GetSessionConfig(num_recent_events=0))
    await other.append_event(held, first)
    info = await other.get_session_info(**WHO)

    assert ["first"] * 2 == texts((await read(other, WHO)).events)
    assert info is not None
    assert 2 == info.events


async def test_a_handle_without_a_marker_merges_and_never_overwrites(
    sessions: SessionService,
) -> None:
    """Such as one that travelled as JSON: its keys are added to what others stored."""
    held = await sessions.create_session(**WHO, state={"a": 1})
    stale = Session.model_validate_json(held.model_dump_json())
    await sessions.append_event(held, event("one", delta={"b": 2}))
    await sessions.append_event(stale, event("two", delta={"c": 3}))
    found = await read(sessions, WHO)

    assert {"a": 1, "b": 2, "c": 3} == found.state
    assert ["one", "two"] == texts(found.events)


async def test_the_sessions_of_a_listing_share_nothing(sessions: SessionService) -> None:
    """What a caller does to one of them, the others do not show; app and user state are read once for all."""
    for number in range(2):
        await sessions.create_session(app_name=APP, user_id=USER, session_id=f"{number}")
    state = {"app:a": {"deep": [1]}, "user:u": [[1]]}
    await sessions.create_session(app_name=APP, user_id=USER, state=state)
    listed = await sessions.list_sessions(app_name=APP, user_id=USER)
    of_app = await sessions.list_sessions(app_name=APP)
    page = await sessions.list_sessions_page(app_name=APP, user_id=USER)

    for first, *others in (listed.sessions, of_app.sessions, page.sessions):
        first.state["app:a"]["deep"].append("mine")
        first.state["user:u"][0].append("mine")
        assert [state] * 2 == [session.state for session in others]


DOUBLED: list[Any] = [1]
for _ in range(24):
    DOUBLED = [DOUBLED, DOUBLED]


@pytest.mark.parametrize("key", ["k", "user:k", "app:k"])
async def test_what_shares_its_parts_a_million_times_is_refused_before_anything_is_written(
    sessions: SessionService, raw_documents: Any, key: str
) -> None:
    """In a new session, in a change of state, in an event; the session goes on."""
    held = await sessions.create_session(**WHO)
    before = raw_documents()
    noted = event("noted")
    noted.custom_metadata = {"k": DOUBLED}
    with pytest.raises(InvalidInputError, match=f"state key '{key}' takes at least .*max_values is 2000000"):
        await sessions.create_session(app_name=APP, user_id=USER, state={key: DOUBLED})
    with pytest.raises(InvalidInputError, match=f"state key '{key}' takes at least .*max_values is 2000000"):
        await sessions.append_event(held, event("a", delta={key: DOUBLED}))
    with pytest.raises(InvalidInputError, match=r"event .* takes at least .*max_values is 2000000"):
        await sessions.append_event(held, noted)

    assert before == raw_documents()
    await sessions.append_event(held, event("b"))
    assert held == await sessions.get_session(**WHO)


async def test_an_event_over_the_limit_of_payloads_is_refused_before_anything_is_written(
    connect: Connect, raw_documents: Any
) -> None:
    """The error gives size, limit and the setting; the session goes on."""
    small = connect(limits=SessionLimits(max_payload_bytes=300_000))
    held = await small.create_session(**WHO)
    before = raw_documents()
    with pytest.raises(
        InvalidInputError, match=r"takes at least \d+ bytes as JSON, .*max_payload_bytes is 300000"
    ):
        await small.append_event(held, event("x" * 400_000))
    with pytest.raises(
        InvalidInputError, match=r"'big' takes at least 400001 bytes as JSON, .*max_payload_bytes is 300000"
    ):
        await small.create_session(app_name=APP, user_id=USER, state={"big": "x" * 400_000})
    untouched = raw_documents()
    await small.append_event(held, event("fits"))

    assert before == untouched
    assert ["fits"] == texts(held.events)
    assert held == await small.get_session(**WHO)


async def test_a_document_that_is_full_makes_room_by_sealing(connect: Connect) -> None:
    """State and unsealed events share Firestore's 1 MiB; the events can leave."""
    roomy = connect(limits=SessionLimits(seal_tail_bytes=10**9))
    held = await roomy.create_session(**WHO, state={f"k{n}": "x" * 60_000 for n in range(14)})
    for number in range(12):
        await roomy.append_event(held, event(f"{number}" + "y" * 20_000))

    assert 12 == len(held.events)
    assert held == await roomy.get_session(**WHO)


@pytest.mark.emulators
async def test_state_over_firestores_document_limit_is_a_typed_error(
    sessions: SessionService,
) -> None:
    """What the server refuses names the limit and leaves the session as it was."""
    held = await sessions.create_session(**WHO, state={f"k{n}": "x" * 60_000 for n in range(16)})
    before = held.model_copy(deep=True)
    with pytest.raises(InvalidInputError, match="1 MiB"):
        await sessions.append_event(held, event(delta={f"m{n}": "x" * 60_000 for n in range(3)}))

    assert before == held
    assert held == await sessions.get_session(**WHO)


@pytest.mark.emulators
async def test_a_field_that_a_deployment_adds_does_not_disturb(
    sessions: SessionService, project: str
) -> None:
    """Such as the time of its own TTL policy."""
    held = await sessions.create_session(**WHO)
    client = Client(project=project)
    path = f"adk_apps/{APP}/adk_users/{USER}/adk_sessions/{SESSION}"
    client.document(path).update({"expire_at": datetime(2030, 1, 1, tzinfo=UTC)})
    client.close()
    found = await read(sessions, WHO)
    await sessions.append_event(found, event("goes on"))

    assert held.id == found.id
    assert ["goes on"] == texts(found.events)


async def test_a_handle_that_only_missed_a_seal_is_not_stale(
    connect: Connect, small_segments: SessionLimits
) -> None:
    """Sealing moves events, it adds none: the other handle's append goes through."""
    keeping, sealing = connect(), connect(limits=small_segments)
    held = await keeping.create_session(**WHO)
    for number in range(5):
        await keeping.append_event(held, event(f"{number}"))
    other = await read(sealing, WHO)
    await sealing.append_event(other, event("5"))  # leaves a seal behind
    unsealed = (await read(keeping, WHO)).model_copy(deep=True)
    marker = unsealed._storage_update_marker or ""
    unsealed._storage_update_marker = f"{marker.rpartition('/')[0]}/1.000000000"
    await keeping.append_event(unsealed, event("6"))
    found = await read(keeping, WHO)

    assert [str(number) for number in range(7)] == texts(found.events)


async def turn(running: Runner, text: str) -> list[Event]:
    """Take one turn."""
    message = types.Content(role="user", parts=[types.Part(text=text)])
    return [event async for event in running.run_async(user_id=USER, session_id=SESSION, new_message=message)]


async def fill(ctx: Context) -> AsyncGenerator[Event, None]:
    """Write in place into a list of the state, and say something, three times."""
    basket = ctx.state.setdefault("basket", [])
    for number in range(3):
        basket.append(number)
        yield Event(content=types.ModelContent(f"{number}"))
        basket = ctx.state["basket"]
        basket.append("between")


@pytest.mark.parametrize("options", [{}, {"durability": "turn"}, {"redactors": [list]}], ids=str)
async def test_what_an_agent_writes_in_place_is_stored_also_after_an_append(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    """As by ADK's own service: newer ADKs record it as long as the session holds the agent's own list."""
    found = []
    async with Store.local(tmp_path / "store", **options) as store:
        for service in (SqliteSessionService(f"{tmp_path}/adk.db"), store.sessions):
            await service.create_session(**WHO)
            agent = Workflow(name="filler", edges=[(START, fill)])
            await turn(Runner(app=App(name=APP, root_agent=agent), session_service=service), "go")
            session = await read(service, WHO)
            found.append((session.state, [event.actions.state_delta for event in session.events]))

    assert found[0] == found[1]
    assert {"basket": [0]} in found[1][1]


async def test_a_merge_keeps_what_an_agent_has_written_in_place(tmp_path: Path) -> None:
    """It is in no event yet; what another process changed is that of the other."""
    async with Store.local(tmp_path, on_conflict="merge") as store, Store.local(tmp_path) as other:
        held = await store.sessions.create_session(**WHO, state={"basket": ["pear"], "theirs": ["old"]})
        change = EventActions(state_delta={"theirs": ["new"]})
        await other.sessions.append_event(
            await read(other.sessions, WHO), Event(author="webhook", actions=change)
        )
        held.state["basket"].append("plum")
        await store.sessions.append_event(held, Event(author="another branch"))
        change = EventActions(state_delta={"basket": held.state["basket"]})
        await store.sessions.append_event(held, Event(author="agent", actions=change))

        assert held == await read(store.sessions, WHO)
    assert {"basket": ["pear", "plum"], "theirs": ["new"]} == held.state


TTL = 1000
HEADER = f"adk_apps/{APP}/adk_users/{USER}/adk_sessions/{SESSION}"


async def test_an_expired_session_has_no_usage_and_no_events(clock: Clock, sessions: SessionService) -> None:
    """Even while Firestore still has it, and after a cursor in it."""
    owner: dict[str, Any] = {"app_name": APP, "user_id": USER}
    short = await sessions.create_session(**WHO, ttl_seconds=100)
    await sessions.append_event(short, event("short"))
    clock.after(1)
    lasting = await sessions.create_session(app_name=APP, user_id=USER, session_id="lasting")
    await sessions.append_event(lasting, event("lasting"))
    first = [one async for one in sessions.iter_user_events(**owner, limit=1)]
    clock.after(100)
    found = [one.event async for one in sessions.iter_user_events(**owner)]
    rest = [one.event async for one in sessions.iter_user_events(**owner, cursor=first[0].cursor)]

    assert ["short"] == texts([one.event for one in first])
    assert ["lasting"] == texts(found) == texts(rest)
    with pytest.raises(SessionMissingError, match="the session does not exist"):
        await sessions.get_session_usage(**WHO)


async def test_what_comes_too_late_leaves_nothing_behind(
    clock: Clock, connect: Connect, raw_documents: Any
) -> None:
    """No payload is put for an append to a session that has ended."""
    service = connect(limits=SessionLimits(inline_bytes=100))
    held = await service.create_session(**WHO, ttl_seconds=TTL)
    clock.after(TTL)
    with pytest.raises(SessionMissingError):
        await service.append_event(held, picture(b"x" * 200))

    assert [HEADER] == list(raw_documents())


async def test_a_service_may_end_all_sessions_that_it_makes(clock: Clock, connect: Connect) -> None:
    """Those that ADK's servers make, which know of no time to live; what a caller asks for comes first."""
    service = connect(default_ttl_seconds=TTL)
    await service.create_session(**WHO)
    longer = await service.create_session(
        app_name=APP, user_id=USER, session_id="longer", ttl_seconds=2 * TTL
    )
    clock.after(TTL)

    assert await service.get_session(**WHO) is None
    assert longer == await service.get_session(app_name=APP, user_id=USER, session_id="longer")
    with pytest.raises(InvalidInputError, match="ttl_seconds is -1"):
        connect(default_ttl_seconds=-1)


async def test_a_handle_that_missed_that_others_moved_the_end_is_stale_not_missing(
    clock: Clock,
    sessions: SessionService,
) -> None:
    """What it remembers of the end is not the truth."""
    await sessions.create_session(**WHO, ttl_seconds=TTL)
    one, two = await read(sessions, WHO), await read(sessions, WHO)
    clock.after(TTL - 1)
    await sessions.append_event(one, event("first"))
    clock.after(TTL - 1)

    with pytest.raises(SessionConflictError):
        await sessions.append_event(two, event("second"))


@pytest.mark.emulators
async def test_an_expired_session_makes_way_whatever_it_leaves(
    clock: Clock, connect: Connect, adk_store_bucket: str, raw_documents: Any
) -> None:
    """What this service cannot reach is noted, and goes with the next deletion by one that can."""
    limits = SessionLimits(inline_bytes=100)
    with_bucket = connect(limits=limits, bucket=adk_store_bucket)
    held = await with_bucket.create_session(**WHO, ttl_seconds=TTL)
    await with_bucket.append_event(held, picture(b"x" * 200))
    clock.after(TTL)
    made = await connect().create_session(**WHO)
    noted = [path for path in raw_documents() if "_deletions/" in path]
    await with_bucket.delete_session(**WHO)

    assert [] == made.events
    assert 1 == len(noted)
    assert {} == raw_documents()


async def test_a_segment_that_is_gone_when_it_is_to_be_renewed_is_named(
    clock: Clock, connect: Connect
) -> None:
    """The session is damaged; going on would hide it."""
    service = connect(limits=SessionLimits(seal_tail_bytes=1))
    held = await service.create_session(**WHO, ttl_seconds=TTL)
    for pause in (0, 900):
        clock.after(pause)
        await service.append_event(held, event())
    documents = service.storage.documents
    segments = await documents.query("", "adk_segments", all_descendants=True)
    await overwrite(documents, {min(each.path for each in segments): None})
    clock.after(900)

    with pytest.raises(StoredDataError, match="one of the 2 segments is missing"):
        await service.append_event(held, event("after the loss"))


async def test_an_append_whose_tail_cannot_be_sealed_has_succeeded(
    connect: Connect, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sealing is put off, with a warning; a later append does it."""
    service = connect(limits=SessionLimits(seal_tail_bytes=1))
    held = await service.create_session(**WHO)

    async def refuse_seals(writes: Sequence[Any]) -> None:
        if len(writes) > 1:
            raise UnavailableError("lost on purpose")

    with monkeypatch.context() as patch:
        before_commits(patch, refuse_seals)
        await service.append_event(held, event("one"))
    await service.append_event(held, event("two"))

    assert "session_id='session': sealing is put off: UnavailableError" in caplog.text
    assert held == await connect().get_session(**WHO)
    assert ["one", "two"] == texts(held.events)


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
        for _ in range(at_length(2_000, 20_000)):
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
    kinds = Counter(map(type, gc.get_objects()))
    return sum(count for kind, count in kinds.items() if issubclass(kind, grpc.aio.Channel))


@pytest.mark.emulators
def test_channels_of_event_loops_that_have_ended_are_let_go(connect: Connect) -> None:
    """``Runner.run()`` makes a loop for every turn: each would keep a connection for ever."""
    service = connect()
    held = asyncio.run(service.create_session(**WHO))
    before = open_channels()
    for number in range(8):
        asyncio.run(service.append_event(held, event(f"{number}")))

    assert 0 < open_channels() <= before  # those of an earlier test may go meanwhile
    assert held == asyncio.run(service.get_session(**WHO))
    assert [f"{number}" for number in range(8)] == texts(held.events)
