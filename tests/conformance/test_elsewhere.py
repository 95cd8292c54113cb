"""Run the shipped suite as a third party does: in another project, with pytest and nothing else."""

import subprocess
from pathlib import Path

import pytest

from tests.support.programs import ran
from tests.support.ready_programs import ready_programs

SUITE = """
import contextlib
import pytest
from google.adk.sessions import InMemorySessionService
from gcp_adk_store.testing.conformance import SessionServiceConformance

@contextlib.asynccontextmanager
async def opened():
    yield InMemorySessionService()

class TestTheirs(SessionServiceConformance):
    @pytest.fixture
    def session_service(self):
        return opened()
"""

PYTEST = ("-m", "pytest", "-q", "-p", "no:asyncio", "-p", "no:anyio")


def run(folder: Path, chosen: str) -> subprocess.CompletedProcess[str]:
    """Run the chosen tests of the suite in *folder*, without plugins for asynchronous tests."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_theirs.py").write_text(SUITE)
    return ran([ready_programs() / "python", *PYTEST, "-k", chosen, "."], cwd=folder, timeout=60)


def test_the_suite_needs_no_plugin(tmp_path: Path) -> None:
    """A service that must be opened in its loop is given as a context manager."""
    done = run(tmp_path, "a_filter_chooses or unknown_session_is_none")

    assert pytest.ExitCode.OK == done.returncode, done.stdout
    assert "skipped" not in done.stdout


@pytest.mark.long
def test_a_failure_shows_what_was_compared(tmp_path: Path) -> None:
    """Assertions of the suite are explained like those of a test module."""
    done = run(tmp_path, "test_an_event_stays_as_it_was_appended")

    assert pytest.ExitCode.TESTS_FAILED == done.returncode, done.stdout
    assert "assert ['user'] == ['spoilt']" in done.stdout
