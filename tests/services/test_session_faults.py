"""Sessions whose answers get lost, whose callers give up, whose event loops end."""

import asyncio
import gc
import math
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from google.adk.sessions import Session

from gcp_adk_store import FirestoreSessionService, InvalidInputError, SessionLimits, UnavailableError
from gcp_adk_store.testing.conformance.running import event
from tests.services.conftest import APP, USER, WHO, Connect, texts
from tests.support.lengths import at_length
from tests.support.local_commits import before_commits


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
