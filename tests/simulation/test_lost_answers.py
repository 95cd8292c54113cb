"""One request without an answer, or held up, at the place where a call once said what was wrong."""

import asyncio
import gc
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, Literal

import pytest
from google.adk.agents import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event, EventActions
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.runners import Runner
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

from gcp_adk_store import (
    ArtifactLimits,
    MemoryService,
    OutcomeUnknownError,
    OverloadedError,
    Point,
    RotationReport,
    SessionBusyError,
    SessionLimits,
    SessionMissingError,
    Store,
    TurnLostError,
    UnavailableError,
)
from gcp_adk_store.testing.simulation import Fate, Faults, Scenario, World, simulate
from tests.simulation.events import said
from tests.simulation.fated import FAST, Fated, error_of, long_event, overtake
from tests.simulation.fleet import LIMITS, key
from tests.simulation.keys import NEW, OLD, envelope_of
from tests.simulation.raw import HOUR_S, collect, documents_below, objects_of, require_sound
from tests.simulation.test_memories import KEY as MEMORIES_OF
from tests.simulation.test_memories import spoken
from tests.simulation.test_tasks import new_task
from tests.simulation.test_turns import Parrot
from tests.support.lengths import at_length
from tests.support.stored import put_session, put_upload
from tests.tasks.conftest import of as context_of

ONE_EACH: Final = SessionLimits(seal_tail_bytes=200, inline_bytes=1_000, state_value_bytes=300)
"""Each event is a segment of its own, and large content is a payload."""
DEADLINE_S: Final = 6.0
PUNCTUAL: Final = SessionLimits(rpc_timeout_s=2.0, deadline_s=DEADLINE_S)
USER: Final = "adk_apps/app/adk_users/user"
THIRD: Final = b"t" * 32


async def an_append_that_is_refused_then(world: World) -> None:
    """The first commit is done without an answer, and the service refuses the others for now."""
    one = Fated(world)
    await one.fill()
    held = await one.held()
    one.meets("commit", Fate.CONNECTION_BROKEN, then=Fate.REFUSED)
    append = one.start(one.store.sessions.append_event, held, long_event("event"))
    await error_of(append, OutcomeUnknownError)


async def a_read_that_is_refused(world: World) -> None:
    """The service refuses all reads for now."""
    one = Fated(world, session_limits=PUNCTUAL)
    one.meets("get", then=Fate.REFUSED)
    begun = world.now
    await error_of(one.held(), UnavailableError)
    assert world.now - begun <= DEADLINE_S * 1.02, f"a read took {world.now - begun:.3f} s"


async def an_append_over_quota(world: World, *, asks_s: float) -> None:
    """The service refuses one commit, and asks for a wait."""
    one = Fated(world, session_limits=PUNCTUAL)
    await one.fill()
    held = await one.held()
    one.meets("commit", Fate.OVER_QUOTA, asks_s=asks_s)
    begun = world.now
    append = one.start(one.store.sessions.append_event, held, long_event("event"))
    if asks_s < DEADLINE_S:
        await append
        assert world.now - begun >= asks_s * 0.99, f"it was sent again after {world.now - begun:.3f} s"
    else:
        assert (await error_of(append, UnavailableError)).retry_after_s == asks_s
        assert world.now - begun < 1, f"it was refused after {world.now - begun:.3f} s"


async def a_deletion_that_leaves_parts(world: World) -> None:
    """The service refuses all commits of a deletion but the first; the id is used again, and deleted."""
    one = Fated(world, session_limits=ONE_EACH)
    await one.fill("first", "second")
    one.meets("commit", Fate.ANSWERED, then=Fate.REFUSED)
    await error_of(one.start(one.store.sessions.delete_session, **key("one")), OutcomeUnknownError)
    assert await one.plain.sessions.get_session(**key("one")) is None
    await one.fill("third", "fourth")
    await one.plain.sessions.delete_session(**key("one"))
    left = [document.path for document in await documents_below(one.service, USER)]
    assert left == [], f"{left} are left"


async def a_deletion_of_a_session(world: World) -> None:
    """Others make the session anew as soon as it is deleted, and append to it."""
    one = Fated(world)
    sessions, numbers = one.plain.sessions, itertools.count()
    await one.fill()
    no_events = GetSessionConfig(num_recent_events=0)

    async def append() -> None:
        held = await sessions.get_session(**key("one"), config=no_events) or await one.fill()
        await sessions.append_event(held, long_event(f"{next(numbers)}"))

    is_done = one.loses_the_first(last=3)
    await overtake(one.start(one.store.sessions.delete_session, **key("one")), is_done, append)


