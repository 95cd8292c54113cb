"""A2A messages and the tasks that the store keeps of them have no metadata that only ADK may write."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from a2a.types import GetTaskRequest
from google.adk.cli.service_registry import ServiceRegistry

import gcp_adk_store
from gcp_adk_store import Store
from tests.adk_server.conftest import registry  # noqa: F401  # a fixture
from tests.support.server_end import close_services
from tests.support.traces import in_folder, traces
from tests.tasks.adk_clients import client_of_adk, said

AGENT = """
from google.adk.apps import App
from google.adk.plugins import ToolCallIntegrityPlugin

from tests.integrity.conftest import bank_agent

app = App(name="bank", root_agent=bank_agent([]), plugins=[ToolCallIntegrityPlugin(secret_key=b"key")])
root_agent = app.root_agent
"""


@pytest.fixture(autouse=True)
async def _nothing_stays_open() -> AsyncIterator[None]:
    """Close what a test made."""
    yield
    await close_services()


async def test_a_task_has_no_metadata_of_adks(
    registry: ServiceRegistry,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of an agent with the plugin: the session has the stamps, the task and the answers have none."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agents/bank").mkdir(parents=True)
    (tmp_path / "agents/bank/__init__.py").write_text("")
    (tmp_path / "agents/bank/agent.py").write_text(AGENT)
    gcp_adk_store.register()
    assert registry is not None
    client = client_of_adk(
        "bank",
        session_service_uri=f"firestore+local://{tmp_path}/store",
        task_store_uri=f"firestore+local://{tmp_path}/tasks",
    )
    (answer,) = [answer async for answer in client.send_message(said("rent"))]
    found = await client.get_task(GetTaskRequest(id=answer.task.id))
    await close_services()
    async with Store.local(tmp_path / "store") as store:
        listed = await store.sessions.list_sessions(app_name="bank", user_id=None)
        (one,) = listed.sessions
        session = await store.sessions.get_session(app_name="bank", user_id=one.user_id, session_id=one.id)

    assert session is not None
    assert "__adk_internal_fc_hmac" in session.model_dump_json()
    assert "pay" in str(found)
    for shown in (answer, found):
        assert "__adk_internal_" not in str(shown)
    assert [] == traces(in_folder(tmp_path / "tasks"), "__adk_internal_")
