"""A copy takes along the memories of users as they are stored."""

import time
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.memory import InMemoryMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import InMemorySessionService
from google.genai import types

from gcp_adk_store import Store
from gcp_adk_store.moving import copy
from tests.moving.hardest import APP, fill, many
from tests.support.clock import in_days
from tests.support.server_end import close_services

USER: dict[str, Any] = {"app_name": APP, "user_id": "u"}
HOUR = 1 / 24


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


async def listed(store: Store, **of: Any) -> list[MemoryEntry]:
    """Return the memories of the user, or of a session, the newest first."""
    return (await store.memory.list_memories(**USER, **of)).memories


async def ids_in_hours(store: Store, hours: float) -> set[str | None]:
    """Return the ids of the memories that have not ended after so many hours."""
    with in_days(hours * HOUR):
        return {each.id for each in await listed(store)}


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
            assert await listed(one) == await listed(other)
            assert await listed(one, session_id="s") == await listed(other, session_id="s")
            assert {"e1", "e2"} == {each.id for each in await listed(other, session_id="s")}
            assert {"e1", "m"} == await ids_in_hours(other, 1.5)
            await other.memory.delete_session_memory(session_id="s", **USER)
            assert ["m"] == [each.id for each in await listed(other)]
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
        left = [await ids_in_hours(other, hours) for hours in (0.9, 1.5, 2.5)]

        assert [{"e1", "e2", "m"}, {"e1", "m"}, set()] == left


async def test_what_a_copy_opens_by_uris_is_closed(tmp_path: Path) -> None:
    """SQLite removes the log of a file when its last connection closes."""
    async with Store.local(tmp_path / "one") as one:
        await with_memories(one)
        await fill(one.sessions, [("u", "s", many(1))])
        part = types.Part(text="a")
        await one.artifacts.save_artifact(filename="a", artifact=part, session_id="s", **USER)
    here, there = f"local://{tmp_path}/one", f"local://{tmp_path}/two"
    pair = f"firestore+{here}", f"firestore+{there}"
    report = await copy(*pair, app_name=APP, artifacts=(f"gs+{here}", f"gs+{there}"), memories=pair)
    left = [path.parent.name for path in tmp_path.glob("*/*-wal")]  # noqa: ASYNC240
    await close_services()

    assert (1, 3, 1) == (report.copied, report.memories, report.artifact_versions)
    assert [] == left