async def a_deletion_of_a_task(world: World) -> None:
    """Another server saves the task anew as soon as it is deleted."""
    one, context = Fated(world), context_of("ann")
    await one.plain.tasks.save(new_task("task"), context)

    async def save() -> None:
        task = await one.plain.tasks.get("task", context) or new_task("task")
        task.metadata["number"] = world.random.random()
        await one.plain.tasks.save(task, context)

    is_done = one.loses_the_first(last=3)
    await overtake(one.start(one.store.tasks.delete, "task", context), is_done, save)


async def a_rotation(world: World) -> None:
    """Processes with other newest keys wrap a data key back as soon as it is wrapped anew."""
    one = Fated(world, encryption=envelope_of(NEW, OLD, THIRD))
    orders = (OLD, NEW, THIRD), (THIRD, NEW, OLD)
    others = itertools.cycle([one.service.beside(encryption=envelope_of(*keys)) for keys in orders])
    await next(others).sessions.create_session(**key("one"))
    is_done = one.loses_the_first(last=3)
    await overtake(one.start(one.store.rotate_keys), is_done, lambda: next(others).rotate_keys())


async def two_old_keys(world: World) -> tuple[Fated, Store]:
    """Make the data keys of two users; return a process with a newer key, and the store that made them."""
    one = Fated(world, encryption=envelope_of(NEW, OLD))
    old = one.service.beside(encryption=envelope_of(OLD))
    for user in ("ann", "bob"):
        await old.sessions.create_session(**key("one", user))
    return one, old


async def a_rotation_of_two_keys(world: World) -> None:
    """The service refuses all commits of the rotation but the first."""
    one, old = await two_old_keys(world)
    one.meets("commit", Fate.ANSWERED, then=Fate.REFUSED)
    error = await error_of(one.start(one.store.rotate_keys), OutcomeUnknownError)
    assert "some data keys are wrapped anew" in str(error)
    assert (await old.rotate_keys()).failed == 1, "the first key is wrapped by the new one"


async def an_unanswered_rotation(world: World) -> None:
    """The connection breaks once the first of two keys is wrapped anew."""
    one, _ = await two_old_keys(world)
    one.loses_the_first()
    assert RotationReport(keys=2, rewrapped=2) == await one.start(one.store.rotate_keys)


async def a_forgotten_note(world: World) -> None:
    """The connection breaks once the note of a destroyed key is removed."""
    one = Fated(world, encryption=envelope_of(OLD))
    await one.fill()
    await one.plain.erase_user(app_name="app", user_id="user")
    await asyncio.sleep(25 * HOUR_S)
    one.loses_the_first()
    assert RotationReport(forgotten=1) == await one.start(one.store.rotate_keys)


async def a_write_beside_an_erasure(world: World) -> None:
    """The key of its large content is destroyed, and another one made, before it refers to the content."""
    one = Fated(world, session_limits=LIMITS, encryption=envelope_of(OLD, cache_s=3.0))
    await one.fill()
    is_lost = one.meets("create object", Fate.REQUEST_LOST)
    create = partial(one.store.sessions.create_session, **key("beside"), state={"large": "x" * 400})
    call = one.start(create)
    await is_lost.wait()
    await one.plain.erase_user(app_name="app", user_id="user")
    one.meets("get", Fate.ANSWER_LOST, Fate.ANSWER_LOST)  # until no process has the destroyed key
    assert "call it again" in str(await error_of(call, UnavailableError))
    await one.start(create)
    listed = await one.plain.sessions.list_sessions(app_name="app", user_id="user")
    assert [session.id for session in listed.sessions] == ["beside"]


def of_file(filename: str) -> dict[str, Any]:
    """Return the key of an artifact."""
    return {**key("session"), "filename": filename}


def part_of(name: str) -> types.Part:
    """Return an artifact."""
    return types.Part.from_bytes(data=name.encode(), mime_type="text/plain")


