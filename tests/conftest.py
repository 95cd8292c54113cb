"""Connect services to a database of the test's own, and fail a run that skipped a test."""

import asyncio
import gc
import itertools
import logging
import os
import uuid
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from gcp_adk_store import machine
from gcp_adk_store.testing import plugin
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, STORAGE_VARIABLE, Emulator
from tests.simulation.counts import RUN, empty_cells, table
from tests.support.clock import Clock, PassingTime, firestores_time
from tests.support.lengths import Lengths, of_long_runs
from tests.support.ready_programs import share_programs
from tests.support.shared_emulator import SharedEmulator, firestore_of_run
from tools.setup.tools import search_path

if TYPE_CHECKING:
    from gcp_adk_store import FirestoreSessionService
    from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy
    from gcp_adk_store.testing.faults.storage_proxy import StorageProxy
    from gcp_adk_store.testing.meters import FirestoreMeter


OF_LINUX = {"chromium", "terraform", "working_environment"}
"""Fixtures of what `make test-core` does not install."""
SLOW_TO_START = OF_LINUX | {"firestore_emulator", "storage_emulator", "ces_sandbox"}
"""Fixtures of what `make quick` does without."""

os.environ["PATH"] = search_path(os.environ)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run be one of `make test-core`."""
    parser.addoption("--core", action="store_true", help="leave out what needs Linux, or Terraform")
    parser.addoption("--quick", action="store_true", help="leave out what needs an emulator, too")
    parser.addoption("--long", action="store_true", help="run what has a long form in that")


def pytest_configure(config: pytest.Config) -> None:
    """Show the tests which form they have; several processes share an emulator, and programs."""
    Lengths.are_long = config.getoption("--long")
    # Between two tests the collector may find a task that one left in a closed loop: the terminal shows none.
    logging.getLogger("asyncio").addHandler(logging.NullHandler())
    # One poller of gRPC serves all loops: in a test's loop it may find an answer to one that has closed.
    logging.getLogger("asyncio").addFilter(
        lambda record: "PollerCompletionQueue._handle_events" not in record.getMessage()
    )
    # Else pytest-asyncio makes an event loop for the first test that it runs, which nobody closes.
    asyncio.set_event_loop(None)
    # The same examples each time: a long run alone looks for others. How long one takes is up to the machine.
    timeless = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
    settings.register_profile("long", timeless)
    settings.register_profile("short", timeless, derandomize=True, max_examples=12)
    settings.load_profile("long" if Lengths.are_long else "short")
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        config.add_cleanup(SharedEmulator().stop)
        share_programs()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what a run of this form does without."""
    left = set() if config.getoption("--long") else {*of_long_runs(items)}
    without: set[str] = set()
    marks: tuple[str, ...] = ()
    if config.getoption("--core"):
        marks, without = ("linux",), OF_LINUX
    if config.getoption("--quick"):
        marks, without = ("linux", "emulators", "processes"), SLOW_TO_START
    for item in items:
        uses = without.intersection(getattr(item, "fixturenames", ()))
        if uses or any(map(item.get_closest_marker, marks)):
            left.add(item)
    config.hook.pytest_deselected(items=[item for item in items if item in left])
    items[:] = [item for item in items if item not in left]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import and collect without the garbage collector, which would take a third of the time of that."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Keep the garbage collector from going through what lasts as long as the run, and the rest so often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 10, 100)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a process of xdist simulated."""
    if simulated := getattr(node, "workeroutput", {}).get("simulated"):
        RUN.add(simulated)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show which requests met which faults, if all workloads ran."""
    if RUN.is_whole:
        terminalreporter.section("requests of simulated schedules, by what became of them")
        terminalreporter.write_line(table(RUN.requests))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Turn a passing run with skipped tests, or without some fault, into a failing one."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["simulated"] = RUN.to_wire()
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus == pytest.ExitCode.OK and reporter is not None and RUN.is_whole:
        for what, fate in empty_cells(RUN.requests):
            reporter.write_line(f"FAILED: no schedule had this: {what}, {fate}", red=True)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if exitstatus == pytest.ExitCode.OK and reporter is not None and reporter.stats.get("skipped"):
        reporter.write_line("FAILED: tests were skipped; see their reasons", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def firestore_emulator() -> Iterator[Emulator]:
    """The Firestore emulator of this run."""
    yield from plugin._announced(firestore_of_run)


@pytest.fixture
def project(firestore_emulator: Emulator) -> str:
    """A project that no other test has seen."""
    assert firestore_emulator.address
    return f"demo-{uuid.uuid4().hex[:20]}"


@pytest.fixture
def firestore_proxy(
    firestore_emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> "Iterator[FirestoreProxy]":
    """A proxy that the services of the test talk through."""
    from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy  # noqa: PLC0415  # where gRPC is used

    with FirestoreProxy(firestore_emulator.address) as proxy:
        proxy.clock = firestores_time
        monkeypatch.setenv(FIRESTORE_VARIABLE, proxy.address)
        yield proxy


@pytest.fixture
def meter(
    request: pytest.FixtureRequest, firestore_emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> "Iterator[FirestoreMeter]":
    """A meter that services made after it talk through, before the proxy of a test that has one."""
    from gcp_adk_store.testing.meters import FirestoreMeter  # noqa: PLC0415  # where gRPC is used

    behind: Emulator | FirestoreProxy = firestore_emulator
    if "firestore_proxy" in request.fixturenames:
        behind = request.getfixturevalue("firestore_proxy")
    with FirestoreMeter(behind.address) as meter:
        monkeypatch.setenv(FIRESTORE_VARIABLE, meter.address)
        yield meter


@pytest.fixture
def storage_proxy(storage_emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> "Iterator[StorageProxy]":
    """A proxy that the artifact services of the test talk through."""
    from gcp_adk_store.testing.faults.storage_proxy import StorageProxy  # noqa: PLC0415  # where requests are used

    with StorageProxy(storage_emulator.address) as proxy:
        monkeypatch.setenv(STORAGE_VARIABLE, proxy.address)
        yield proxy


@pytest.fixture
def clock(firestore_proxy: "FirestoreProxy") -> Iterator[Clock]:
    """The time of everything in the test: it stands still until the test lets it pass."""
    from google.adk.platform import time as platform_time  # noqa: PLC0415  # where ADK is used

    clock = Clock()
    firestore_proxy.clock = lambda _: clock.now
    platform_time.set_time_provider(lambda: clock.now)
    yield clock
    platform_time.reset_time_provider()
    firestore_proxy.clock = firestores_time


@pytest.fixture
def passing(monkeypatch: pytest.MonkeyPatch) -> PassingTime:
    """The time of the library and of event loops, which the test lets pass."""
    passing = PassingTime()
    monkeypatch.setattr(machine, "monotonic", passing.of_library)
    monkeypatch.setattr(machine, "uniform", passing.pause)
    monkeypatch.setattr(asyncio.BaseEventLoop, "time", lambda _: passing.of_loops())
    return passing


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> "Callable[[float], Callable[[], float]]":
    """Let the library's clock go on by so many seconds at each look, and return it."""

    def started(step_s: float) -> "Callable[[], float]":
        looks = itertools.count()
        monkeypatch.setattr(machine, "monotonic", lambda: next(looks) * step_s)
        return lambda: machine.monotonic()  # noqa: PLW0108  # the one that is set

    return started


@pytest.fixture
def frequent_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renew leases of a minute each 0.3 seconds: no slow machine lets one pass, and a holder hears soon."""
    monkeypatch.setattr("gcp_adk_store.turns.lease.RENEWALS", 200)


@pytest.fixture
def connect(project: str) -> "Callable[..., FirestoreSessionService]":
    """Make services of one database: as many processes would."""
    from gcp_adk_store import FirestoreSessionService  # noqa: PLC0415  # where ADK is used

    def service(**options: Any) -> FirestoreSessionService:
        return FirestoreSessionService(project=project, **options)

    return service
