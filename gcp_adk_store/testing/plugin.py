"""Give pytest the emulators and a store on them; loaded by pytest wherever this package is installed."""

import asyncio
import os
import shlex
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from gcp_adk_store.imports import how_to_install
from gcp_adk_store.testing import emulators
from gcp_adk_store.testing.emulators import create_bucket

if TYPE_CHECKING:
    from gcp_adk_store.ces import PythonRuntime
    from gcp_adk_store.ces.sandbox import Sandbox
    from gcp_adk_store.store import Store
    from gcp_adk_store.testing.simulation import Faults, Scenario, Simulated


@pytest.fixture(scope="session")
def firestore_emulator() -> Iterator[emulators.Emulator]:
    """The Firestore emulator: the one at ``FIRESTORE_EMULATOR_HOST``, else one started for this run.

    The variable is set while the fixture lives, so every Google client of the run finds it.
    """
    yield from _announced(emulators.firestore_emulator)


@pytest.fixture(scope="session")
def storage_emulator() -> Iterator[emulators.Emulator]:
    """The Cloud Storage emulator: the one at ``STORAGE_EMULATOR_HOST``, else one started for this run.

    The variable is set while the fixture lives, so every Google client of the run finds it.
    """
    yield from _announced(emulators.storage_emulator)


@pytest.fixture
def adk_store_bucket(storage_emulator: emulators.Emulator) -> str:
    """Name of a new, empty bucket on the emulator."""
    name = f"adk-store-{uuid.uuid4().hex}"
    create_bucket(name, storage_emulator.address)
    return name


@pytest.fixture
def adk_store(firestore_emulator: emulators.Emulator, adk_store_bucket: str) -> "Iterator[Store]":
    """A :class:`~gcp_adk_store.Store` on a project and a bucket that no other test has seen.

    It works in any event loop of the test, and is closed after it.
    """
    from gcp_adk_store.store import Store  # noqa: PLC0415  # ADK and Google's clients, where they are used

    assert firestore_emulator.address == os.environ[emulators.FIRESTORE_VARIABLE]
    store = Store.connect(project=f"demo-{uuid.uuid4().hex[:20]}", bucket=adk_store_bucket)
    yield store
    asyncio.run(store.close())


@pytest.fixture
def adk_store_local() -> "Iterator[Store]":
    """A :class:`~gcp_adk_store.Store` in memory, which needs no emulator.

    It works in any event loop of the test, and is closed after it.
    """
    from gcp_adk_store.store import Store  # noqa: PLC0415  # as above

    store = Store.local(":memory:")
    yield store
    asyncio.run(store.close())


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that repeats one schedule of a simulation."""
    parser.addoption(
        "--adk-store-seed", type=int, metavar="SEED", help="run this one schedule of each simulation"
    )


@pytest.fixture
def adk_store_simulate(request: pytest.FixtureRequest) -> "Callable[..., Simulated]":
    """Run a scenario in many orders of events: ``adk_store_simulate(scenario, schedules=100, faults=None)``.

    It raises :class:`~gcp_adk_store.testing.simulation.ScheduleError` for the first seed whose schedule
    fails, with the command that runs it alone.
    """
    from gcp_adk_store.testing.simulation import simulate  # noqa: PLC0415  # as above

    only: int | None = request.config.getoption("--adk-store-seed")
    repeat = f"pytest {shlex.quote(request.node.nodeid)} --adk-store-seed {{seed}}"

    def run(scenario: "Scenario", *, schedules: int = 100, faults: "Faults | None" = None) -> "Simulated":
        seeds = range(schedules) if only is None else [only]
        return simulate(scenario, seeds=seeds, faults=faults, repeat=repeat)

    return run


@pytest.fixture(scope="session")
def ces_sandbox() -> "Iterator[Sandbox]":
    """The sandbox of this run's runtimes of customer-engagement agents; needs the extra ``ces``.

    If it cannot start, the test fails with the missing requirements; a skipped test would hide them.
    """
    try:
        from gcp_adk_store.ces import RuntimeSettings  # noqa: PLC0415  # of an extra, where it is used
        from gcp_adk_store.ces.host.admission import Room  # noqa: PLC0415  # likewise
        from gcp_adk_store.ces.sandbox import (  # noqa: PLC0415  # of an extra, where it is used
            BubblewrapSandbox,
            SandboxUnavailableError,
        )
    except ModuleNotFoundError as exc:
        raise _failure(f"{exc.msg}: {how_to_install('ces')}") from None
    sandbox = BubblewrapSandbox(runs_at_once=Room.of(RuntimeSettings(), None).places)
    try:
        asyncio.run(sandbox.start())
    except SandboxUnavailableError as exc:
        raise _failure(str(exc)) from None
    yield sandbox
    asyncio.run(sandbox.close())


@pytest.fixture
def ces_runtime(adk_store: "Store", ces_sandbox: "Sandbox") -> "Iterator[PythonRuntime]":
    """A :class:`~gcp_adk_store.ces.PythonRuntime` on ``adk_store``: without tools, and reaching no host.

    For another, ``PythonRuntime(adk_store.sessions, tools=..., sandbox=ces_sandbox)``.
    """
    from gcp_adk_store.ces import PythonRuntime  # noqa: PLC0415  # of an extra, where it is used

    runtime = PythonRuntime(adk_store.sessions, artifact_service=adk_store.artifacts, sandbox=ces_sandbox)
    yield runtime
    asyncio.run(runtime.close())


def _failure(message: str) -> BaseException:
    """Return what fails a test by a *message* to act on, without a traceback; a skipped test shows nothing.

    Raised from None: pytest shows the message of what it is raised from, too.
    """
    return pytest.fail.Exception(message, pytrace=False)


def _announced(start: Callable[[], emulators.Emulator]) -> Iterator[emulators.Emulator]:
    try:
        emulator = start()
    except emulators.EmulatorError as exc:
        raise _failure(str(exc)) from None
    with emulator, pytest.MonkeyPatch.context() as patch:
        patch.setenv(emulator.variable, emulator.address)
        yield emulator
