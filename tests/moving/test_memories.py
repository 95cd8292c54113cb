"""A copy takes along the memories of users as they are stored."""

import time
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.memory import InMemoryMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import InMemorySessionService
from google.genai import types

from gcp_adk_store import Store
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.memory.searches import iter_memories
from gcp_adk_store.model.keys import UserKey
from gcp_adk_store.model.memories import Memory
from gcp_adk_store.moving import copy
from gcp_adk_store.moving.memories import adk_firestore_memories
from tests.moving.hardest import APP, fill, many
from tests.support.stored import put

USER: dict[str, Any] = {"app_name": APP, "user_id": "u"}
KEY = UserKey(app=APP, user="u")


def said(text: str) -> types.Content:
    """Return *text* as content."""
    return types.Content(role="user", parts=[types.Part(text=text)])


async def with_memories(store: Store) -> InMemorySessionService:
    """Return a session of a user; *store* gets memories of its events, one of which ends, and of an app."""
    now = time.time()
    events = [Event(id=id_, author="user", content=said(f"tea {id_}"), timestamp=now) for id_ in ("e1", "e2")]
    memory = store.memory
    await memory.add_events_to_memory(events=events[:1], session_id="s", **USER)
    await memory.add_events_to_memory(
        events=events[1:], session_id="s", custom_metadata={"ttl_seconds": 3600, "kind": "x"}, **USER
    )
    picture = types.Part.from_bytes(data=b"p" * 100_000, mime_type="image/png")
    entry = MemoryEntry(
        id="m",
        content=types.Content(role="user", parts=[types.Part(text="tea"), picture]),
        timestamp="yesterday",
    )
    await memory.add_memory(memories=[entry], **USER)
    sessions = InMemorySessionService()
    await fill(sessions, [("u", "s", many(1))])
    return sessions


async def stored(store: Store) -> dict[str, tuple[Memory, types.Content]]:
    """Return the memories of the user by their ids."""
    found = [one async for one in iter_memories(store.sessions.storage, KEY)]
    return {memory.id: (memory, content) for memory, content in found}


async def test_memories_keep_sessions_times_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """In any time zone; so a session's memories are found, and forgotten, in the target, too."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        async with Store.local(":memory:") as one, Store.local(":memory:") as other:
            sessions = await with_memories(one)
            report = await copy(sessions, other.sessions, app_name=APP, memories=(one.memory, other.memory))
            await copy(sessions, other.sessions, app_name=APP, memories=(one.memory, other.memory))

            assert (True, 3) == (report.is_complete, report.memories)
            there = await stored(other)
            assert await stored(one) == there
            assert ("s", None, True) == (
                there["e2"][0].session,
                there["e1"][0].until,
                bool(there["e2"][0].until),
            )
            await other.memory.delete_session_memory(session_id="s", **USER)
            assert ["m"] == [each.id for each in (await other.memory.list_memories(**USER)).memories]
    finally:
        monkeypatch.undo()
        time.tzset()


async def test_a_service_of_adk_gets_memories_whose_times_are_no_dates() -> None:
    """Such as that of an entry which an app wrote itself."""
    async with Store.local(":memory:") as store:
        sessions = await with_memories(store)
        target = InMemoryMemoryService()
        report = await copy(sessions, InMemorySessionService(), app_name=APP, memories=(store.memory, target))
        found = await target.search_memory(query="tea", **USER)

        assert (True, 3) == (report.is_complete, report.memories)
        assert 3 == len(found.memories)


async def test_memories_without_an_end_get_that_of_the_target() -> None:
    """As new ones do; the others keep theirs."""
    async with Store.local(":memory:") as one, Store.local(":memory:", memory_ttl_seconds=7200) as other:
        sessions = await with_memories(one)
        await copy(sessions, other.sessions, app_name=APP, memories=(one.memory, other.memory))
        ends = {id_: memory.until for id_, (memory, _) in (await stored(other)).items()}

        assert ends["e1"] == ends["m"]
        assert (await stored(one))["e2"][0].until == ends["e2"] != ends["m"]


@pytest.mark.parametrize(
    "damage", [{"timestamp": "yesterday"}, {"content": {"parts": "secret"}}, {"author": 7}], ids=str
)
async def test_a_damaged_memory_of_adks_service_is_named_without_its_content(
    adk_store_local: Store, damage: dict[str, Any]
) -> None:
    """The document alone is at fault."""
    stored = {"appName": "app", "userId": "ada", "content": {"parts": [{"text": "secret"}]}, "timestamp": 5.0}
    await put(adk_store_local, "memories/one", {**stored, **damage})
    documents = adk_store_local.sessions.storage.documents
    with pytest.raises(StoredDataError, match="memories/one") as raised:
        _ = [one async for one in adk_firestore_memories(documents, UserKey(app="app", user="ada"))]

    assert "secret" not in f"{raised.value}"
