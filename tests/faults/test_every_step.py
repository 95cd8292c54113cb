"""Every request of every operation goes wrong; then the store is looked at from outside.

The operations run on a simulated service, whose network loses requests below the library's own retry. In
`make test` one request of each operation goes wrong, in one way; operations take turns over the tests below.
`make long` lets each request go wrong in every way of every test.

Whatever happened: what was done is done as a whole or not at all, what is left beside it is what a collector
finds and removes, a caller who got the error that nothing was written finds nothing, one who got no error
certain gets there by reading and repeating, and the caller's ``Session`` is as it was or as storage is.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Final, TypeVar

import pytest

from gcp_adk_store import OutcomeUnknownError, StoreError, UnavailableError
from gcp_adk_store.testing.simulation import Fate
from tests.faults.conftest import some
from tests.faults.operations import OPERATIONS, Create, Delete, EraseUser, Operation
from tests.faults.simulated_world import Plan, SimulatedWorld, in_a_world
from tests.faults.world import World, normal
from tests.support.lengths import at_length

Way = TypeVar("Way")

WRITING = [name for name, operation in OPERATIONS.items() if operation.writes]
READING = [name for name, operation in OPERATIONS.items() if not operation.writes]

ONCE: Final = [*(Fate.REFUSED, Fate.OVER_QUOTA, Fate.REQUEST_LOST, Fate.ANSWER_LOST, Fate.CONNECTION_BROKEN)]
"""What can go wrong with a request."""
OUTAGES: Final = {
    "every request is refused": (Fate.REFUSED, Fate.REFUSED),
    "one answer is lost, then no request arrives": (Fate.CONNECTION_BROKEN, Fate.REQUEST_LOST),
}
"""What the first request of an outage meets, and what those after it do."""
OF_READS: Final[Sequence[Fate | tuple[Fate, Fate]]] = [*ONCE, *OUTAGES.values()]
"""What can go wrong with a read: once, or from there on."""
ENDS: Final = [Fate.REQUEST_LOST, Fate.ANSWER_LOST]
"""What becomes of the request at which a caller ends: it never arrives, or it is done."""

TESTS: Final = 3
"""How many tests share the operations that write."""


def of_turn(turn: int) -> list[str]:
    """Return the operations of the test that has this turn: one in three of those that write, or all."""
    return at_length(WRITING[turn::TESTS], WRITING)


CALLERS: Final = [
    (how, name)
    for number, name in enumerate(of_turn(2))
    for how in at_length((("cancelled", "killed")[number % 2],), ("cancelled", "killed"))
]
"""How callers of each operation end: in turn, or in both ways."""


@dataclass(frozen=True)
class Undisturbed:
    """What an operation does when nothing goes wrong."""

    before: dict[str, str]
    after: dict[str, str]
    kinds: Sequence[str]
    """Of its requests, in order."""


@cache
def undisturbed(name: str) -> Undisturbed:
    """Do it once with nothing going wrong; take note of its requests."""
    operation, found = OPERATIONS[name], []

    async def case(world: SimulatedWorld) -> None:
        await operation.prepare(world)
        held = await world.process.start(operation.attach, world)
        before = normal(await world.holdings())
        with world.suffering(lambda _: Fate.ANSWERED) as (kinds, _):
            await world.process.start(operation.act, held)
        await world.collect()
        found.append(Undisturbed(before, normal(await world.holdings()), kinds))

    in_a_world(case)
    return found[0]


def once_at(number: int, fate: Fate) -> Plan:
    """Return the plan of one request that goes wrong."""
    return lambda sent: fate if sent == number else Fate.ANSWERED


def outage_from(number: int, first: Fate, later: Fate) -> Plan:
    """Return the plan of an outage."""
    return lambda sent: Fate.ANSWERED if sent < number else first if sent == number else later


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


def steps(name: str, ways: Sequence[Way], count: int = 1) -> list[tuple[int, Way]]:
    """Return the requests of an operation that go wrong, by their number, and how."""
    requests = range(len(undisturbed(name).kinds))
    return some(product(requests, ways), f"{name} {ways}", count)


@pytest.mark.parametrize("name", of_turn(0))
def test_a_step_that_fails_once_is_not_noticed(name: str) -> None:
    """The operation succeeds, once, with what it returns otherwise."""
    operation = OPERATIONS[name]

    def fail(number: int, fate: Fate) -> None:
        async def case(world: SimulatedWorld) -> None:
            await operation.prepare(world)
            held = await world.process.start(operation.attach, world)
            before = operation.snapshot(held)
            with world.suffering(once_at(number, fate)):
                await world.process.start(operation.act, held)
            await operation.check(world, held, before, None)
            await has_recovered(operation, world, undisturbed(name), None)
            await world.process.start(operation.go_on, held)

        in_a_world(case)

    for number, fate in steps(name, ONCE):
        fail(number, fate)


@pytest.mark.parametrize("name", of_turn(1))
def test_an_outage_that_begins_at_a_step_leaves_all_or_nothing(name: str) -> None:
    """The error says what that means."""
    operation = OPERATIONS[name]

    def fail(number: int, outage: str) -> None:
        async def case(world: SimulatedWorld) -> None:
            await operation.prepare(world)
            world.may_miss_others = True
            held = await world.process.start(operation.attach, world)
            before = operation.snapshot(held)
            error: StoreError | None = None
            with world.suffering(outage_from(number, *OUTAGES[outage])):
                try:
                    await world.process.start(operation.act, held)
                except StoreError as exc:
                    error = exc
                await world.settle()
            assert isinstance(error, UnavailableError | OutcomeUnknownError | None)
            if error is not None:
                assert error.operation
                assert error.attempts
            if isinstance(error, OutcomeUnknownError) and isinstance(operation, Delete | EraseUser):
                assert "again" in str(error), "a deletion is called again, and nothing is read before"
            await operation.check(world, held, before, error)
            await has_recovered(operation, world, undisturbed(name), error)

        in_a_world(case)

    for number, outage in steps(name, list(OUTAGES)):
        fail(number, outage)


@pytest.mark.parametrize("name", READING)
def test_a_read_whose_step_fails_returns_the_same_or_an_error(name: str) -> None:
    """Once, it is not noticed; where an outage begins, nothing but UnavailableError says so."""
    operation = OPERATIONS[name]

    async def case(world: SimulatedWorld) -> None:
        await operation.prepare(world)
        holdings = await world.holdings()
        held = await world.process.start(operation.attach, world)
        expected = await world.process.start(operation.act, held)
        for number, way in steps(name, OF_READS, 2):
            held = await world.process.start(operation.attach, world)
            if isinstance(way, tuple):
                with world.suffering(outage_from(number, *way)), pytest.raises(UnavailableError):
                    await world.process.start(operation.act, held)
            else:
                with world.suffering(once_at(number, way)):
                    assert expected == await world.process.start(operation.act, held)
        assert holdings == await world.holdings()

    assert undisturbed(name).kinds
    in_a_world(case)


@pytest.mark.parametrize(("how", "name"), CALLERS)
def test_a_caller_that_ends_at_a_step_leaves_all_or_nothing(how: str, name: str) -> None:
    """Before the request arrives, or after it was done and before its answer is there."""
    operation = OPERATIONS[name]

    def end(number: int, fate: Fate) -> None:
        async def case(world: SimulatedWorld) -> None:
            await operation.prepare(world)
            held = await world.process.start(operation.attach, world)
            with world.suffering(once_at(number, fate), ends_at=number) as (_, reached):
                acting = world.process.start(operation.act, held)
                await reached.wait()
                if how == "killed":
                    world.process.kill()
                else:
                    acting.cancel()
                await asyncio.wait([acting])
                await world.settle()
            await has_recovered(operation, world, undisturbed(name), asyncio.CancelledError())

        in_a_world(case)

    for number, fate in steps(name, ENDS):
        end(number, fate)
