"""What says that nothing was written is right, also where others are first again and again."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from gcp_adk_store import KmsEnvelope, LocalKeyWrapper, OutcomeUnknownError, RotationReport
from gcp_adk_store.testing.simulation import Fate, Faults, Process, Service, World, simulate
from gcp_adk_store.testing.simulation.faults import Way
from tests.simulation.test_sessions import key
from tests.simulation.test_tasks import new_task
from tests.tasks.conftest import of as context_of

OLD: Final = b"o" * 32
NEW: Final = b"n" * 32
THIRD: Final = b"t" * 32
FAST: Final = Faults(latency_s=(0.005, 0.01))
"""Others write several times while a message is on its way."""


def envelope_of(*keys: bytes) -> KmsEnvelope:
    """Return the encryption by *keys*, the newest first."""
    return KmsEnvelope(key=LocalKeyWrapper(*keys))


def lose_the_first(world: World, service: Service, process: Process, *, last: int) -> asyncio.Event:
    """Break the connection of the first commit of *process*; cut it off after the *last*.

    Return what is set as soon as the first one is done.
    """
    way_of, commits, is_done = world.fates.way, 0, asyncio.Event()
    loop = asyncio.get_running_loop()

    def way(sender: str, what: str, about: str) -> Way:
        nonlocal commits
        way = way_of(sender, what, about)
        if (sender, what) != (process.name, "commit"):
            return way
        commits += 1
        if commits == 1:
            world.at(world.now + way.there_s + 0.0001, lambda: loop.call_soon(is_done.set))
            return replace(way, fate=Fate.CONNECTION_BROKEN)
        if commits == last:
            answered_at = world.now + way.there_s + way.back_s
            world.at(answered_at + 0.0001, lambda: service.network.cut_off(process))
        return way

    world.fates.way = way  # type: ignore[method-assign]
    return is_done


async def overtake(
    call: "asyncio.Future[Any]", is_done: asyncio.Event, others: Callable[[], Awaitable[object]]
) -> None:
    """Let *others* write again and again from the first commit of *call* on; its error is no promise."""
    await is_done.wait()
    for _ in range(200):
        await asyncio.sleep(0.001)
        await others()
    await asyncio.wait([call])
    assert isinstance(call.exception(), OutcomeUnknownError), f"{call.exception()!r} after a commit"


async def a_deletion_of_a_task(world: World) -> None:
    """Another server saves the task anew as soon as it is deleted."""
    service = Service(world)
    plain, context, deleter = service.beside(), context_of("ann"), world.process("deleter")
    store = service.store_of(deleter)
    await plain.tasks.save(new_task("task"), context)

    async def save() -> None:
        task = await plain.tasks.get("task", context) or new_task("task")
        task.metadata["number"] = world.random.random()
        await plain.tasks.save(task, context)

    is_done = lose_the_first(world, service, deleter, last=3)
    await overtake(deleter.start(store.tasks.delete, "task", context), is_done, save)


def test_a_deletion_of_a_task_that_was_done_and_overtaken_is_not_called_refused() -> None:
    """Its first commit deleted the task without an answer; a later one was refused."""
    simulate(a_deletion_of_a_task, seeds=range(3), faults=FAST)


async def a_rotation(world: World) -> None:
    """Processes with other newest keys wrap a data key back as soon as it is wrapped anew."""
    service = Service(world)
    others = itertools.cycle(
        [service.beside(encryption=envelope_of(*keys)) for keys in ((OLD, NEW, THIRD), (THIRD, NEW, OLD))]
    )
    await next(others).sessions.create_session(**key("one"))
    rotator = world.process("rotator")
    store = service.store_of(rotator, encryption=envelope_of(NEW, OLD, THIRD))
    is_done = lose_the_first(world, service, rotator, last=3)
    await overtake(rotator.start(store.rotate_keys), is_done, lambda: next(others).rotate_keys())


def test_a_rotation_that_was_done_and_overtaken_is_not_called_refused() -> None:
    """Its first commit wrapped a key without an answer; a later one was refused."""
    simulate(a_rotation, seeds=range(3), faults=FAST)


async def a_rotation_of_two_keys(world: World) -> None:
    """The service refuses all commits of the rotation but the first."""
    service = Service(world)
    plain = service.beside(encryption=envelope_of(OLD))
    for user in ("ann", "bob"):
        await plain.sessions.create_session(**{**key("one"), "user_id": user})
    rotator = world.process("rotator")
    store = service.store_of(rotator, encryption=envelope_of(NEW, OLD))
    way_of, fates = world.fates.way, iter([Fate.ANSWERED])

    def way(sender: str, what: str, about: str) -> Way:
        way = way_of(sender, what, about)
        return replace(way, fate=next(fates, Fate.REFUSED)) if what == "commit" else way

    world.fates.way = way  # type: ignore[method-assign]
    with pytest.raises(OutcomeUnknownError, match="some data keys are wrapped anew"):
        await rotator.start(store.rotate_keys)
    assert (await plain.rotate_keys()).failed == 1, "the first key is wrapped by the new one"


def test_a_rotation_of_some_keys_is_not_called_refused() -> None:
    """It wrapped the first key anew; each try of the second was refused, or the last one had no answer."""
    simulate(a_rotation_of_two_keys, seeds=range(3), faults=FAST)
    simulate(a_rotation_of_two_keys, seeds=[969_193_475], faults=Faults.all(0.0))


async def an_unanswered_rotation(world: World) -> None:
    """The connection breaks once the first of two keys is wrapped anew."""
    service = Service(world)
    plain = service.beside(encryption=envelope_of(OLD))
    for user in ("ann", "bob"):
        await plain.sessions.create_session(**{**key("one"), "user_id": user})
    rotator = world.process("rotator")
    store = service.store_of(rotator, encryption=envelope_of(NEW, OLD))
    lose_the_first(world, service, rotator, last=0)
    report = await rotator.start(store.rotate_keys)
    assert RotationReport(keys=2, rewrapped=2) == report


def test_a_rotation_counts_a_key_whose_commit_was_not_answered() -> None:
    """It reads its own wrapped key, and knows it again."""
    simulate(an_unanswered_rotation, seeds=range(3), faults=FAST)


async def a_forgotten_note(world: World) -> None:
    """The connection breaks once the note of a destroyed key is removed."""
    service = Service(world)
    encryption = envelope_of(OLD)
    plain = service.beside(encryption=encryption)
    await plain.sessions.create_session(**key("one"))
    await plain.erase_user(app_name="app", user_id=key("one")["user_id"])
    await asyncio.sleep(90_000)
    rotator = world.process("rotator")
    store = service.store_of(rotator, encryption=encryption)
    lose_the_first(world, service, rotator, last=0)
    assert RotationReport(forgotten=1) == await rotator.start(store.rotate_keys)


def test_a_rotation_counts_a_note_whose_removal_was_not_answered() -> None:
    """It reads that the note is gone."""
    simulate(a_forgotten_note, seeds=range(3), faults=FAST)