async def a_copy_of_what_goes(world: World) -> None:
    """Another process deletes the source once it is copied, and the answer is lost."""
    one = Fated(world)
    await one.plain.artifacts.save_artifact(**of_file("source"), artifact=part_of("bytes"))
    is_copied = one.meets("copy object", Fate.CONNECTION_BROKEN)
    call = one.start(one.store.artifacts.copy_artifact, **of_file("source"), to_filename="target")
    await is_copied.wait()
    await one.plain.artifacts.delete_artifact(**of_file("source"))
    assert await call == 0, "the copy is not the version that it became"
    assert await one.plain.artifacts.list_versions(**of_file("target")) == [0]


async def an_upload_that_goes(world: World) -> None:
    """The file is gone when the request that makes it a version is sent again."""
    one, upload = Fated(world), f"{1:032x}"
    name = await put_upload(one.plain, of_file("one"), upload, b"bytes")
    is_lost = one.meets("copy object", Fate.REQUEST_LOST)
    call = one.start(one.store.artifacts.finalize_upload, **of_file("one"), upload_id=upload)
    await is_lost.wait()
    await one.service.backend.objects.delete(name, generation=None)
    await error_of(call, OutcomeUnknownError)


async def a_wrong_clock_at_the_begin(world: World) -> None:
    """A process whose clock is ten minutes ahead makes a session that lives for one."""
    one = Fated(world, clock_ahead_s=600)
    await one.start(one.store.sessions.create_session, **key("one"), ttl_seconds=60)
    await asyncio.sleep(55)
    assert await one.plain.sessions.get_session(**key("one")) is not None, "it ended too early"
    await asyncio.sleep(10)
    assert await one.plain.sessions.get_session(**key("one")) is None, "it lives on"


async def a_collector_with_a_wrong_clock(world: World) -> None:
    """It is two hours ahead, and looks while an append has stored its content alone."""
    one = Fated(world, session_limits=ONE_EACH)
    collector = world.process("collects", clock_ahead_s=2 * HOUR_S)
    await one.fill()
    held = await one.held()
    is_on_its_way = one.meets("commit", held_s=2.0)
    call = one.start(one.store.sessions.append_event, held, long_event("event", large="large " * 99))
    await is_on_its_way.wait()
    await collector.start(collect, one.service.store_of(collector, session_limits=ONE_EACH))
    await call
    assert (await one.stored()).state["large"] == "large " * 99


async def a_read_while_a_value_goes(world: World, *, name: str, lists: bool) -> None:
    """Another process replaces the value of *name* during a read, or a listing, and collects the old one."""
    one = Fated(world, session_limits=ONE_EACH)
    held = await one.fill()
    await one.plain.sessions.append_event(held, long_event("before", **{name: "before " * 99}))
    await asyncio.sleep(2 * HOUR_S)
    is_on_its_way = one.meets("read object", held_s=2.0)
    call = one.start(listed if lists else read, one.store)
    await is_on_its_way.wait()
    await one.plain.sessions.append_event(held, long_event("after", **{name: "after " * 99}))
    await collect(one.plain)
    assert (await call)[name] == "after " * 99


async def listed(store: Store) -> dict[str, Any]:
    """Return the state of the one session that a listing has."""
    (found,) = (await store.sessions.list_sessions(app_name="app", user_id="user")).sessions
    return found.state


async def read(store: Store) -> dict[str, Any]:
    """Return the state of the session."""
    found = await store.sessions.get_session(**key("one"))
    assert found is not None
    return found.state


async def a_search_while_content_goes(world: World) -> None:
    """Another process replaces the content of the memory that the search has found."""
    one = Fated(world)
    large, larger = (spoken("memory", size) for size in (40_000, 50_000))
    await one.plain.memory.add_memory(**MEMORIES_OF, memories=[MemoryEntry(id="one", content=large)])
    is_on_its_way = one.meets("read object", held_s=2.0)
    call = one.start(one.store.memory.search_memories, **MEMORIES_OF, query="memory")
    await is_on_its_way.wait()
    await one.plain.memory.update_memory(**MEMORIES_OF, memory_id="one", content=larger)
    (found,) = await call
    assert found.memory.content == larger


