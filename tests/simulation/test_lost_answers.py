"""One request without an answer, or held up, at the place where a call once said what was wrong."""

import asyncio
import gc
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, Final, Literal

import pytest
from google.adk.agents import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event, EventActions
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.runners import Runner
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

from gcp_adk_store import (
    ArtifactLimits,
    MemoryService,
    OutcomeUnknownError,
    OverloadedError,
    Point,
    SessionBusyError,
    SessionLimits,
    SessionMissingError,
    Store,
    StoreError,
    TurnLostError,
    UnavailableError,
)
from gcp_adk_store.testing.simulation import Fate, Process, Scenario, Service, World, simulate
from gcp_adk_store.testing.simulation.faults import Way
from tests.simulation.raw import documents_below, objects_of
from tests.simulation.test_memories import KEY as MEMORIES_OF
from tests.simulation.test_memories import said as spoken
from tests.simulation.test_refusals import FAST, lose_the_first, overtake
from tests.simulation.test_sessions import LIMITS, key
from tests.simulation.test_turns import Parrot
from tests.support.lengths import at_length
from tests.support.stored import put_session, put_upload

ONE_EACH: Final = SessionLimits(seal_tail_bytes=200, inline_bytes=1_000, state_value_bytes=300)
"""Each event is a segment of its own, and large content is a payload."""
DEADLINE_S: Final = 6.0
NO_EVENTS: Final = GetSessionConfig(num_recent_events=0)
PUNCTUAL: Final = SessionLimits(rpc_timeout_s=2.0, deadline_s=DEADLINE_S)
HOUR_S: Final = 3_600.0
USER: Final = "adk_apps/app/adk_users/user"


def fated(
    world: World,
    process: Process,
    kind: str,
    *fates: Fate,
    then: Fate = Fate.ANSWERED,
    held_s: float = 0.0,
    asks_s: float = 0.0,
) -> asyncio.Event:
    """Give the requests of one *kind* of *process* these *fates* in order, and *then* to all later ones.

    The first one takes *held_s* longer to arrive. Return what is set when it arrives, or would without that.
    One over quota is asked to wait *asks_s*.
    """
    way_of, coming, arrived = world.fates.way, iter(fates), asyncio.Event()
    loop, numbers = asyncio.get_running_loop(), itertools.count()

    def way(sender: str, what: str, about: str) -> Way:
        way = way_of(sender, what, about)
        if (sender, what) != (process.name, kind):
            return way
        if next(numbers) == 0:
            world.at(world.now + way.there_s + 0.0001, lambda: loop.call_soon(arrived.set))
            way = replace(way, there_s=way.there_s + held_s)
        return replace(way, fate=next(coming, then), asks_s=asks_s)

    world.fates.way = way  # type: ignore[method-assign]
    return arrived


async def error_of(call: Awaitable[object]) -> StoreError | None:
    """Return the error of *call*, ``None`` if it succeeds."""
    try:
        await call
    except StoreError as exc:
        return exc
    return None


def said(name: str, **delta: Any) -> Event:
    """Return an event that is a segment of its own."""
    content = types.Content(role="user", parts=[types.Part(text=f"{name} " * 60)])
    return Event(id=name, author="user", content=content, actions=EventActions(state_delta=delta))


async def fill(store: Store, *names: str) -> Session:
    """Make the session, with an event of each name."""
    session = await store.sessions.create_session(**key("one"))
    for name in names:
        await store.sessions.append_event(session, said(name))
    return session


async def an_append_that_is_refused_then(world: World) -> None:
    """The first commit is done without an answer, and the service refuses the others for now."""
    service = Service(world)
    await fill(service.beside())
    process = world.process("appends")
    store = service.store_of(process)
    held = await process.start(store.sessions.get_session, **key("one"))
    fated(world, process, "commit", Fate.CONNECTION_BROKEN, then=Fate.REFUSED)
    error = await error_of(process.start(store.sessions.append_event, held, said("event")))
    assert isinstance(error, OutcomeUnknownError), repr(error)


