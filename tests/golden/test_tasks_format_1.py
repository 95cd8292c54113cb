"""Read format 1 of A2A tasks as it was first written, and write it so again."""

import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from a2a.types import ListTasksRequest, Message, Part, Role, Task, TaskPushNotificationConfig, TaskState

import gcp_adk_store.tasks.format as codec
from gcp_adk_store import Store
from tests.golden.raw import Documents, golden_of
from tests.golden.test_format_1 import exact
from tests.support.folder import read_documents
from tests.support.stored import put
from tests.tasks.conftest import of, task

GOLDEN = Path(__file__).parent / "tasks_1" / "tasks.json"
OWNER = of("a/nn")
CONFIG = TaskPushNotificationConfig(id="c/1", url="https://a.example/hook", token="t")  # noqa: S106  # an example


def small() -> Task:
    """Return a task with every field that listings read."""
    said = Message(message_id="m", role=Role.ROLE_USER, parts=[Part(text="grüß dich")])
    return task("t/1", TaskState.TASK_STATE_COMPLETED, at=1_700_000_000, context_id="c", history=[said])


def in_pieces() -> Task:
    """Return a task that takes more than a document of 64 bytes."""
    made = task("large")
    made.artifacts.add(artifact_id="a").parts.add(raw=bytes(range(100)))
    return made


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch, fixed_ids: None) -> None:  # noqa: ARG001  # what it does
    """The same ids and times in every run, and small pieces."""
    monkeypatch.setattr(codec, "CHUNK_BYTES", 64)


async def write(folder: Path) -> Documents:
    """Save what the golden file holds; return the documents."""
    async with Store.local(folder, task_ttl_seconds=3600) as store:
        await store.tasks.save(small(), OWNER)
    async with Store.local(folder) as store:
        await store.tasks.save(in_pieces(), OWNER)
        await store.push_notification_configs.set_info("t/1", CONFIG, OWNER)
    return read_documents(folder)


async def test_tasks_and_configs_of_the_golden_file_are_read(tmp_path: Path) -> None:
    """They were put there round the stores."""
    async with Store.local(tmp_path) as store:
        for path, fields in golden_of(GOLDEN).items():
            await put(store, path, fields)
        found = [await store.tasks.get(name, OWNER) for name in ("t/1", "large")]
        listed = await store.tasks.list(ListTasksRequest(), OWNER)
        configs = await store.push_notification_configs.get_info("t/1", OWNER)
        await store.tasks.delete_owner_tasks(owner="a/nn")
        await store.push_notification_configs.delete_owner_configs(owner="a/nn")

    expected = CONFIG.__deepcopy__()
    expected.task_id = "t/1"
    assert [small(), in_pieces()] == found
    assert [small(), in_pieces()] == list(listed.tasks)
    assert [expected] == configs
    assert {} == read_documents(tmp_path)


async def test_tasks_and_configs_are_written_as_in_the_golden_file(tmp_path: Path) -> None:
    """The same paths, and in each document the same fields."""
    assert exact(unpacked(golden_of(GOLDEN))) == exact(unpacked(await write(tmp_path)))


def unpacked(documents: Documents) -> dict[str, Any]:
    """Return *documents* with what is compressed as it was before: releases of zlib differ."""
    meant: dict[str, Any] = {path: dict(fields) for path, fields in documents.items()}
    pieces = sorted(path for path in meant if "/adk_pieces/" in path)
    for path in [path for path in meant if meant[path].get("pieces")]:
        meant[path]["body"] = b"".join(meant.pop(piece)["body"] for piece in pieces)
        del meant[path]["pieces"]
    for path, fields in meant.items():
        if "/adk_tasks/" in path:
            fields["body"] = zlib.decompress(fields["body"])
    return json.loads(json.dumps(meant, sort_keys=True, default=repr))  # type: ignore[no-any-return]  # a map