async def a_memory_that_goes(
    world: World, *, change: Callable[[MemoryService], Coroutine[Any, Any, Any]]
) -> None:
    """A *change* ends a large memory, and its commit is done without an answer."""
    one, memory = Fated(world), MemoryEntry(id="one", content=spoken("memory", 40_000))
    await one.plain.memory.add_memory(**MEMORIES_OF, memories=[memory])
    assert await objects_of(one.service)
    one.meets("commit", Fate.CONNECTION_BROKEN)
    await one.start(change, one.store.memory)
    assert not await objects_of(one.service), "the content of the memory is left"


async def a_renewal_that_takes_long(world: World) -> None:
    """The session ends while an append renews its parts."""
    one = Fated(world, session_limits=ONE_EACH)
    sessions = one.plain.sessions
    held = await sessions.create_session(**key("one"), state={"large": "large " * 99}, ttl_seconds=20)
    await asyncio.sleep(15)
    await sessions.append_event(held, long_event("first"))
    await asyncio.sleep(13)
    mine = await one.held()
    one.meets("patch object", held_s=9.0)
    append = one.start(one.store.sessions.append_event, mine, long_event("second"))
    await error_of(append, SessionMissingError)
    assert await sessions.get_session(**key("one")) is None


async def a_handle_that_goes(world: World) -> None:
    """An append that returned at once fails, and nobody has its handle any more."""
    one = Fated(world, session_limits=PUNCTUAL, durability="turn")
    await one.service.beside().sessions.create_session(**key("one"))
    one.meets("commit", then=Fate.REFUSED)
    await one.start(append_and_leave, one.store)
    await asyncio.sleep(2 * DEADLINE_S)
    gc.collect(0)  # frames of the append that failed hold its handle
    await error_of(one.start(one.store.sessions.flush), UnavailableError)


async def append_and_leave(store: Store) -> None:
    """Append an event of a turn that goes on."""
    held = await store.sessions.get_session(**key("one"))
    assert held is not None
    called = types.Part(function_call=types.FunctionCall(name="work", args={}))
    content = types.Content(role="model", parts=[called])
    await store.sessions.append_event(held, Event(id="event", author="agent", content=content))


async def a_version_that_is_loaded_again(world: World) -> None:
    """Others save two versions, of which one goes; what the process knows is old by then."""
    one = Fated(world, artifact_limits=ArtifactLimits(known_for_s=2.0))
    artifacts, file = one.store.artifacts, of_file("file")
    await one.start(artifacts.save_artifact, **file, artifact=part_of("0"))
    for name in ("1", "2"):
        await one.plain.artifacts.save_artifact(**file, artifact=part_of(name))
    await one.service.backend.objects.delete("app/user/session/file/1", generation=None)
    for latest in ("0", "2"):
        await asyncio.sleep(1.5)
        assert await one.start(artifacts.load_artifact, **file) == part_of(latest)


async def a_deletion_that_fails_in_part(world: World) -> None:
    """A load of the same process learns the latest version before the deletion removes it."""
    one = Fated(world, artifact_limits=ArtifactLimits(deadline_s=DEADLINE_S))
    artifacts, file = one.store.artifacts, of_file("file")
    for name in ("0", "1", "2"):
        await one.start(artifacts.save_artifact, **file, artifact=part_of(name))
    one.meets("delete object", Fate.REFUSED, Fate.ANSWERED, Fate.ANSWERED, then=Fate.REFUSED)
    call = one.start(artifacts.delete_artifact, **file)
    await asyncio.sleep(0.0001)
    await one.start(artifacts.load_artifact, **file)
    await error_of(call, OutcomeUnknownError)
    assert await one.start(artifacts.save_artifact, **file, artifact=part_of("3")) == 1


async def a_lease_that_runs(world: World) -> None:
    """Another process asks for the turn shortly before its end."""
    one = Fated(world)
    await one.fill()
    await one.plain.turns.take(**key("one"), lease_s=30)
    await asyncio.sleep(20)
    await error_of(one.start(one.store.turns.take, **key("one"), wait_s=0, lease_s=30), SessionBusyError)


async def a_turn_that_is_lost(world: World) -> None:
    """Its process stands still, and another one takes the next turn."""
    one, second = Fated(world), world.process("second")
    await one.fill()
    call = one.start(append_in_turn, one.store)
    await asyncio.sleep(1)
    one.process.stop()
    await asyncio.sleep(30)
    await second.start(one.service.store_of(second).turns.take, **key("one"), lease_s=30)
    one.process.go_on()
    await error_of(call, TurnLostError)
    assert await one.ids() == []


