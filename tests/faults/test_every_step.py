"""Every request of every operation goes wrong; then the store is looked at from outside.

In `make test` each operation is in two of the tests below, and one of its requests goes wrong there in one
way; they take turns over tests, requests and operations. `make long` lets each request go wrong in every way
of every test.

Whatever happened: what was done is done as a whole or not at all, what is left beside it is what a collector
finds and removes, a caller who was told that nothing was written finds nothing, one who was told nothing
certain gets there by reading and repeating, and the caller's ``Session`` is as it was or as storage is.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from gcp_adk_store import OutcomeUnknownError, StoreError, UnavailableError
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, STORAGE_VARIABLE, Emulator
from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy
from gcp_adk_store.testing.faults.plans import Cut, Fault, Garble, Hold, Lose, Refuse
from gcp_adk_store.testing.faults.storage_proxy import StorageProxy
from tests.faults.conftest import Ways, in_turn
from tests.faults.operations import OPERATIONS, Create, Operation
from tests.faults.world import CloudWorld, Emulators, FromNow, World, normal
from tests.faults.world_process import act_in_a_process

AT_ONCE = 12
HANGS_S = 60.0
WRITING = [name for name, operation in OPERATIONS.items() if operation.writes]
READING = [name for name, operation in OPERATIONS.items() if not operation.writes]

NOT_SENT, REFUSED, LOST = Refuse("UNAVAILABLE"), Refuse("RESOURCE_EXHAUSTED"), Lose()
ONCE: dict[str, list[Fault]] = {
    "Commit": [NOT_SENT, REFUSED, LOST, Garble()],
    "BatchGetDocuments": [NOT_SENT, REFUSED, Cut(), Garble()],
    "RunQuery": [NOT_SENT, REFUSED, Cut(), Garble()],
    "upload": [REFUSED, LOST, Cut("request"), Garble()],
    "media": [REFUSED, LOST, Cut(), Garble()],
    "list": [REFUSED, LOST, Cut(), Garble()],
    "metadata": [REFUSED, LOST, Cut(), Garble()],
}
"""What can go wrong with a request, by its kind; with another kind what goes wrong with an upload."""
OUTAGES: dict[str, tuple[Fault, Fault]] = {
    "every request is refused": (REFUSED, REFUSED),
    "one answer is lost, then no request arrives": (LOST, NOT_SENT),
}
"""What the first request of an outage meets, and what those after it do."""
Stage = Literal["before", "after"]
STAGES: list[Stage] = ["before", "after"]


@dataclass(frozen=True)
class Undisturbed:
    """What an operation does when nothing goes wrong."""

    before: dict[str, str]
    after: dict[str, str]
    steps: list[tuple[str, int, str]]
    """Each of its requests: service, number and kind."""


def kind_of(step: tuple[str, int, str]) -> tuple[str, str]:
    """Return the service and the kind of a request."""
    service, _, kind = step
    return service, kind


@pytest.fixture(scope="module")
def emulators(firestore_emulator: Emulator, storage_emulator: Emulator) -> Iterator[Emulators]:
    """Proxies before both emulators, for all cases of this module."""
    with FirestoreProxy(firestore_emulator.address) as clock:
        told = Emulators(clock.address, storage_emulator.address)
        clock.clock = told.time_of
        yield from _with_faults(told, firestore_emulator.address)


def _with_faults(told: Emulators, address: str) -> Iterator[Emulators]:
    with (
        FirestoreProxy(address, told.firestore_plans) as firestore,
        StorageProxy(told.storage, told.storage_plans) as storage,
        pytest.MonkeyPatch.context() as patch,
    ):
        firestore.clock = told.time_of
        patch.setenv(FIRESTORE_VARIABLE, firestore.address)
        patch.setenv(STORAGE_VARIABLE, storage.address)
        for module in ("artifacts.files", "cloud.storage.resumable"):
            patch.setattr(f"gcp_adk_store.{module}.CHUNK_BYTES", 256 * 1024)
        patch.setattr("gcp_adk_store.sessions.fork.format.SEGMENTS_PER_COMMIT", 2)
        yield told


@pytest.fixture(scope="module")
def known() -> dict[str, Undisturbed]:
    """What operations do undisturbed, as far as it is known."""
    return {}


@contextlib.asynccontextmanager
async def prepared(operation: Operation, emulators: Emulators) -> AsyncIterator[CloudWorld]:
    """Make a store of its own, with what is there before."""
    world = CloudWorld(emulators)
    with world.keeping_time():
        await asyncio.to_thread(world.create_bucket)
        await operation.prepare(world)
        yield world
        await world.settle()


async def undisturbed(name: str, emulators: Emulators, known: dict[str, Undisturbed]) -> Undisturbed:
    """Do it once with nothing going wrong; count its requests."""
    if name not in known:
        known[name] = await _undisturbed(OPERATIONS[name], emulators)
    return known[name]


async def _undisturbed(operation: Operation, emulators: Emulators) -> Undisturbed:
    counts = {service: FromNow(lambda _: None) for service in ("firestore", "storage")}
    async with prepared(operation, emulators) as world:
        held = await operation.attach(world)
        before = normal(await world.holdings())
        with world.suffering("firestore", counts["firestore"]), world.suffering("storage", counts["storage"]):
            await operation.act(held)
        await world.collect()
        after = normal(await world.holdings())
    steps = [
        (service, number, kind) for service, plan in counts.items() for number, kind in enumerate(plan.kinds)
    ]
    return Undisturbed(before, after, steps)


async def each(cases: list[Any], at_once: int = AT_ONCE) -> None:
    """Run *cases*, some at a time."""
    gate = asyncio.Semaphore(at_once)
    # Each case may wait in a thread for what it holds, and look at the store from another.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(4 * AT_ONCE))

    async def one(case: Any) -> None:
        async with gate, asyncio.timeout(HANGS_S):
            await case

    async with asyncio.TaskGroup() as group:
        for case in cases:
            group.create_task(one(case))


def once_at(number: int, fault: Fault) -> FromNow:
    """Return the plan of one request that goes wrong."""
    return FromNow(lambda call: fault if call == number else None)


def outage_from(number: int, first: Fault, later: Fault) -> FromNow:
    """Return the plan of an outage."""
    return FromNow(lambda call: None if call < number else first if call == number else later)


async def _reached(hold: Hold, acting: "asyncio.Task[Any]") -> None:
    """Wait until a request is held, or until all is done: contention makes one more, now and then."""
    held = asyncio.create_task(asyncio.to_thread(hold.reached.wait, HANGS_S))
    await asyncio.wait([held, acting], return_when=asyncio.FIRST_COMPLETED)
    hold.reached.set()
    await held


async def has_recovered(
    operation: Operation, world: World, expected: Undisturbed, error: BaseException | None
) -> None:
    """Compare the store with what the outcome said; then do what a caller does, and compare again."""
    world.may_miss_others = False
    await world.collect(uploads=False)
    found = normal(await world.holdings())
    if error is None:
        assert expected.after == found
    elif isinstance(error, UnavailableError) and (operation.atomic or not isinstance(operation, Create)):
        assert expected.before == found  # a session may be removed that had expired before it is made anew
    elif not operation.atomic:
        possible = [*expected.before.items(), *expected.after.items()]
        assert all(item in possible for item in found.items())
    else:
        assert found in (expected.before, expected.after)
    if error is not None:
        await operation.recover(world)
        found = normal(await world.holdings())
        if found != expected.after:  # for what the operation leaves to the collector
            await world.collect()
            found = normal(await world.holdings())
        assert expected.after == found


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", in_turn(WRITING, 0))
async def test_a_step_that_fails_once_is_not_noticed(
    emulators: Emulators, known: dict[str, Undisturbed], name: str, ways: Ways
) -> None:
    """The operation succeeds, once, with what it returns otherwise."""
    operation = OPERATIONS[name]
    expected = await undisturbed(name, emulators, known)

    async def case(service: str, number: int, fault: Fault) -> None:
        async with prepared(operation, emulators) as world:
            held = await operation.attach(world)
            before = operation.snapshot(held)
            with world.suffering(service, once_at(number, fault)):
                await operation.act(held)
            await operation.check(world, held, before, None)
            await has_recovered(operation, world, expected, None)
            await operation.go_on(held)

    assert expected.steps
    await each(
        [
            case(service, number, fault)
            for step, (service, number, kind) in ways.shared(expected.steps, kind_of, 0)
            for fault in ways.of(step, ONCE.get(kind, ONCE["upload"]))
        ]
    )


@pytest.mark.sample(6)
@pytest.mark.usefixtures("passing")
@pytest.mark.parametrize("name", in_turn(WRITING, 1))
async def test_an_outage_that_begins_at_a_step_leaves_all_or_nothing(
    emulators: Emulators, known: dict[str, Undisturbed], name: str, ways: Ways
) -> None:
    """The error says what that means."""
    operation = OPERATIONS[name]
    expected = await undisturbed(name, emulators, known)

    async def case(service: str, number: int, outage: str) -> None:
        async with prepared(operation, emulators) as world:
            world.may_miss_others = True
            held = await operation.attach(world)
            before = operation.snapshot(held)

            error: StoreError | None = None
            with world.suffering(service, outage_from(number, *OUTAGES[outage])):
                try:
                    await operation.act(held)
                except StoreError as exc:
                    error = exc
            await world.settle()
            assert isinstance(error, UnavailableError | OutcomeUnknownError | None)
            if error is not None:
                assert error.operation
                assert error.attempts
            await operation.check(world, held, before, error)
            await has_recovered(operation, world, expected, error)

    await each(
        [
            case(service, number, outage)
            for step, (service, number, _) in ways.shared(expected.steps, kind_of, 1)
            for outage in ways.of(step, list(OUTAGES))
        ],
        at_once=1,  # the pauses of one let time pass for all
    )


@pytest.mark.sample(6)
@pytest.mark.usefixtures("passing")
@pytest.mark.parametrize("name", READING)
async def test_a_read_whose_step_fails_returns_the_same_or_an_error(
    emulators: Emulators, name: str, ways: Ways
) -> None:
    """Once, it is not noticed; where an outage begins, nothing but UnavailableError says so."""
    operation = OPERATIONS[name]
    counts = {service: FromNow(lambda _: None) for service in ("firestore", "storage")}
    async with prepared(operation, emulators) as world:
        holdings = await world.holdings()
        with world.suffering("firestore", counts["firestore"]), world.suffering("storage", counts["storage"]):
            expected = await operation.act(await operation.attach(world))
        for service, count in counts.items():
            for number, kind in enumerate(count.kinds):
                for way in ways.of(number, [*ONCE[kind], *OUTAGES.values()]):
                    held = await operation.attach(world)
                    if isinstance(way, tuple):
                        plan = outage_from(number, *way)
                        with world.suffering(service, plan), pytest.raises(UnavailableError):
                            await operation.act(held)
                    else:
                        with world.suffering(service, once_at(number, way)):
                            assert expected == await operation.act(held)
        assert counts["firestore"].kinds or counts["storage"].kinds
        assert holdings == await world.holdings()


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", in_turn(WRITING, 2))
async def test_a_caller_that_is_cancelled_at_a_step_leaves_all_or_nothing(
    emulators: Emulators, known: dict[str, Undisturbed], name: str, ways: Ways
) -> None:
    """Before the request arrives, or after it was done and before the answer is there."""
    operation = OPERATIONS[name]
    expected = await undisturbed(name, emulators, known)

    async def case(service: str, number: int, stage: Stage) -> None:
        async with prepared(operation, emulators) as world:
            held = await operation.attach(world)
            hold = Hold(stage)
            with world.suffering(service, once_at(number, hold)):
                task = asyncio.create_task(operation.act(held))
                await _reached(hold, task)
                task.cancel()
                await asyncio.wait([task], timeout=HANGS_S)
                hold.release(forward=False)
                await world.settle()
            assert task.done()
            await has_recovered(operation, world, expected, asyncio.CancelledError())

    await each(
        [
            case(service, number, stage)
            for step, (service, number, _) in ways.shared(expected.steps, kind_of, 2)
            for stage in ways.of(step, STAGES)
        ]
    )


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", in_turn(WRITING, 3))
async def test_a_process_that_is_killed_at_a_step_leaves_all_or_nothing(
    emulators: Emulators, known: dict[str, Undisturbed], name: str, ways: Ways
) -> None:
    """SIGKILL: no handler, no farewell; another process goes on."""
    operation = OPERATIONS[name]
    expected = await undisturbed(name, emulators, known)

    async def case(service: str, number: int, stage: Stage) -> None:
        async with prepared(operation, emulators) as world:
            hold = Hold(stage)
            async with act_in_a_process(name, world) as acting:
                with world.suffering(service, once_at(number, hold)):
                    await _reached(hold, asyncio.create_task(acting.act()))
                    acting.kill()
                    hold.release(forward=False)
            await has_recovered(operation, world, expected, asyncio.CancelledError())

    await each(
        [
            case(service, number, stage)
            for step, (service, number, _) in ways.shared(expected.steps, kind_of, 3)
            for stage in ways.of(step + 1, STAGES)
        ]
    )