async def a_read_that_is_refused(world: World) -> None:
    """The service refuses all reads for now."""
    service = Service(world)
    process = world.process("reads")
    store = service.store_of(process, session_limits=PUNCTUAL)
    fated(world, process, "get", then=Fate.REFUSED)
    begun = world.now
    error = await error_of(process.start(store.sessions.get_session, **key("one")))
    assert isinstance(error, UnavailableError), repr(error)
    assert world.now - begun <= DEADLINE_S * 1.02, f"a read took {world.now - begun:.3f} s"


def an_append_over_quota(asks_s: float) -> Scenario:
    """Return a scenario: the service refuses one commit, and asks for a wait."""

    async def scenario(world: World) -> None:
        service = Service(world)
        await fill(service.beside())
        process = world.process("appends")
        store = service.store_of(process, session_limits=PUNCTUAL)
        held = await process.start(store.sessions.get_session, **key("one"))
        fated(world, process, "commit", Fate.OVER_QUOTA, asks_s=asks_s)
        begun = world.now
        error = await error_of(process.start(store.sessions.append_event, held, said("event")))
        if asks_s < DEADLINE_S:
            assert error is None, repr(error)
            assert world.now - begun >= asks_s * 0.99, f"it was sent again after {world.now - begun:.3f} s"
        else:
            assert isinstance(error, UnavailableError), repr(error)
            assert error.retry_after_s == asks_s
            assert world.now - begun < 1, f"it was refused after {world.now - begun:.3f} s"

    return scenario


async def a_deletion_that_leaves_parts(world: World) -> None:
    """The service refuses all commits of a deletion but the first; the id is used again, and deleted."""
    service = Service(world)
    plain, deleter = service.beside(session_limits=ONE_EACH), world.process("deletes")
    store = service.store_of(deleter, session_limits=ONE_EACH)
    await fill(plain, "first", "second")
    fated(world, deleter, "commit", Fate.ANSWERED, then=Fate.REFUSED)
    error = await error_of(deleter.start(store.sessions.delete_session, **key("one")))
    assert isinstance(error, OutcomeUnknownError), repr(error)
    assert await plain.sessions.get_session(**key("one")) is None
    await fill(plain, "third", "fourth")
    await plain.sessions.delete_session(**key("one"))
    left = [document.path for document in await documents_below(service, USER)]
    assert left == [], f"{left} are left"


async def a_deletion_of_a_session(world: World) -> None:
    """Others make the session anew as soon as it is deleted, and append to it."""
    service = Service(world)
    plain, deleter = service.beside(), world.process("deletes")
    store = service.store_of(deleter)
    await fill(plain)
    numbers = itertools.count()

    async def append() -> None:
        held = await plain.sessions.get_session(**key("one"), config=NO_EVENTS) or await fill(plain)
        await plain.sessions.append_event(held, said(f"{next(numbers)}"))

    is_done = lose_the_first(world, service, deleter, last=3)
    await overtake(deleter.start(store.sessions.delete_session, **key("one")), is_done, append)


def of_file(filename: str) -> dict[str, Any]:
    """Return the key of an artifact."""
    return {"app_name": "app", "user_id": "user", "session_id": "session", "filename": filename}


async def a_copy_of_what_goes(world: World) -> None:
    """Another process deletes the source once it is copied, and the answer is lost."""
    service = Service(world)
    plain, process = service.beside(), world.process("copies")
    store = service.store_of(process)
    part = types.Part.from_bytes(data=b"bytes", mime_type="text/plain")
    await plain.artifacts.save_artifact(**of_file("source"), artifact=part)
    is_copied = fated(world, process, "copy object", Fate.CONNECTION_BROKEN)
    call = process.start(store.artifacts.copy_artifact, **of_file("source"), to_filename="target")
    await is_copied.wait()
    await plain.artifacts.delete_artifact(**of_file("source"))
    assert await call == 0, "the copy is not the version that it became"
    assert await plain.artifacts.list_versions(**of_file("target")) == [0]


