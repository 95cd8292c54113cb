"""Show what ADK makes of the store's URIs, however they were registered.

ADK's commands look for ``services.yaml`` in different folders, as docs/adk-server.md says.
"""

import asyncio
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fastapi import FastAPI
from google.adk.cli.fast_api import get_fast_api_app
from google.adk.cli.service_registry import ServiceRegistry
from google.adk.cli.utils.service_factory import (
    create_artifact_service_from_options,
    create_memory_service_from_options,
    create_session_service_from_options,
)
from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

import gcp_adk_store
from gcp_adk_store import (
    ArtifactService,
    FirestoreSessionService,
    FunctionEmbedder,
    GcsArtifactService,
    InvalidInputError,
    MemoryService,
    SessionService,
)
from gcp_adk_store.adk_server import artifact_service, lifespan, memory_service, session_service
from gcp_adk_store.cli.command import command
from gcp_adk_store.testing.conformance.running import read
from gcp_adk_store.testing.emulators import Emulator
from tests.adk_server.conftest import AGENTS
from tests.support.documents import blocks
from tests.support.ready_programs import ready_programs
from tests.support.server_end import close_services

WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}


@pytest.fixture(autouse=True)
async def _nothing_stays_open() -> Any:
    """Close what a test made."""
    yield
    await close_services()


async def test_registered_uris_lead_to_services_that_store(
    registry: ServiceRegistry, project: str, adk_store_bucket: str, tmp_path: Path
) -> None:
    """As ADK's commands and ``get_fast_api_app`` make them; registering again changes nothing."""
    gcp_adk_store.register()
    gcp_adk_store.register()
    sessions = create_session_service_from_options(
        base_dir=tmp_path, session_service_uri=f"firestore://{project}/(default)?prefix=uri"
    )
    artifacts = create_artifact_service_from_options(
        base_dir=tmp_path, artifact_service_uri=f"gs://{adk_store_bucket}", strict_uri=True
    )
    await sessions.create_session(**WHO, state={"n": 1})
    await artifacts.save_artifact(**WHO, filename="a.txt", artifact=types.Part(text="saved"))
    same = FirestoreSessionService(project=project, prefix="uri")
    found = await read(same, WHO)
    loaded = await GcsArtifactService(adk_store_bucket).load_artifact(**WHO, filename="a.txt")
    await same.close()

    assert registry.create_session_service("sqlite://") is not None
    assert isinstance(sessions, SessionService)
    assert {"n": 1} == found.state
    assert loaded is not None
    assert "saved" == loaded.text


async def test_registered_uris_lead_to_memories(registry: ServiceRegistry, tmp_path: Path) -> None:
    """In a folder; the same URI is the same service."""
    gcp_adk_store.register()
    uri = f"firestore+local://{tmp_path}/store?prefix=uri&default_ttl_seconds=3600&max_results=1"
    memories = create_memory_service_from_options(base_dir=tmp_path, memory_service_uri=uri)
    said = [Event(author="user", content=types.Content(parts=[types.Part(text="tea")])) for _ in range(2)]
    await memories.add_events_to_memory(app_name="app", user_id="user", events=said)
    found = await memories.search_memory(app_name="app", user_id="user", query="tea")

    assert isinstance(memories, MemoryService)
    assert memories is registry.create_memory_service(uri)
    assert memories is memory_service(uri)
    assert 1 == len(found.memories)
    with pytest.raises(InvalidInputError, match="max_result"):
        registry.create_memory_service("firestore://?max_result=1")


async def test_a_service_of_a_uri_may_have_an_embedder(tmp_path: Path) -> None:
    """It is asked for the vectors of memories and of queries."""
    asked: list[str] = []

    def embed(texts: Sequence[str], kind: str) -> list[list[float]]:
        asked.append(kind)
        return [[1.0, 0.5] for _ in texts]

    embedder = FunctionEmbedder(embed, name="test", dimensions=2)
    memories = memory_service(f"firestore+local://{tmp_path}/store", embedder=embedder)
    tea = MemoryEntry(content=types.Content(parts=[types.Part(text="tea")]))
    await memories.add_memory(app_name="app", user_id="user", memories=[tea])
    found = await memories.search_memory(app_name="app", user_id="user", query="a hot drink")

    assert ["document", "query"] == asked
    assert 1 == len(found.memories)


def test_a_registry_of_ones_own_is_taught_alone(registry: ServiceRegistry) -> None:
    """That of the process is left as it is, ADK's factory for gs:// too."""
    own = ServiceRegistry()
    gcp_adk_store.register(own)

    assert isinstance(own.create_session_service("firestore://p"), SessionService)
    assert isinstance(own.create_artifact_service("gs://my-bucket"), ArtifactService)
    assert registry.create_session_service("firestore://p") is None


def test_options_of_a_server_reach_the_service() -> None:
    """``get_fast_api_app(session_db_kwargs=...)`` hands them on, with the folder of the agents."""
    limits = gcp_adk_store.SessionLimits(max_in_flight=2)
    made = session_service("firestore://p", agents_dir="agents", limits=limits, on_conflict="merge")

    assert made is session_service("firestore://p", limits=limits, on_conflict="merge")
    assert made is not session_service("firestore://p", limits=limits)


async def test_a_uri_has_one_service_until_the_services_are_closed() -> None:
    """And with it one connection, one cache and one bound of calls."""
    sessions, artifacts = session_service("firestore://p"), artifact_service("gs://my-bucket")
    again = session_service("firestore://p"), artifact_service("gs://my-bucket/")
    others = session_service("firestore://p?prefix=b"), artifact_service("gs://other-bucket")
    await close_services()

    assert (sessions, artifacts) == again
    assert sessions is not others[0]
    assert artifacts is not others[1]
    assert sessions is not session_service("firestore://p")


async def test_services_are_closed_when_the_server_ends(project: str) -> None:
    """Where its app was made with ``lifespan=adk_server.lifespan``, whatever ends it.

    Two servers of one process share a service, and the first that ends closes it: it serves again.
    """
    service = session_service(f"firestore://{project}")

    async def serve() -> None:
        async with lifespan(FastAPI()):
            await service.create_session(**WHO)
            raise RuntimeError("crashed")

    with pytest.raises(RuntimeError, match="crashed"):
        await serve()

    await read(service, WHO)
    await service.close()

    assert service is not session_service(f"firestore://{project}")


@pytest.mark.usefixtures("registry")
def test_the_command_hands_over_to_adk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options, help and exit status are ADK's own; a mistake in a URI is a message and no traceback."""
    monkeypatch.chdir(tmp_path)
    for arguments, status, shown in (
        (["--help"], 0, "Agent Development Kit CLI tools."),
        (["api_server", "--help"], 0, "--session_service_uri"),
        (["no_such_command"], 2, "No such command 'no_such_command'"),
        (["api_server", "--no_such_option"], 2, "No such option '--no_such_option'"),
        (["api_server", "--session_service_uri", "firestore://p?prefx=a"], 2, "did you mean 'prefix'?"),
        (["web", "--artifact_service_uri", "gs://my-bucket/folder"], 1, "'/folder' cannot follow it"),
    ):
        run = CliRunner().invoke(command, ["adk", *arguments])

        assert (status, True) == (run.exit_code, shown in run.output), arguments
        assert "Traceback" not in run.output


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
