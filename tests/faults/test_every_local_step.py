"""Every step of every operation on a folder goes wrong; then the folder is looked at from outside.

The operations and what is compared are those of ``test_every_step.py``. A step is a statement of SQLite, or a
system call that changes a file. It fails, or, if it changes the disk, the call is cancelled or the process is
killed at it. In `make test` two steps of some operations go wrong in one way each; `make long` lets each step
of each operation go wrong in every way.
"""

import asyncio
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from gcp_adk_store import OutcomeUnknownError, StoreError, UnavailableError
from tests.faults.conftest import some
from tests.faults.folder_world import STEPS, Failure, Fault, FolderWorld, Kill, Pause, Step, watch
from tests.faults.operations import OPERATIONS, Operation
from tests.faults.test_every_step import READING, WRITING, Undisturbed, has_recovered
from tests.faults.world import normal
from tests.support.ready_processes import READY
from tests.support.small_pieces import use_small_pieces
from tests.support.temporary import temporary_folder

LONGEST_S = 60.0

LOCKED, FULL, UNREADABLE = Failure("SQLITE_BUSY"), Failure("SQLITE_FULL"), Failure("SQLITE_IOERR_READ")
NO_SPACE, BROKEN = Failure("ENOSPC"), Failure("EIO")
FAILURES: dict[str, list[Failure]] = {
    "begin": [LOCKED, UNREADABLE],
    "read": [UNREADABLE],
    "change": [FULL],
    "commit": [
        FULL,
        Failure("SQLITE_IOERR_WRITE"),
        Failure("SQLITE_IOERR_FSYNC"),
        Failure("SQLITE_IOERR_FSYNC", is_done=True),
    ],
    "open": [Failure("EMFILE")],
    "write": [NO_SPACE],
    "mkdir": [NO_SPACE],
    "fsync": [BROKEN],
    "rename": [NO_SPACE],
    "unlink": [BROKEN],
}
"""What can go wrong with a step, by its kind."""
LASTING = {"commit", "write", "fsync", "rename", "mkdir", "unlink"}
"""Kinds of steps that change what is on the disk."""


@dataclass(frozen=True)
class Prepared:
    """An operation's folder before it, and what the operation does undisturbed."""

    name: str
    folder: Path
    now: float
    expected: Undisturbed
    steps: list[Step]

    def failures(self) -> list[tuple[Step, Failure]]:
        """Return the steps, each with how it fails."""
        cases = ((step, failure) for step in self.steps for failure in FAILURES[step[0]])
        return some(cases, f"{self.name} fails", 2)

    def ends(self, how: str) -> list[tuple[Step, bool]]:
        """Return the steps at which the caller ends so, and whether they are done then."""
        lasting = [step for step in self.steps if step[0] in LASTING]
        cases = [(step, False) for step in lasting]
        cases += [(step, True) for step in lasting if step[0] == "commit"]
        return some(cases, f"{self.name} {how}", 2)

    @property
    def operation(self) -> Operation:
        """What is done."""
        return OPERATIONS[self.name]

    def world(self, copies: Iterator[Path]) -> FolderWorld:
        """Return a world of its own, with what is there before."""
        return FolderWorld(shutil.copytree(self.folder, next(copies)), self.now)


Known = tuple[dict[str, Prepared], Iterator[Path]]
"""By the operation's name; and names of folders that do not exist yet, which last as long."""