async def an_upload_that_goes(world: World) -> None:
    """The file is gone when the request that makes it a version is sent again."""
    service = Service(world)
    process = world.process("finalizes")
    store = service.store_of(process)
    upload = f"{1:032x}"
    name = await put_upload(service.beside(), of_file("one"), upload, b"bytes")
    is_lost = fated(world, process, "copy object", Fate.REQUEST_LOST)
    call = process.start(store.artifacts.finalize_upload, **of_file("one"), upload_id=upload)
    await is_lost.wait()
    await service.backend.objects.delete(name, generation=None)
    error = await error_of(call)
    assert isinstance(error, OutcomeUnknownError), repr(error)


async def a_wrong_clock_at_the_begin(world: World) -> None:
    """A process whose clock is ten minutes ahead makes a session that lives for one."""
    service = Service(world)
    plain, process = service.beside(), world.process("creates", clock_ahead_s=600)
    store = service.store_of(process)
    await process.start(store.sessions.create_session, **key("one"), ttl_seconds=60)
    await asyncio.sleep(55)
    assert await plain.sessions.get_session(**key("one")) is not None, "it ended too early"
    await asyncio.sleep(10)
    assert await plain.sessions.get_session(**key("one")) is None, "it lives on"


async def a_collector_with_a_wrong_clock(world: World) -> None:
    """It is two hours ahead, and looks while an append has stored its content alone."""
    service = Service(world)
    plain = service.beside(session_limits=ONE_EACH)
    appender, collector = world.process("appends"), world.process("collects", clock_ahead_s=2 * HOUR_S)
    store = service.store_of(appender, session_limits=ONE_EACH)
    await fill(plain)
    held = await appender.start(store.sessions.get_session, **key("one"))
    is_on_its_way = fated(world, appender, "commit", held_s=2.0)
    call = appender.start(store.sessions.append_event, held, said("event", large="large " * 99))
    await is_on_its_way.wait()
    await collector.start(collect, service.store_of(collector, session_limits=ONE_EACH))
    await call
    found = await plain.sessions.get_session(**key("one"))
    assert found is not None
    assert found.state["large"] == "large " * 99


async def collect(store: Store) -> None:
    """Remove all garbage that is older than an hour."""
    async for garbage in store.find_garbage(older_than_s=HOUR_S):
        await store.remove_garbage(garbage)


def a_listing_while_a_value_goes(name: str) -> Scenario:
    """Return a scenario: another process replaces the value of *name* during a listing, and collects it."""

    async def scenario(world: World) -> None:
        service = Service(world)
        plain, process = service.beside(session_limits=ONE_EACH), world.process("lists")
        store = service.store_of(process, session_limits=ONE_EACH)
        held = await fill(plain)
        await plain.sessions.append_event(held, said("before", **{name: "before " * 99}))
        await asyncio.sleep(2 * HOUR_S)
        is_on_its_way = fated(world, process, "read object", held_s=2.0)
        call = process.start(store.sessions.list_sessions, app_name="app", user_id="user")
        await is_on_its_way.wait()
        await plain.sessions.append_event(held, said("after", **{name: "after " * 99}))
        await collect(plain)
        (found,) = (await call).sessions
        assert found.state[name] == "after " * 99

    return scenario


async def a_read_while_a_value_goes(world: World) -> None:
    """Another process replaces a value of the session during a read, and collects the old one."""
    service = Service(world)
    plain, process = service.beside(session_limits=ONE_EACH), world.process("reads")
    store = service.store_of(process, session_limits=ONE_EACH)
    held = await fill(plain)
    await plain.sessions.append_event(held, said("before", large="before " * 99))
    await asyncio.sleep(2 * HOUR_S)
    is_on_its_way = fated(world, process, "read object", held_s=2.0)
    call = process.start(store.sessions.get_session, **key("one"))
    await is_on_its_way.wait()
    await plain.sessions.append_event(held, said("after", large="after " * 99))
    await collect(plain)
    found = await call
    assert found is not None
    assert found.state["large"] == "after " * 99


