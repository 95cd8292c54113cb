"""ADK's servers find the store of tasks by its URI, and the document's code runs."""

import logging
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from a2a.types import AgentCapabilities, AgentCard, GetTaskRequest
from google.adk.cli.service_registry import ServiceRegistry, load_services_module

import gcp_adk_store
from gcp_adk_store import InvalidInputError, Store
from gcp_adk_store.adk_server import task_store
from gcp_adk_store.tasks import FirestoreTaskStore, TaskStore
from tests.adk_server.conftest import AGENTS, registry  # noqa: F401  # a fixture
from tests.support.documents import blocks
from tests.support.server_end import close_services
from tests.tasks.adk_clients import client_of_adk, said
from tests.tasks.agent_server import Notes
from tests.tasks.conftest import ANN, task


@pytest.fixture(autouse=True)
async def _nothing_stays_open() -> AsyncIterator[None]:
    """Close what a test made."""
    yield
    await close_services()


async def test_registered_uris_lead_to_task_stores(
    registry: ServiceRegistry,  # noqa: F811
    project: str,
    tmp_path: Path,
) -> None:
    """In the cloud and in a folder, the same for the same URI."""
    gcp_adk_store.register()
    for uri in (f"firestore://{project}/(default)?prefix=uri", f"firestore+local://{tmp_path}?prefix=uri"):
        made = registry._create_task_store_service(uri)
        await made.save(task(), ANN)
        other = (
            Store.local(tmp_path, prefix="uri")
            if "+local" in uri
            else Store.connect(project=project, prefix="uri")
        )
        found = await other.tasks.get("t1", ANN)
        await other.close()

        assert isinstance(made, TaskStore)
        assert made is registry._create_task_store_service(uri)
        assert task() == found


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("firestore://p?ttl_second=5", "did you mean 'ttl_seconds'"),
        ("firestore://p?bucket=b", "unknown option 'bucket'"),
        ("firestore://p?ttl_seconds=0", "ttl_seconds is 0"),
        ("firestore+local://relative", "must go on with an absolute path"),
    ],
)
def test_a_mistake_in_a_uri_is_reported(uri: str, message: str) -> None:
    """Before the server runs."""
    with pytest.raises(InvalidInputError, match=message):
        task_store(uri)


def test_the_services_yaml_of_tasks_is_loaded(
    registry: ServiceRegistry,  # noqa: F811
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """From the folder of the agents, by ADK; a mistake in it would only be in the log."""
    (tmp_path / "services.yaml").write_text(blocks("docs/tasks.md", "yaml")[0])
    with caplog.at_level(logging.WARNING):
        load_services_module(str(tmp_path))

    assert [] == caplog.messages
    assert isinstance(registry._create_task_store_service("firestore://p?prefix=x"), FirestoreTaskStore)


async def test_the_code_of_the_document_makes_a_request_handler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a store in a folder."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(blocks("docs/tasks.md", "python")[0], names)  # noqa: S102  # the document's own code
    card = AgentCard(name="notes", capabilities=AgentCapabilities())
    handler = names["request_handler"](Notes(), card)
    await handler.task_store.save(task(), ANN)
    await names["store"].close()

    assert (tmp_path / "support-store" / "store.sqlite3").stat().st_size


@pytest.mark.long
def test_without_the_extra_the_error_names_it() -> None:
    """Whatever else works without it."""
    code = (
        "import sys; sys.modules['a2a'] = None\n"
        "from gcp_adk_store import InvalidInputError, Store\n"
        "from gcp_adk_store.adk_server import task_store\n"
        "for what in (lambda: Store.local(':memory:').tasks,\n"
        "             lambda: Store.local(':memory:').push_notification_configs,\n"
        "             lambda: task_store('firestore://p')):\n"
        "    try: what()\n"
        "    except InvalidInputError as exc: print(exc)\n"
    )
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False
    )

    assert 3 == run.stdout.count("pip install '.[a2a]'"), run.stderr


async def test_adks_server_keeps_the_tasks_of_its_agents_in_the_store(
    registry: ServiceRegistry,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A new server on the same URI returns the task of the one before."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(AGENTS / "notes", tmp_path / "agents/notes")
    gcp_adk_store.register()
    assert registry is not None
    place = f"{tmp_path}/store"
    uris = {
        "session_service_uri": f"firestore+local://{place}",
        "artifact_service_uri": f"gs+local://{place}",
        "task_store_uri": f"firestore+local://{place}",
    }
    client = client_of_adk("notes", **uris)
    (answer,) = [answer async for answer in client.send_message(said("buy milk"))]
    await close_services()
    found = await client_of_adk("notes", **uris).get_task(GetTaskRequest(id=answer.task.id))

    assert found.id
    assert "Noted. 1 in all." in str(found)
