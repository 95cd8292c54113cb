"""Documents of A2A tasks are written as docs/data-model.md says, and damaged ones are refused by name."""

import hashlib
import zlib
from datetime import UTC, datetime
from typing import Any

import pytest

from gcp_adk_store import StoredDataError
from gcp_adk_store.tasks.format import TaskLayout, read_config, unpack_task
from tests.support.stored import as_read

BODY = b"a task"
PATH = "adk_owners/a%2Fnn/adk_tasks/t1"
FIELDS: dict[str, Any] = {
    "format": 1,
    "owner": "a/nn",
    "id": "t1",
    "context_id": "c",
    "state": 2,
    "save": "f" * 32,
    "sha256": hashlib.sha256(BODY).hexdigest(),
    "pieces": 0,
    "body": zlib.compress(BODY),
    "ttl_s": 60,
    "expire_at": datetime.fromtimestamp(1060, UTC),
    "seconds": 7,
    "nanos": 8,
}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": 2}, "has format 2, this release reads 1; upgrade"),
        ({"format": "secret"}, "has format str"),
        ({"id": "other"}, "cannot be right: id"),
        ({"state": "secret"}, "of a wrong kind: state is str"),
        ({"pieces": 1_000_000}, "cannot be right: pieces"),
        ({"sha256": "secret"}, "cannot be right: sha256"),
        ({"nanos": -1}, "cannot be right: nanos"),
    ],
)
def test_a_damaged_task_is_refused_by_the_name_of_its_field(change: dict[str, Any], says: str) -> None:
    """And by its path, never by content."""
    with pytest.raises(StoredDataError, match=says) as caught:
        TaskLayout("adk").read_task(as_read(PATH, FIELDS | change, at=1000))

    assert PATH in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("body", [b"", b"secret", zlib.compress(b"secret"), zlib.compress(BODY)[:-1]])
def test_a_damaged_body_is_refused(body: bytes) -> None:
    """Whether it unpacks or not."""
    stored = TaskLayout("adk").read_task(as_read(PATH, FIELDS, at=1000))
    with pytest.raises(StoredDataError, match=r"cannot be right: (body|sha256)"):
        unpack_task(stored, body)


def test_a_config_of_another_format_is_refused() -> None:
    """As a task is."""
    with pytest.raises(StoredDataError, match="has format 9"):
        read_config(as_read("adk_pushes/t/adk_owners/o/adk_configs/c", {"format": 9, "body": b""}))
