"""One request without an answer, or held up, at the place where a call once said what was wrong."""

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest
from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.genai import types

from gcp_adk_store import OutcomeUnknownError, SessionLimits, Store, UnavailableError
from gcp_adk_store.codec.names import upload_name
from gcp_adk_store.codec.objects import ObjectFields
from gcp_adk_store.model.keys import ArtifactKey
from gcp_adk_store.testing.simulation import Fate, Process, Scenario, Service, World, simulate
from gcp_adk_store.testing.simulation.faults import Way
from tests.simulation.raw import documents_below
from tests.simulation.test_refusals import FAST, lose_the_first, overtake
from tests.simulation.test_sessions import key

ONE_EACH: Final = SessionLimits(seal_tail_bytes=200, inline_bytes=1_000, state_value_bytes=300)
"""Each event is a segment of its own, and large content is a payload."""
DEADLINE_S: Final = 6.0
PUNCTUAL: Final = SessionLimits(rpc_timeout_s=2.0, deadline_s=DEADLINE_S)
HOUR_S: Final = 3_600.0
USER: Final = "adk_apps/app/adk_users/user"


def fated(
    world: World, process: Process, kind: str, *fates: Fate, then: Fate = Fate.ANSWERED, held_s: float = 0.0
) -> asyncio.Event:
    """Give the requests of one *kind* of *process* these *fates* in order, and *then* to all later ones.

    The first one takes *held_s* longer to arrive. Return what is set when it arrives, or would without that.
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
        return replace(way, fate=next(coming, then))

    world.fates.way = way  # type: ignore[method-assign]
    return arrived


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
    with pytest.raises(OutcomeUnknownError):
        await process.start(store.sessions.append_event, held, said("event"))


async def a_read_that_is_refused(world: World) -> None:
    """The service refuses all reads for now."""
    service = Service(world)
    process = world.process("reads")
    store = service.store_of(process, session_limits=PUNCTUAL)
    fated(world, process, "get", then=Fate.REFUSED)
    begun = world.now
    with pytest.raises(UnavailableError):
        await process.start(store.sessions.get_session, **key("one"))
    assert world.now - begun <= DEADLINE_S * 1.02, f"a read took {world.now - begun:.3f} s"


async def a_deletion_that_leaves_parts(world: World) -> None:
    """The service refuses all commits of a deletion but the first; the id is used again, and deleted."""
    service = Service(world)
    plain, deleter = service.beside(session_limits=ONE_EACH), world.process("deletes")
    store = service.store_of(deleter, session_limits=ONE_EACH)
    await fill(plain, "first", "second")
    fated(world, deleter, "commit", Fate.ANSWERED, then=Fate.REFUSED)
    with pytest.raises(OutcomeUnknownError):
        await deleter.start(store.sessions.delete_session, **key("one"))
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
        held = await plain.sessions.get_session(**key("one")) or await fill(plain)
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
    name = upload_name(ArtifactKey.of(app="app", user="user", session="session", filename="one"), upload)
    fields = ObjectFields(content_type="text/plain", metadata={}, data=b"bytes")
    await service.backend.objects.create(name, fields)
    is_lost = fated(world, process, "copy object", Fate.REQUEST_LOST)
    call = process.start(store.artifacts.finalize_upload, **of_file("one"), upload_id=upload)
    await is_lost.wait()
    await service.backend.objects.delete(name, generation=None)
    with pytest.raises(OutcomeUnknownError):
        await call


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


SCENARIOS: Final[Mapping[str, Scenario]] = {
    "refused-after-lost": an_append_that_is_refused_then,
    "refused-read": a_read_that_is_refused,
    "deletion-of-parts": a_deletion_that_leaves_parts,
    "overtaken-deletion": a_deletion_of_a_session,
    "copy-of-gone": a_copy_of_what_goes,
    "upload-of-gone": an_upload_that_goes,
    "wrong-clock": a_wrong_clock_at_the_begin,
    "wrong-collector": a_collector_with_a_wrong_clock,
    "listed-value": a_listing_while_a_value_goes("large"),
    "listed-user-value": a_listing_while_a_value_goes("user:large"),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_call_says_what_became_of_it(name: str) -> None:
    """Each is an order of events in which a call once said what was wrong, or did it."""
    simulate(SCENARIOS[name], seeds=range(3), faults=FAST)
