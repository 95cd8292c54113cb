"""Fail a run that skipped a test: what was not run shows nothing."""

from collections.abc import Iterator

import pytest

from gcp_adk_store import FirestoreSessionService, Store
from gcp_adk_store.testing.emulators import Emulator
from gcp_adk_store.testing.firestore_meter import FirestoreMeter


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Turn a passing run with skipped tests into a failing one."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus == pytest.ExitCode.OK and reporter is not None and reporter.stats.get("skipped"):
        reporter.write_line("FAILED: tests were skipped; see their reasons", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def firestore_meter(firestore_emulator: Emulator) -> Iterator[FirestoreMeter]:
    """A metering proxy before the emulator; whoever asks for it is measured alone."""
    with FirestoreMeter(firestore_emulator.address) as meter:
        yield meter


@pytest.fixture
def sessions(adk_store: Store) -> FirestoreSessionService:
    """The session service on a project of its own."""
    return adk_store.sessions