async def a_search_while_content_goes(world: World) -> None:
    """Another process replaces the content of the memory that the search has found."""
    service = Service(world)
    plain, process = service.beside(), world.process("searches")
    store = service.store_of(process)
    large, larger = (spoken("memory", size) for size in (40_000, 50_000))
    await plain.memory.add_memory(**MEMORIES_OF, memories=[MemoryEntry(id="one", content=large)])
    is_on_its_way = fated(world, process, "read object", held_s=2.0)
    call = process.start(store.memory.search_memories, **MEMORIES_OF, query="memory")
    await is_on_its_way.wait()
    await plain.memory.update_memory(**MEMORIES_OF, memory_id="one", content=larger)
    (found,) = await call
    assert found.memory.content == larger


def a_memory_that_goes(change: Callable[[MemoryService], Coroutine[Any, Any, Any]]) -> Scenario:
    """Return a scenario: a *change* ends a large memory, and its commit is done without an answer."""

    async def scenario(world: World) -> None:
        service = Service(world)
        process, memory = world.process("changes"), MemoryEntry(id="one", content=spoken("memory", 40_000))
        store = service.store_of(process)
        await service.beside().memory.add_memory(**MEMORIES_OF, memories=[memory])
        assert await objects_of(service)
        fated(world, process, "commit", Fate.CONNECTION_BROKEN)
        await process.start(change, store.memory)
        assert not await objects_of(service), "the content of the memory is left"

    return scenario


async def a_renewal_that_takes_long(world: World) -> None:
    """The session ends while an append renews its parts."""
    service = Service(world)
    plain, process = service.beside(session_limits=ONE_EACH), world.process("appends")
    store = service.store_of(process, session_limits=ONE_EACH)
    large = {"large": "large " * 99}
    held = await plain.sessions.create_session(**key("one"), state=large, ttl_seconds=20)
    await asyncio.sleep(15)
    await plain.sessions.append_event(held, said("first"))
    await asyncio.sleep(13)
    mine = await process.start(store.sessions.get_session, **key("one"))
    fated(world, process, "patch object", held_s=9.0)
    error = await error_of(process.start(store.sessions.append_event, mine, said("second")))
    assert isinstance(error, SessionMissingError), repr(error)
    assert await plain.sessions.get_session(**key("one")) is None


async def a_handle_that_goes(world: World) -> None:
    """An append that returned at once fails, and nobody has its handle any more."""
    service = Service(world)
    await fill(service.beside())
    process = world.process("appends")
    store = service.store_of(process, session_limits=PUNCTUAL, durability="turn")
    fated(world, process, "commit", then=Fate.REFUSED)
    await process.start(append_and_leave, store)
    await asyncio.sleep(2 * DEADLINE_S)
    gc.collect(0)  # frames of the append that failed hold its handle
    error = await error_of(process.start(store.sessions.flush))
    assert isinstance(error, UnavailableError), repr(error)


async def append_and_leave(store: Store) -> None:
    """Append an event of a turn that goes on."""
    held = await store.sessions.get_session(**key("one"))
    assert held is not None
    called = types.Part(function_call=types.FunctionCall(name="work", args={}))
    content = types.Content(role="model", parts=[called])
    await store.sessions.append_event(held, Event(id="event", author="agent", content=content))


async def a_version_that_is_loaded_again(world: World) -> None:
    """Others save two versions, of which one goes; what the process knows is old by then."""
    service = Service(world)
    limits = ArtifactLimits(known_for_s=2.0)
    plain, process = service.beside(), world.process("loads")
    store = service.store_of(process, artifact_limits=limits)
    file = of_file("file")
    await process.start(store.artifacts.save_artifact, **file, artifact=part_of("0"))
    for name in ("1", "2"):
        await plain.artifacts.save_artifact(**file, artifact=part_of(name))
    await service.backend.objects.delete("app/user/session/file/1", generation=None)
    await asyncio.sleep(1.5)
    assert await process.start(store.artifacts.load_artifact, **file) == part_of("0")
    await asyncio.sleep(1.5)
    assert await process.start(store.artifacts.load_artifact, **file) == part_of("2")


