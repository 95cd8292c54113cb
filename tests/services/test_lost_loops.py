"""Show that event loops that end under calls take nothing with them: turns, places, tasks, threads."""

import asyncio
import ctypes
import gc
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from google.adk.sessions import Session

from gcp_adk_store import ArtifactLimits, SessionLimits, Store
from gcp_adk_store.testing.conformance.running import event, text
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, STORAGE_VARIABLE, Emulator
from gcp_adk_store.testing.faults import Call, Fault, Hold
from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy
from gcp_adk_store.testing.faults.storage_proxy import StorageProxy
from tests.services.conftest import WHO, texts
from tests.support.clock import PassingTime

# A coroutine of gRPC that a closed loop drops complains whenever the collector finds it.
pytestmark = [
    pytest.mark.emulators,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

DEADLINE_S = 60.0
FILE: dict[str, Any] = {**WHO, "filename": "f"}


class Held:
    """A plan that holds one call, counted from the moment on that it is armed."""

    def __init__(self) -> None:
        self.hold: Hold | None = None
        self._left = 0

    def arm(self, number: int) -> Hold:
        """Hold the call that comes after *number* more."""
        self._left = number
        self.hold = Hold("before")
        return self.hold

    def __call__(self, call: Call) -> Fault | None:
        """Return what goes wrong with *call*."""
        del call
        self._left -= 1
        return self.hold if self._left == -1 else None


class Place:
    """A store whose requests can be held."""

    def __init__(self, project: str, bucket: str, plan: Held) -> None:
        self.plan = plan
        self.store = Store.connect(
            project=project,
            bucket=bucket,
            session_limits=SessionLimits(deadline_s=DEADLINE_S, max_in_flight=2, state_value_bytes=100),
            artifact_limits=ArtifactLimits(deadline_s=DEADLINE_S, max_workers=4, request_timeout_s=1),
        )

    async def append(self, words: str) -> None:
        """Append to the session as it is now."""
        session = await self.store.sessions.get_session(**WHO)
        assert session is not None
        await self.store.sessions.append_event(session, event(words, delta={"large": words * 200}))

    async def list(self) -> None:
        """List the user's sessions."""
        await self.store.sessions.list_sessions(app_name="app", user_id="user")

    async def iterate(self) -> None:
        """Read all events."""
        _ = [found async for found in self.store.sessions.iter_events(**WHO)]

    async def get(self) -> None:
        """Read the session."""
        assert await self.store.sessions.get_session(**WHO) is not None

    async def save(self) -> None:
        """Save a version."""
        await self.store.artifacts.save_artifact(**FILE, artifact=text("a version"))

    async def load(self) -> None:
        """Load the latest version."""
        assert await self.store.artifacts.load_artifact(**FILE) is not None

    async def all_work(self) -> None:
        """Use every kind of operation, more of them at once than may be under way, within one deadline."""
        async with asyncio.timeout(DEADLINE_S):
            await self.append("after")
            calls = [self.get(), self.list(), self.iterate(), self.save(), self.load(), self.get()]
            await asyncio.gather(*calls)

    async def one_handle_works(self) -> None:
        """Append through one handle, from several tasks."""
        session = await self.store.sessions.get_session(**WHO)
        assert session is not None
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.gather(*(self.store.sessions.append_event(session, event("x")) for _ in range(5)))


OPERATIONS: dict[str, Callable[[Place], Coroutine[Any, Any, None]]] = {
    "append": lambda place: place.append("held"),
    "get": Place.get,
    "list": Place.list,
    "iterate": Place.iterate,
    "save": Place.save,
    "load": Place.load,
}


@pytest.fixture
def place(
    project: str,
    adk_store_bucket: str,
    firestore_emulator: Emulator,
    storage_emulator: Emulator,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Place]:
    """A store with one session, one event and one version, behind proxies."""
    plan = Held()
    with (
        FirestoreProxy(firestore_emulator.address, plan) as firestore,
        StorageProxy(storage_emulator.address, plan) as storage,
    ):
        monkeypatch.setenv(FIRESTORE_VARIABLE, firestore.address)
        monkeypatch.setenv(STORAGE_VARIABLE, storage.address)
        made = Place(project, adk_store_bucket, plan)

        async def prepare() -> None:
            async with Store.connect(
                project=project
            ) as patient:  # an emulator that just started takes its time
                await patient.sessions.create_session(**WHO)
            await made.append("first")
            await made.save()

        asyncio.run(prepare())
        yield made
        # Here, where a test expects what is said of calls that are thrown away, and before their channel
        # closes: gRPC reads freed memory where a coroutine drops its call of a channel that is gone.
        gc.collect()
        asyncio.run(made.store.close())


def drive(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None], hold: Hold) -> bool:
    """Run *work* in *loop* until its request is held, or to its end; return whether it was held.

    The loop is stopped, as a server leaves it whose request takes too long; nothing is cancelled.
    """
    task = loop.create_task(work)

    task.add_done_callback(lambda _: hold.reached.set())
    loop.run_until_complete(asyncio.to_thread(hold.reached.wait, DEADLINE_S))
    if task.done():
        task.result()
    return not task.done()