async def an_append_that_a_restore_takes_back(world: World) -> None:
    """The event of a turn is stored without an answer and cut off; the state of the user keeps its change."""
    one = Fated(world)
    await one.fill()
    call = one.start(append_in_turn, one.store, **{"user:changed": True})
    await asyncio.sleep(1)
    await one.loses_the_first().wait()
    await one.plain.sessions.restore_session(**key("one"), at=Point.position(0))
    await error_of(call, OutcomeUnknownError)


async def append_in_turn(store: Store, **delta: Any) -> None:
    """Append an event in a turn, a while after its begin."""
    async with store.turns.hold(**key("one"), lease_s=5):
        held = await store.sessions.get_session(**key("one"))
        assert held is not None
        await asyncio.sleep(1.5)
        await store.sessions.append_event(held, long_event("late", **delta))


async def a_restore_that_is_not_answered(world: World) -> None:
    """The commit is done, and the connection breaks."""
    one = Fated(world)
    await one.fill("first", "second", "third")
    one.meets("commit", Fate.CONNECTION_BROKEN)
    restored = await one.start(one.store.restore_session, **key("one"), at=Point.position(2))
    assert [event.id for event in restored.events] == ["first", "second"]


async def a_prune_beside_others(world: World, *, change: str) -> None:
    """Between the listing of idle ones and their deletion, a session gets an event, a label or a message."""
    one = Fated(world)
    held = await one.fill("first")
    await asyncio.sleep(24 * HOUR_S)
    is_on_its_way = one.meets("get", held_s=2.0)
    call = one.start(one.store.prune, app_name="app", idle_days=0.5)
    await is_on_its_way.wait()
    match change:
        case "event":
            await one.plain.sessions.append_event(held, long_event("second"))
        case "label":
            await one.plain.sessions.update_session_info(**key("one"), labels={"status": "open"})
        case _:
            await one.plain.turns.enqueue(**key("one"), new_message=said("message"))
    await call
    assert await one.ids() == ["first", "second"][: len(held.events)]


async def an_append_whose_caller_goes(world: World) -> None:
    """The caller is cancelled while the content of its event is stored."""
    one = Fated(world, session_limits=ONE_EACH)
    await one.fill()
    one.meets("create object", held_s=1.0)
    await one.start(append_and_cancel, one.store)
    assert await one.ids() == ["event"]


async def append_and_cancel(store: Store) -> None:
    """Append an event, cancel that, and wait for what is under way."""
    held = await store.sessions.get_session(**key("one"))
    assert held is not None
    event = long_event("event", large="large " * 99)
    call = asyncio.create_task(store.sessions.append_event(held, event))
    await asyncio.sleep(0.5)
    call.cancel()
    await asyncio.wait([call])
    await store.sessions.flush()


async def a_payload_that_is_put_again(world: World) -> None:
    """An append uses content again after a collector has found it to be garbage."""
    one = Fated(world, session_limits=ONE_EACH)
    held = await one.fill()
    for name in ("first", "second"):
        await one.plain.sessions.append_event(held, long_event(name, large=f"{name} " * 99))
    await one.plain.restore_session(**key("one"), at=Point.position(0))
    await asyncio.sleep(2 * HOUR_S)
    garbage = [each async for each in one.plain.find_garbage(older_than_s=HOUR_S)]
    again = await one.stored()
    await one.plain.sessions.append_event(again, long_event("again", large="first " * 99))
    for each in garbage:
        await one.plain.remove_garbage(each)
    assert (await one.stored()).state["large"] == "first " * 99


async def an_import_that_is_not_answered(world: World) -> None:
    """Each commit is done, and the connection breaks."""
    one = Fated(world, session_limits=ONE_EACH)
    await one.fill("before")
    one.meets("commit", *[Fate.CONNECTION_BROKEN, Fate.ANSWERED] * 20)
    await one.start(import_two, one.store)
    assert await one.ids() == ["first", "second"]
    await require_sound(one.plain)


async def import_two(store: Store) -> None:
    """Import a session of two events in the place of the one that is there."""

    async def events() -> AsyncIterator[Event]:
        for name in ("first", "second"):
            yield long_event(name)

    await put_session(store.sessions, key("one"), events(), replaces=True)