@pytest.fixture(autouse=True)
def all_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Watch all steps."""
    watch(monkeypatch)


@pytest.fixture
def copies() -> Iterator[Iterator[Path]]:
    """Names of folders that do not exist yet."""
    with temporary_folder() as folder:
        yield (folder / f"{number}" for number in count())


@pytest.fixture(scope="module")
def known() -> Iterator[Known]:
    """What operations find and do undisturbed, as far as it is known."""
    with temporary_folder() as folder:
        yield {}, (folder / f"{number}" for number in count())


async def prepared(name: str, known: Known) -> Prepared:
    """Make what is there before, and do the operation on a copy with nothing going wrong; once."""
    found, copies = known
    if name not in found:
        found[name] = await _prepared(name, copies)
    return found[name]


async def _prepared(name: str, copies: Iterator[Path]) -> Prepared:
    operation = OPERATIONS[name]
    world = FolderWorld(next(copies))
    with world.keeping_time():
        await operation.prepare(world)
        await world.settle()
    undisturbed = Prepared(name, world.folder, world.now, Undisturbed({}, {}, ()), [])
    world = undisturbed.world(copies)
    with world.keeping_time():
        held = await operation.attach(world)
        before = normal(await world.holdings())
        with STEPS.suffering(lambda _: None):
            await operation.act(held)
        steps = sorted(STEPS.taken)
        await world.collect()
        expected = Undisturbed(before, normal(await world.holdings()), ())
        await world.settle()
    assert steps
    return Prepared(name, undisturbed.folder, undisturbed.now, expected, steps)


def only(step: Step, fault: Fault) -> Callable[[Step], Fault | None]:
    """Return the plan of one step that goes wrong."""
    return lambda taken: fault if taken == step else None


def led_to(error: BaseException | None) -> Iterator[BaseException]:
    """Yield *error* and what led to it."""
    while error is not None:
        yield error
        error = error.__cause__


@pytest.mark.sample(9)
@pytest.mark.parametrize("name", WRITING)
async def test_a_step_on_the_disk_that_fails_leaves_all_or_nothing(
    known: Known, copies: Iterator[Path], name: str
) -> None:
    """A file that is held for a moment is not noticed; any other error says what is stored."""
    case = await prepared(name, known)
    operation = case.operation

    async def fail(step: Step, failure: Failure) -> None:
        world = case.world(copies)
        with world.keeping_time():
            held = await operation.attach(world)
            before = operation.snapshot(held)
            error: StoreError | None = None
            with STEPS.suffering(only(step, failure)):
                try:
                    await operation.act(held)
                except StoreError as exc:
                    error = exc
            await world.settle()
            assert isinstance(error, UnavailableError | OutcomeUnknownError | None)
            if error is not None:
                assert failure != LOCKED
                assert error.operation
                assert any(str(world.folder) in str(each) for each in led_to(error))
            world.may_miss_others = failure != LOCKED
            await operation.check(world, held, before, error)
            await has_recovered(operation, world, case.expected, error)
            await world.settle()

    for step, failure in case.failures():
        async with asyncio.timeout(LONGEST_S):
            await fail(step, failure)


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", READING)
async def test_a_read_whose_step_on_the_disk_fails_returns_the_same_or_an_error(
    known: Known, copies: Iterator[Path], name: str
) -> None:
    """Nothing but UnavailableError says so."""
    case = await prepared(name, known)
    world = case.world(copies)
    with world.keeping_time():
        expected = await case.operation.act(await case.operation.attach(world))
        for step, failure in case.failures():
            held = await case.operation.attach(world)
            with STEPS.suffering(only(step, failure)), suppress(UnavailableError):
                assert expected == await case.operation.act(held)
        assert case.expected.before == normal(await world.holdings())
        await world.settle()


@pytest.mark.sample(9)
@pytest.mark.parametrize("name", WRITING)
async def test_a_caller_that_is_cancelled_at_a_step_on_the_disk_leaves_all_or_nothing(
    known: Known, copies: Iterator[Path], name: str
) -> None:
    """Before the step, or after a commit was done."""
    case = await prepared(name, known)

    async def cancel(step: Step, *, is_done: bool) -> None:
        world = case.world(copies)
        with world.keeping_time():
            held = await case.operation.attach(world)
            pause = Pause(is_done)
            with STEPS.suffering(only(step, pause)):
                task = asyncio.create_task(case.operation.act(held))
                task.add_done_callback(lambda _: pause.reached.set())  # two files may share a folder
                assert await asyncio.to_thread(pause.reached.wait, LONGEST_S)
                task.cancel()
                pause.may_go_on.set()
                await asyncio.wait([task], timeout=LONGEST_S)
                await world.settle()
            assert task.done()
            await has_recovered(case.operation, world, case.expected, asyncio.CancelledError())
            await world.settle()

    for step, is_done in case.ends("cancelled"):
        await cancel(step, is_done=is_done)


@pytest.mark.sample(9)
@pytest.mark.parametrize("name", WRITING)
async def test_a_process_that_is_killed_at_a_step_on_the_disk_leaves_all_or_nothing(
    known: Known, copies: Iterator[Path], name: str
) -> None:
    """SIGKILL: no handler, no farewell; another process goes on."""
    case = await prepared(name, known)
    killed: list[bool] = []

    async def kill(step: Step, *, is_done: bool) -> None:
        world = case.world(copies)
        ours, theirs = READY.Pipe(duplex=False)
        arguments = (theirs, name, str(world.folder), world.now, step, is_done)
        process = READY.Process(target=_die, args=arguments, daemon=True)
        await asyncio.to_thread(process.start)
        theirs.close()
        world.now = await asyncio.to_thread(ours.recv)
        await asyncio.to_thread(process.join, LONGEST_S)
        ours.close()
        assert process.exitcode in (-signal.SIGKILL, 0)  # two files may share a folder
        killed.append(process.exitcode != 0)
        with world.keeping_time():
            await has_recovered(case.operation, world, case.expected, asyncio.CancelledError())
            await world.settle()

    for step, is_done in case.ends("killed"):
        await kill(step, is_done=is_done)
    assert sum(killed) >= len(killed) / 2


def _die(clock: Connection, name: str, folder: str, now: float, step: Step, is_done: bool) -> None:  # noqa: FBT001  # across processes
    patch = pytest.MonkeyPatch()
    use_small_pieces(patch)
    watch(patch)
    world = FolderWorld(Path(folder), now)

    async def act() -> None:
        operation = OPERATIONS[name]
        with world.keeping_time():
            held = await operation.attach(world)
            clock.send(world.now)
            with STEPS.suffering(only(step, Kill(is_done))):
                await operation.act(held)

    asyncio.run(act())
