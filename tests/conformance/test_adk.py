"""Run the shipped suites on ADK's own services, and say where those diverge.

The lists are of the release of ADK that pyproject.toml pins. A divergence that is gone fails here: take
it off its list.

Run the shipped suite as a third party does: in another project, with pytest and nothing else.
"""

import subprocess
from pathlib import Path
from typing import ClassVar

import pytest
from google.adk.artifacts import GcsArtifactService, InMemoryArtifactService
from google.adk.memory import InMemoryMemoryService
from google.adk.sessions import InMemorySessionService
from google.auth.credentials import AnonymousCredentials

from gcp_adk_store.testing.conformance import (
    ArtifactServiceConformance,
    MemoryServiceConformance,
    SessionServiceConformance,
)
from tests.conformance.conftest import Divergences, unknown_names
from tests.support.programs import ran
from tests.support.ready_programs import ready_programs


@pytest.mark.sample(3)
class TestInMemorySessionService(SessionServiceConformance):
    """ADK's sessions in memory, from an asynchronous fixture."""

    DIVERGENCES: ClassVar[Divergences] = {
        # It keeps no revision: whoever appends last is accepted.
        "test_the_second_writer_of_two_is_refused": "DID NOT RAISE StaleSessionError",
        "test_a_stale_append_changes_nothing": "DID NOT RAISE StaleSessionError",
        "test_of_two_racing_writers_exactly_one_wins_each_round": r"assert \(\[1, 1, .* == \(\[2, 2, ",
        "test_a_session_that_was_made_anew_is_not_written_by_holders_of_the_old_one": "DID NOT RAISE any of",
        "test_a_writer_that_delivers_anothers_event_again_stays_stale": "DID NOT RAISE StaleSessionError",
        # It keeps the caller's own objects where it is given them.
        "test_the_state_given_stays_the_callers_own": r"assert \{'mine': \[1\]\} == \{'mine': \[1, 2\]\}",
        "test_an_event_stays_as_it_was_appended": r"assert \['user'\] == \['spoilt'\]",
    }

    @pytest.fixture
    async def session_service(self) -> InMemorySessionService:
        return InMemorySessionService()


@pytest.mark.sample(3)
class TestInMemoryMemoryService(MemoryServiceConformance):
    """ADK's memories in memory."""

    DIVERGENCES: ClassVar[Divergences] = {}

    @pytest.fixture
    def memory_service(self) -> InMemoryMemoryService:
        return InMemoryMemoryService()


@pytest.mark.sample(3)
class TestInMemoryArtifactService(ArtifactServiceConformance):
    """ADK's artifacts in memory."""

    DIVERGENCES: ClassVar[Divergences] = {
        # It joins ids with slashes, so that different ones make one name.
        "test_ids_that_differ_in_where_a_slash_stands_do_not_meet": r"assert \['1'\] == \['0', '1'\]",
        # It takes the session id as it is, while ADK's session services strip it.
        "test_padding_makes_no_other_session": "== None",
        # It checks only that there is a blob.
        "test_a_part_that_holds_nothing_to_save_is_refused[bytes without bytes]": "DID NOT RAISE",
        # It checks only that there is a file.
        "test_a_part_that_holds_nothing_to_save_is_refused[a file without a URI]": "DID NOT RAISE",
    }

    @pytest.fixture
    def artifact_service(self) -> InMemoryArtifactService:
        return InMemoryArtifactService()


@pytest.mark.sample(3)
class TestAdkGcsArtifactService(ArtifactServiceConformance):
    """ADK's artifacts in Cloud Storage, on the emulator that this project's run on."""

    DIVERGENCES: ClassVar[Divergences] = {
        # It joins ids with slashes, so that different ones make one name.
        "test_ids_that_differ_in_where_a_slash_stands_do_not_meet": r"assert \['1'\] == \['0', '1'\]",
        # It takes the session id as it is, while ADK's session services strip it.
        "test_padding_makes_no_other_session": "== None",
        # It takes the type that Cloud Storage made up for the empty object.
        "test_a_part_comes_back_as_it_was_saved[file without type-report]": "-stream'",
        "test_a_part_comes_back_as_it_was_saved[file without type-user:report]": "-stream'",
        "test_versions_of_one_artifact_may_be_of_different_kinds": "-stream'",
        # It keeps metadata as texts: str() of every value.
        "test_custom_metadata_keeps_its_types[numbers]": "'number': '1",
        "test_custom_metadata_keeps_its_types[empty]": "'nothing': 'None'",
        "test_custom_metadata_keeps_its_types[nested]": r"'list': \S?\[1",
    }

    @pytest.fixture
    def artifact_service(self, adk_store_bucket: str) -> GcsArtifactService:
        return GcsArtifactService(adk_store_bucket, project="demo", credentials=AnonymousCredentials())


@pytest.mark.parametrize(
    "suite", [TestInMemorySessionService, TestInMemoryArtifactService, TestAdkGcsArtifactService]
)
def test_every_divergence_is_of_a_test(suite: type) -> None:
    """A name that no test has would say nothing about the service."""
    assert set() == unknown_names(suite)


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