async def calls_that_wait_in_line(world: World) -> None:
    """No request of a process with one permit arrives; four calls begin at once."""
    limits = SessionLimits(max_in_flight=1, rpc_timeout_s=2.0, deadline_s=DEADLINE_S)
    one = Fated(world, session_limits=limits)
    one.meets("get", then=Fate.REQUEST_LOST)
    begun = world.now
    first, *others = [one.start(one.store.sessions.get_session, **key(f"{number}")) for number in range(4)]
    await error_of(first, UnavailableError)
    for call in others:
        await error_of(call, OverloadedError)
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
    who: dict[str, Any] = {"user_id": "user", "session_id": "one"}
    async for _ in store.turns.run(runner, **who, new_message=said("hello"), on_busy=on_busy):
        pass


async def a_message_before_the_end_of_a_run(world: World) -> None:
    """A message is put into the inbox before the last commit of a run, which does not know of it."""
    one = Fated(world, durability="turn")
    others = one.service.beside()
    await others.sessions.create_session(**key("one"))
    running = one.start(run, one.store, Parrot(name="parrot"))
    await asyncio.sleep(0.8)
    await run(others, Parrot(name="parrot"), on_busy="enqueue")
    await running
    status = await one.store.turns.status(**key("one"))
    assert (status.is_running, status.waiting) == (False, ()), "a message waits, and nobody answers it"


async def a_begin_that_others_overtake(world: World) -> None:
    """Others append twice: before a turn begins, and after its first read."""
    one = Fated(world)
    await one.fill()
    await one.start(run, one.store, Counting(name="counting"))
    await one.plain.sessions.append_event(await one.stored(), long_event("before"))
    arrived = one.meets("commit", held_s=1.0)
    running = one.start(run, one.store, Counting(name="counting"))
    await arrived.wait()
    await asyncio.sleep(0.5)
    await one.plain.sessions.append_event(await one.stored(), long_event("meanwhile"))
    await running
    seen = (await one.stored()).state[SEEN]
    # The message and the answer of the first turn, the two of others, and the message of this one.
    assert seen == 5, f"the agent saw {seen} events"  # as above


async def an_archive_that_is_done_in_part(world: World) -> None:
    """The service refuses all commits of an archive but the first, which moves fifty segments."""
    one = Fated(world, session_limits=ONE_EACH)
    await one.fill(*map(str, range(60)))
    one.meets("commit", Fate.ANSWERED, then=Fate.REFUSED)
    archive = partial(one.store.sessions.archive_session, **key("one"), before=Point.position(58))
    await error_of(one.start(archive), OutcomeUnknownError)
    assert await one.ids() == ["58", "59"]


async def a_redaction_after_an_archive(world: World, *, how: str) -> None:
    """A restore cuts off an archived segment, and then an event is redacted that it had.

    The restore ends at its commit; another one finishes it; or it knew the segment before it was archived.
    """
    one = Fated(world, session_limits=LIMITS)
    sessions, restore = one.plain.sessions, partial(one.store.sessions.restore_session, **key("one"))
    await one.fill(*"abcdefghijkl")
    await one.held()
    await sessions.archive_session(**key("one"), before=Point.position(10))
    if how == "knew":
        await sessions.restore_session(**key("one"), at=Point.position(8))
        await one.start(restore, at=Point.position(2))
    else:
        is_restored = one.meets("commit")
        call = one.start(restore, at=Point.position(2))
        await is_restored.wait()
        one.process.kill()
        await asyncio.wait([call])
    if how == "finished":
        await sessions.restore_session(**key("one"), at=Point.position(1))
    if how != "interrupted":
        assert not await objects_of(one.service), "the archives of what the restore cut off are left"
    await one.plain.redact_event(**key("one"), event_id="a", reason="asked for")
    for name in await objects_of(one.service):
        found = await one.service.backend.objects.read(name, generation=None)
        assert found is None or b"a a a" not in found[0], "the bucket has the event"


