"""ADK's commands look for ``services.yaml`` in different folders, as docs/adk-server.md says."""

import asyncio
import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from google.adk.cli.fast_api import get_fast_api_app
from google.adk.cli.service_registry import ServiceRegistry

from gcp_adk_store import (
    ArtifactService,
    FirestoreSessionService,
    GcsArtifactService,
    MemoryService,
    SessionService,
)
from gcp_adk_store.adk_server import memory_service
from gcp_adk_store.testing.emulators import Emulator
from tests.adk_server.conftest import AGENTS
from tests.support.documents import blocks
from tests.support.ready_programs import ready_programs

BESIDE, WITHIN = "agents/services.yaml", "agents/notes/services.yaml"
"""Beside the agents, and within the agent's own folder."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a folder of agents, which has one agent."""
    shutil.copytree(AGENTS / "notes", tmp_path / "agents/notes")
    return tmp_path


def write_file(place: Path, name: str) -> None:
    """Write the file of the document."""
    (yaml,) = blocks("docs/adk-server.md", "yaml")
    (place / name).write_text(yaml)


async def test_adk_run_reads_the_file_within_the_agents_own_folder(
    place: Path, project: str, adk_store_bucket: str, storage_emulator: Emulator
) -> None:
    """Its turn, and the artifact of the turn, are in the store."""
    assert storage_emulator.address
    write_file(place, WITHIN)
    (place / ".adk").mkdir()
    (place / ".adk/config.json").write_text(json.dumps({"telemetry": False}))  # or it asks for it first
    uris = (f"--session_service_uri=firestore://{project}", f"--artifact_service_uri=gs://{adk_store_bucket}")
    run = await asyncio.to_thread(
        subprocess.run,
        [str(ready_programs() / "adk"), "run", *uris, "--session_id", "s1", "agents/notes", "buy milk"],
        cwd=place,
        env=os.environ | {"HOME": str(place)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    sessions, artifacts = FirestoreSessionService(project=project), GcsArtifactService(adk_store_bucket)
    (listed,) = (await sessions.list_sessions(app_name="notes")).sessions
    names = await artifacts.list_artifact_keys(app_name="notes", user_id=listed.user_id, session_id="s1")
    await sessions.close()
    await artifacts.close()

    assert 0 == run.returncode, run.stderr
    assert "[notes]: Noted. 1 in all." in run.stdout
    assert ("s1", ["buy milk"], ["notes.txt"]) == (listed.id, listed.state["notes"], names)


def test_a_server_reads_the_file_beside_the_agents(
    registry: ServiceRegistry, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """``get_fast_api_app``, on which ``adk web`` and ``adk api_server`` stand, loads it from there.

    A mistake in it would only be in the log.
    """
    write_file(place, BESIDE)
    get_fast_api_app(
        agents_dir=str(place / "agents"),
        session_service_uri="firestore://p",
        artifact_service_uri="gs://my-bucket",
        web=False,
    )
    of_adk = [record for record in caplog.records if record.name.startswith("google_adk")]

    assert [] == [record for record in of_adk if record.levelno >= logging.WARNING]
    assert isinstance(registry.create_session_service("firestore://p?prefix=x"), SessionService)
    assert isinstance(registry.create_artifact_service("gs://my-bucket"), ArtifactService)


def test_a_services_yaml_may_give_an_embedder(registry: ServiceRegistry, place: Path) -> None:
    """The page's own files, beside the agents."""
    (yaml,) = blocks("docs/memory.md", "yaml")
    (code,) = [block for block in blocks("docs/memory.md", "python") if "EMBEDDER" in block]
    (place / BESIDE).write_text(yaml)
    (place / "agents/my_services.py").write_text(code)
    get_fast_api_app(agents_dir=str(place / "agents"), memory_service_uri="firestore://p", web=False)

    made = registry.create_memory_service("firestore://p")
    assert isinstance(made, MemoryService)
    assert made is memory_service("firestore://p", embedder=sys.modules["my_services"].EMBEDDER)
    assert made is not memory_service("firestore://p")


@pytest.mark.usefixtures("registry")
def test_a_server_ignores_a_file_within_an_agents_own_folder(place: Path) -> None:
    """As one server has many agents and one store."""
    write_file(place, WITHIN)

    with pytest.raises(ValueError, match="Invalid database URL format or argument 'firestore://p'"):
        get_fast_api_app(agents_dir=str(place / "agents"), session_service_uri="firestore://p", web=False)