def keep(task: object) -> None:
    """Let *task* stay in memory, also while the interpreter ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))


def end(loop: asyncio.AbstractEventLoop, hold: Hold) -> None:
    """Close *loop* under what it runs, then drop the request that is held.

    Its tasks stay in memory: gRPC reads freed memory where the collector finds a call of a closed loop.
    """
    for task in asyncio.all_tasks(loop):
        keep(task)
    loop.close()
    hold.release(forward=False)


def leftovers(place: Place, passing: PassingTime) -> tuple[int, int]:
    """Return how many queues have permits, and how many appends are under way."""
    sessions: Any = place.store.sessions
    artifacts: Any = place.store.artifacts
    passing.after(1)  # what nobody asks for is looked at once a second
    asyncio.run(place.all_work())
    limiters = [
        sessions._appender.permits,
        sessions._bounds._limiter,
        artifacts._objects._calls._threads._limiter,
        artifacts._versions._limiter,
    ]
    return sum(len(one._queues) for one in limiters if one is not None), len(sessions._appender._under_way)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_a_loop_that_is_closed_under_a_call_takes_nothing_with_it(
    place: Place, name: str, passing: PassingTime
) -> None:
    """After each of its first steps, in which it takes turns and begins tasks, and at each of its requests.

    Then every operation works in a fresh loop, and nothing is left of the old ones.
    """
    before = set(threading.enumerate())
    for steps in range(8):
        loop = asyncio.new_event_loop()
        task = loop.create_task(OPERATIONS[name](place))
        for _ in range(steps):
            loop.call_soon(loop.stop)
            loop.run_forever()
        keep(task)
        loop.close()
        assert not task.done()
    assert (0, 0) == leftovers(place, passing)

    number = 0
    while True:
        hold = place.plan.arm(number)
        loop = asyncio.new_event_loop()
        held = drive(loop, OPERATIONS[name](place), hold)
        end(loop, hold)
        if not held:
            break
        number += 1

    assert number
    assert (0, 0) == leftovers(place, passing)
    begun = set(threading.enumerate()) - before
    assert len([thread for thread in begun if thread.name.startswith("adk-store")]) <= 8


@pytest.mark.parametrize("way", ["dropped", "on a thread that ended"])
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_loops_that_nobody_runs_or_closes_take_nothing_with_them(
    place: Place, way: str, passing: PassingTime
) -> None:
    """As many as may be under way; what they had comes back within the deadline."""
    limiter: Any = place.store.sessions._bounds._limiter
    kept: list[asyncio.AbstractEventLoop] = []

    def leave_one() -> None:
        hold = place.plan.arm(1)  # the commit, after the read
        loop = asyncio.new_event_loop()
        assert drive(loop, place.append("held"), hold)
        hold.release(forward=False)
        if way != "dropped":
            kept.append(loop)

    for _ in range(2):
        thread = threading.Thread(target=leave_one)
        thread.start()
        thread.join()
    gc.collect()

    async def wait_half_the_deadline() -> None:
        working = asyncio.create_task(place.all_work())
        while not (limiter._waiting or working.done()):  # noqa: ASYNC110  # for what the loops have
            await asyncio.sleep(0)
        passing.after(DEADLINE_S / 2)
        await working

    asyncio.run(wait_half_the_deadline())
    asyncio.run(place.one_handle_works())
    for loop in kept:
        loop.close()


def test_a_loop_that_is_stopped_and_runs_again_sees_its_append_through(place: Place) -> None:
    """Meanwhile it is the session's turn: an append in another loop waits, and is not sent."""

    async def read() -> Session:
        session = await place.store.sessions.get_session(**WHO)
        assert session is not None
        return session

    async def append(words: str) -> None:
        await place.store.sessions.append_event(session, event(words))

    session = asyncio.run(read())
    hold = place.plan.arm(0)
    loop = asyncio.new_event_loop()
    appending = loop.create_task(append("stopped"))
    loop.run_until_complete(asyncio.to_thread(hold.reached.wait, DEADLINE_S))

    async def append_too_early() -> None:
        waiting = asyncio.create_task(append("too early"))
        for _ in range(10):  # more turns than it takes to be sent
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(append_too_early())
    hold.release()
    loop.run_until_complete(appending)
    loop.close()
    asyncio.run(append("next"))

    assert ["first", "stopped", "next"] == texts(session.events)
    assert session == asyncio.run(read())