async def a_deletion_that_fails_in_part(world: World) -> None:
    """A load of the same process learns the latest version before the deletion removes it."""
    service = Service(world)
    process = world.process("deletes")
    store = service.store_of(process, artifact_limits=ArtifactLimits(deadline_s=DEADLINE_S))
    file = of_file("file")
    for name in ("0", "1", "2"):
        await process.start(store.artifacts.save_artifact, **file, artifact=part_of(name))
    fated(world, process, "delete object", Fate.REFUSED, Fate.ANSWERED, Fate.ANSWERED, then=Fate.REFUSED)
    call = process.start(store.artifacts.delete_artifact, **file)
    await asyncio.sleep(0.0001)
    await process.start(store.artifacts.load_artifact, **file)
    error = await error_of(call)
    assert isinstance(error, OutcomeUnknownError), repr(error)
    assert await process.start(store.artifacts.save_artifact, **file, artifact=part_of("3")) == 1


def part_of(name: str) -> types.Part:
    """Return an artifact."""
    return types.Part.from_bytes(data=name.encode(), mime_type="text/plain")


async def a_lease_that_runs(world: World) -> None:
    """Another process asks for the turn shortly before its end."""
    service = Service(world)
    await fill(service.beside())
    first, second = world.process("first"), world.process("second")
    take, take_too = service.store_of(first).turns.take, service.store_of(second).turns.take
    await first.start(take, **key("one"), lease_s=30)
    await asyncio.sleep(20)
    error = await error_of(second.start(take_too, **key("one"), wait_s=0, lease_s=30))
    assert isinstance(error, SessionBusyError), repr(error)


async def a_turn_that_is_lost(world: World) -> None:
    """Its process stands still, and another one takes the next turn."""
    service = Service(world)
    plain = service.beside()
    await fill(plain)
    first, second = world.process("first"), world.process("second")
    call = first.start(append_in_turn, service.store_of(first))
    await asyncio.sleep(1)
    first.stop()
    await asyncio.sleep(30)
    await second.start(service.store_of(second).turns.take, **key("one"), lease_s=30)
    first.go_on()
    error = await error_of(call)
    assert isinstance(error, TurnLostError), repr(error)
    found = await plain.sessions.get_session(**key("one"))
    assert found is not None
    assert found.events == []


async def append_in_turn(store: Store) -> None:
    """Append an event in a turn, a while after its begin."""
    async with store.turns.hold(**key("one"), lease_s=5):
        held = await store.sessions.get_session(**key("one"))
        assert held is not None
        await asyncio.sleep(1.5)
        await store.sessions.append_event(held, said("late"))


async def a_restore_that_is_not_answered(world: World) -> None:
    """The commit is done, and the connection breaks."""
    service = Service(world)
    plain, process = service.beside(), world.process("restores")
    store = service.store_of(process)
    await fill(plain, "first", "second", "third")
    fated(world, process, "commit", Fate.CONNECTION_BROKEN)
    restored = await process.start(store.restore_session, **key("one"), at=Point.position(2))
    assert [event.id for event in restored.events] == ["first", "second"]


async def a_prune_beside_an_append(world: World) -> None:
    """The session goes on between the listing of idle ones and their deletion."""
    service = Service(world)
    plain, process = service.beside(), world.process("prunes")
    store = service.store_of(process)
    held = await fill(plain, "first")
    await asyncio.sleep(24 * HOUR_S)
    is_on_its_way = fated(world, process, "get", held_s=2.0)
    call = process.start(store.prune, app_name="app", idle_days=0.5)
    await is_on_its_way.wait()
    await plain.sessions.append_event(held, said("second"))
    await call
    assert await plain.sessions.get_session(**key("one")) is not None, "it went on, and is gone"