async def a_rewind_that_others_overtake(world: World) -> None:
    """Another process sets a key between the read of a rewind and its commit; both are stored."""
    one = Fated(world, on_conflict="merge")
    session = await one.fill()
    for event in (long_event("a", before="kept"), long_event("b", since="lost")):
        event.invocation_id = event.id
        await one.plain.sessions.append_event(session, event)
    held = await one.held()
    rewind = long_event("c", since=None)
    rewind.actions.rewind_before_invocation_id = "b"
    arrived = one.meets("commit", held_s=5.0)
    call = one.start(one.store.sessions.append_event, held, rewind)
    await arrived.wait()
    await one.plain.sessions.append_event(session, long_event("d", before="lost", meanwhile="lost"))
    await call
    stored = await one.stored()
    assert [event.id for event in stored.events] == [*"abdc"]
    assert stored.state == {"before": "kept", "since": None, "meanwhile": None}, stored.state
    assert (held.state, held.events) == (stored.state, stored.events), "the handle is not what is stored"


async def forget(memory: MemoryService) -> None:
    """Delete the memory."""
    await memory.delete_memory(**MEMORIES_OF, memory_id="one")


async def shorten(memory: MemoryService) -> None:
    """Replace the content of the memory."""
    await memory.update_memory(**MEMORIES_OF, memory_id="one", content=spoken("memory"))


SCENARIOS: Final[Mapping[str, Scenario]] = {
    "refused-after-lost": an_append_that_is_refused_then,
    "refused-read": a_read_that_is_refused,
    "over-quota": partial(an_append_over_quota, asks_s=4.0),
    "over-quota-for-long": partial(an_append_over_quota, asks_s=40.0),
    "deletion-of-parts": a_deletion_that_leaves_parts,
    "overtaken-deletion": a_deletion_of_a_session,
    "overtaken-task": a_deletion_of_a_task,
    "overtaken-rotation": a_rotation,
    "rotation-of-two-keys": a_rotation_of_two_keys,
    "unanswered-rotation": an_unanswered_rotation,
    "forgotten-note": a_forgotten_note,
    "destroyed-key": a_write_beside_an_erasure,
    "copy-of-gone": a_copy_of_what_goes,
    "upload-of-gone": an_upload_that_goes,
    "wrong-clock": a_wrong_clock_at_the_begin,
    "wrong-collector": a_collector_with_a_wrong_clock,
    "listed-value": partial(a_read_while_a_value_goes, name="large", lists=True),
    "listed-user-value": partial(a_read_while_a_value_goes, name="user:large", lists=True),
    "read-value": partial(a_read_while_a_value_goes, name="large", lists=False),
    "searched-content": a_search_while_content_goes,
    "deleted-memory": partial(a_memory_that_goes, change=forget),
    "changed-memory": partial(a_memory_that_goes, change=shorten),
    "long-renewal": a_renewal_that_takes_long,
    "handle-that-goes": a_handle_that_goes,
    "loaded-again": a_version_that_is_loaded_again,
    "deleted-in-part": a_deletion_that_fails_in_part,
    "running-lease": a_lease_that_runs,
    "lost-turn": a_turn_that_is_lost,
    "restored-turn": an_append_that_a_restore_takes_back,
    "unanswered-restore": a_restore_that_is_not_answered,
    "pruned-too-late": partial(a_prune_beside_others, change="event"),
    "pruned-with-label": partial(a_prune_beside_others, change="label"),
    "pruned-with-message": partial(a_prune_beside_others, change="message"),
    "cancelled-append": an_append_whose_caller_goes,
    "put-again": a_payload_that_is_put_again,
    "unanswered-import": an_import_that_is_not_answered,
    "waits-in-line": calls_that_wait_in_line,
    "waiting-message": a_message_before_the_end_of_a_run,
    "overtaken-begin": a_begin_that_others_overtake,
    "overtaken-rewind": a_rewind_that_others_overtake,
    "archived-in-part": an_archive_that_is_done_in_part,
    "redacted-after-archive": partial(a_redaction_after_an_archive, how="interrupted"),
    "redacted-after-finished": partial(a_redaction_after_an_archive, how="finished"),
    "redacted-after-known": partial(a_redaction_after_an_archive, how="knew"),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_call_says_what_became_of_it(name: str) -> None:
    """Each is an order of events in which a call once said what was wrong, or did it."""
    simulate(SCENARIOS[name], seeds=range(at_length(1, 3)), faults=FAST)


def test_a_rotation_of_some_keys_is_not_called_refused_where_the_last_try_has_no_answer() -> None:
    """Each try before it was refused; messages are slow."""
    simulate(a_rotation_of_two_keys, seeds=[969_193_475], faults=Faults.all(0.0))
