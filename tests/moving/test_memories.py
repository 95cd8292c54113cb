"""Memories of ADK's Firestore service are copied, or named if nobody can read them."""

from typing import Any

import pytest

from gcp_adk_store import Store
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.model.keys import UserKey
from gcp_adk_store.moving.memories import adk_firestore_memories
from tests.support.stored import put

ADA = UserKey(app="app", user="ada")
STORED: dict[str, Any] = {
    "appName": "app",
    "userId": "ada",
    "sessionId": "s",
    "author": "user",
    "content": {"role": "user", "parts": [{"text": "secret"}]},
    "timestamp": 5.0,
}


async def test_a_memory_comes_with_its_time_and_session(adk_store_local: Store) -> None:
    """Its id is the one of its document, so that it is not added twice; others' memories stay."""
    await put(adk_store_local, "memories/one", STORED)
    await put(adk_store_local, "memories/two", {**STORED, "userId": "bob"})
    documents = adk_store_local.sessions.storage.documents
    (found,) = [entry async for entry in adk_firestore_memories(documents, ADA)]

    assert ("one", "1970-01-01T00:00:05+00:00", {"sessionId": "s"}) == (
        found.id, found.timestamp, found.custom_metadata,
    )  # fmt: skip


@pytest.mark.parametrize(
    "damage",
    [
        {"timestamp": 1e300},
        {"timestamp": -1e18},
        {"timestamp": "yesterday"},
        {"content": {"parts": "secret"}},
        {"author": 7},
    ],
    ids=str,
)
async def test_a_damaged_memory_is_named_without_its_content(
    adk_store_local: Store, damage: dict[str, Any]
) -> None:
    """The document alone is at fault: the error says nothing of a service that does not answer."""
    await put(adk_store_local, "memories/one", {**STORED, **damage})
    documents = adk_store_local.sessions.storage.documents
    with pytest.raises(StoredDataError, match="memories/one") as raised:
        _ = [entry async for entry in adk_firestore_memories(documents, ADA)]

    assert "secret" not in f"{raised.value}"