async def an_append_whose_caller_goes(world: World) -> None:
    """The caller is cancelled while the content of its event is stored."""
    service = Service(world)
    plain, process = service.beside(session_limits=ONE_EACH), world.process("appends")
    store = service.store_of(process, session_limits=ONE_EACH)
    await fill(plain)
    fated(world, process, "create object", held_s=1.0)
    await process.start(append_and_cancel, store)
    found = await plain.sessions.get_session(**key("one"))
    assert found is not None
    assert [event.id for event in found.events] == ["event"]


async def append_and_cancel(store: Store) -> None:
    """Append an event, cancel that, and wait for what is under way."""
    held = await store.sessions.get_session(**key("one"))
    assert held is not None
    call = asyncio.create_task(store.sessions.append_event(held, said("event", large="large " * 99)))
    await asyncio.sleep(0.5)
    call.cancel()
    await asyncio.wait([call])
    await store.sessions.flush()


async def a_payload_that_is_put_again(world: World) -> None:
    """An append uses content again after a collector has found it to be garbage."""
    service = Service(world)
    plain = service.beside(session_limits=ONE_EACH)
    held = await fill(plain)
    for name in ("first", "second"):
        await plain.sessions.append_event(held, Event(author="user", actions=large_as(name)))
    await plain.restore_session(**key("one"), at=Point.position(0))
    await asyncio.sleep(2 * HOUR_S)
    garbage = [one async for one in plain.find_garbage(older_than_s=HOUR_S)]
    again = await plain.sessions.get_session(**key("one"))
    assert again is not None
    await plain.sessions.append_event(again, Event(author="user", actions=large_as("first")))
    for one in garbage:
        await plain.remove_garbage(one)
    found = await plain.sessions.get_session(**key("one"))
    assert found is not None
    assert found.state["large"] == "first " * 99


def large_as(name: str) -> EventActions:
    """Return a change of the state to a large value."""
    return EventActions(state_delta={"large": f"{name} " * 99})


async def an_import_that_is_not_answered(world: World) -> None:
    """Each commit is done, and the connection breaks."""
    service = Service(world)
    plain, process = service.beside(session_limits=ONE_EACH), world.process("imports")
    store = service.store_of(process, session_limits=ONE_EACH)
    await fill(plain, "before")
    fated(world, process, "commit", *[Fate.CONNECTION_BROKEN, Fate.ANSWERED] * 20)
    await process.start(import_two, store)
    found = await plain.sessions.get_session(**key("one"))
    assert found is not None
    assert [event.id for event in found.events] == ["first", "second"]
    assert [fault async for fault in plain.check(older_than_s=10**9, full=True)] == []


async def import_two(store: Store) -> None:
    """Import a session of two events in the place of the one that is there."""

    async def events() -> AsyncIterator[Event]:
        for name in ("first", "second"):
            yield said(name)

    await put_session(store.sessions, key("one"), events(), replaces=True)


async def calls_that_wait_in_line(world: World) -> None:
    """No request of a process with one permit arrives; four calls begin at once."""
    service = Service(world)
    process = world.process("reads")
    limits = SessionLimits(max_in_flight=1, rpc_timeout_s=2.0, deadline_s=DEADLINE_S)
    store = service.store_of(process, session_limits=limits)
    fated(world, process, "get", then=Fate.REQUEST_LOST)
    begun = world.now
    calls = [process.start(store.sessions.get_session, **key(f"{number}")) for number in range(4)]
    errors = [await error_of(call) for call in calls]
    assert [type(error) for error in errors] == [UnavailableError, *[OverloadedError] * 3], errors
    assert world.now - begun <= DEADLINE_S * 1.02, f"the last call took {world.now - begun:.3f} s"


SEEN: Final = "seen"
"""A state key: how many events an agent saw."""


class Counting(Parrot):
    """Says in its state how many events of the session it sees."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        actions = EventActions(state_delta={SEEN: len(ctx.session.events)})
        yield Event(author=self.name, invocation_id=ctx.invocation_id, actions=actions)


async def run(store: Store, agent: BaseAgent, *, on_busy: Literal["wait", "enqueue"] = "wait") -> None:
    """Run a turn of *agent*, which answers a message."""
    runner = Runner(app_name="app", agent=agent, session_service=store.sessions)
    message = types.Content(role="user", parts=[types.Part(text="hello")])
    events = store.turns.run(runner, user_id="user", session_id="one", new_message=message, on_busy=on_busy)
    async for _ in events:
        pass


async def a_message_before_the_end_of_a_run(world: World) -> None:
    """A message is put into the inbox before the last commit of a run, which does not know of it."""
    service = Service(world)
    await fill(service.beside())
    process = world.process("runs")
    store = service.store_of(process, durability="turn")
    running = process.start(run, store, Parrot(name="parrot"))
    await asyncio.sleep(0.8)
    await run(service.beside(), Parrot(name="parrot"), on_busy="enqueue")
    await running
    status = await store.turns.status(**key("one"))
    assert (status.is_running, status.waiting) == (False, ()), "a message waits, and nobody answers it"


async def a_begin_that_others_overtake(world: World) -> None:
    """Others append twice: before a turn begins, and after its first read."""
    service = Service(world)
    plain, process = service.beside(), world.process("runs")
    store = service.store_of(process)
    await fill(plain)
    await process.start(run, store, Counting(name="counting"))
    await append_to(plain, "before")
    arrived = fated(world, process, "commit", held_s=1.0)
    running = process.start(run, store, Counting(name="counting"))
    await arrived.wait()
    await asyncio.sleep(0.5)
    await append_to(plain, "meanwhile")
    await running
    found = await plain.sessions.get_session(**key("one"))
    assert found is not None
    # The message and the answer of the first turn, the two of others, and the message of this one.
    assert found.state[SEEN] == 5, f"the agent saw {found.state[SEEN]} events"  # as above


async def append_to(store: Store, name: str) -> None:
    """Read the session, and append an event."""
    held = await store.sessions.get_session(**key("one"))
    assert held is not None
    await store.sessions.append_event(held, said(name))


async def an_archive_that_is_done_in_part(world: World) -> None:
    """The service refuses all commits of an archive but the first, which moves fifty segments."""
    service = Service(world)
    process = world.process("archives")
    store = service.store_of(process, session_limits=ONE_EACH)
    await fill(service.beside(session_limits=ONE_EACH), *map(str, range(60)))
    fated(world, process, "commit", Fate.ANSWERED, then=Fate.REFUSED)
    call = store.sessions.archive_session(**key("one"), before=Point.position(58))
    error = await error_of(process.start(lambda: call))
    assert isinstance(error, OutcomeUnknownError), repr(error)
    found = await service.beside().sessions.get_session(**key("one"))
    assert found is not None
    assert [event.id for event in found.events] == ["58", "59"]


def a_redaction_after_an_archive(how: str) -> Scenario:
    """Return a scenario: a restore cuts off an archived segment, and then an event is redacted that it had.

    The restore ends at its commit; another one finishes it; or it knew the segment before it was archived.
    """

    async def scenario(world: World) -> None:
        service = Service(world)
        plain, process = service.beside(session_limits=LIMITS), world.process("restores")
        store = service.store_of(process, session_limits=LIMITS)
        await fill(plain, *"abcdefghijkl")
        await process.start(store.sessions.get_session, **key("one"))
        await plain.sessions.archive_session(**key("one"), before=Point.position(10))
        if how == "knew":
            await plain.sessions.restore_session(**key("one"), at=Point.position(8))
            await process.start(store.sessions.restore_session, **key("one"), at=Point.position(2))
        else:
            is_restored = fated(world, process, "commit")
            call = process.start(store.sessions.restore_session, **key("one"), at=Point.position(2))
            await is_restored.wait()
            process.kill()
            await asyncio.wait([call])
        if how == "finished":
            await plain.sessions.restore_session(**key("one"), at=Point.position(1))
        await plain.redact_event(**key("one"), event_id="a", reason="asked for")
        for name in await objects_of(service):
            read = await service.backend.objects.read(name, generation=None)
            assert read is None or b"a a a" not in read[0], "the bucket has the event"

    return scenario


async def a_rewind_that_others_overtake(world: World) -> None:
    """Another process sets a key between the read of a rewind and its commit; both are stored."""
    service = Service(world)
    plain = service.beside(on_conflict="merge")
    session = await fill(plain)
    for event in (said("a", before="kept"), said("b", since="lost")):
        event.invocation_id = event.id
        await plain.sessions.append_event(session, event)
    process = world.process("rewinds")
    store = service.store_of(process, on_conflict="merge")
    held = await process.start(store.sessions.get_session, **key("one"))
    assert held is not None
    rewind = said("c", since=None)
    rewind.actions.rewind_before_invocation_id = "b"
    arrived = fated(world, process, "commit", held_s=5.0)
    call = process.start(store.sessions.append_event, held, rewind)
    await arrived.wait()
    await plain.sessions.append_event(session, said("d", before="lost", meanwhile="lost"))
    await call
    stored = await plain.sessions.get_session(**key("one"))
    assert stored is not None
    assert [event.id for event in stored.events] == [*"abdc"]
    assert stored.state == {"before": "kept", "since": None, "meanwhile": None}, stored.state
    assert (held.state, held.events) == (stored.state, stored.events), "the handle is not what is stored"


SCENARIOS: Final[Mapping[str, Scenario]] = {
    "refused-after-lost": an_append_that_is_refused_then,
    "refused-read": a_read_that_is_refused,
    "over-quota": an_append_over_quota(4.0),
    "over-quota-for-long": an_append_over_quota(40.0),
    "deletion-of-parts": a_deletion_that_leaves_parts,
    "overtaken-deletion": a_deletion_of_a_session,
    "copy-of-gone": a_copy_of_what_goes,
    "upload-of-gone": an_upload_that_goes,
    "wrong-clock": a_wrong_clock_at_the_begin,
    "wrong-collector": a_collector_with_a_wrong_clock,
    "listed-value": a_listing_while_a_value_goes("large"),
    "listed-user-value": a_listing_while_a_value_goes("user:large"),
    "read-value": a_read_while_a_value_goes,
    "searched-content": a_search_while_content_goes,
    "deleted-memory": a_memory_that_goes(lambda memory: memory.delete_memory(**MEMORIES_OF, memory_id="one")),
    "changed-memory": a_memory_that_goes(
        lambda memory: memory.update_memory(**MEMORIES_OF, memory_id="one", content=spoken("memory"))
    ),
    "long-renewal": a_renewal_that_takes_long,
    "handle-that-goes": a_handle_that_goes,
    "loaded-again": a_version_that_is_loaded_again,
    "deleted-in-part": a_deletion_that_fails_in_part,
    "running-lease": a_lease_that_runs,
    "lost-turn": a_turn_that_is_lost,
    "unanswered-restore": a_restore_that_is_not_answered,
    "pruned-too-late": a_prune_beside_an_append,
    "cancelled-append": an_append_whose_caller_goes,
    "put-again": a_payload_that_is_put_again,
    "unanswered-import": an_import_that_is_not_answered,
    "waits-in-line": calls_that_wait_in_line,
    "waiting-message": a_message_before_the_end_of_a_run,
    "overtaken-begin": a_begin_that_others_overtake,
    "overtaken-rewind": a_rewind_that_others_overtake,
    "archived-in-part": an_archive_that_is_done_in_part,
    "redacted-after-archive": a_redaction_after_an_archive("interrupted"),
    "redacted-after-finished": a_redaction_after_an_archive("finished"),
    "redacted-after-known": a_redaction_after_an_archive("knew"),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_call_says_what_became_of_it(name: str) -> None:
    """Each is an order of events in which a call once said what was wrong, or did it."""
    simulate(SCENARIOS[name], seeds=range(at_length(1, 3)), faults=FAST)
