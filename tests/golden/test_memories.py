"""Read memories as they were first written, and write them so again."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.platform import uuid as platform_uuid
from google.genai import types

from gcp_adk_store import MemoryService, Store
from tests.golden.raw import Documents, read_golden
from tests.support.small_pieces import set_numbers
from tests.support.stored import collection, put
from tools.benchmarks.memory_embedder import PartsEmbedder

USER: dict[str, Any] = {"app_name": "shop", "user_id": "u/1"}
COLLECTIONS = ("adk_memories", "adk_shards", "adk_vectors")


@pytest.fixture
def fixed() -> Iterator[None]:
    """The same ids in every run."""
    numbers = itertools.count()
    platform_uuid.set_id_provider(lambda: f"{next(numbers):08d}-0000-4000-8000-000000000000")
    yield
    platform_uuid.reset_id_provider()


def said(number: int, text: str) -> Event:
    """Return an event that is the same in every run."""
    return Event(
        id=f"e{number}",
        author="user" if number % 2 else "agent",
        timestamp=1e9 + number,
        content=types.Content(role="user", parts=[types.Part(text=text)]),
    )


async def remember(store: Store) -> None:
    """Make memories in a shard and in the tail, and remove some of both."""
    memory = store.memory
    notes = [said(number, f"note {number} {'x' * 700}") for number in range(100)]
    await memory.add_events_to_memory(events=notes, session_id="s", custom_metadata={"kind": "note"}, **USER)
    await memory.delete_memory(memory_id="e5", **USER)
    await memory.add_events_to_memory(
        events=[said(200, "Ein Bild aus Zürich")], custom_metadata={"ttl_seconds": 3e9}, **USER
    )
    await memory.add_events_to_memory(events=[said(201, "half \ud800 of 東京"), said(202, "gone")], **USER)
    await memory.delete_memory(memory_id="e202", **USER)
    await memory.add_events_to_memory(events=[said(203, "last")], session_id="t", **USER)


async def stored(store: Store) -> Documents:
    """Return the fields of all documents of memories."""
    return {path: fields for name in COLLECTIONS for path, fields in (await collection(store, name)).items()}


async def test_golden_memories_are_read(adk_store_local: Store) -> None:
    """All of them, with what searches and filters need; removed ones stay away."""
    for path, fields in read_golden("memories").items():
        await put(adk_store_local, path, fields)
    memory = adk_store_local.memory
    removed = [said(5, "note 5"), said(202, "gone")]
    await memory.add_events_to_memory(events=removed, **USER)
    page = await memory.list_memories(page_size=1000, **USER)
    found = {one.id: one for one in page.memories}

    assert {f"e{n}" for n in (*range(100), 200, 201, 203)} - {"e5"} == set(found)
    assert found["e201"].content == said(201, "half \ud800 of 東京").content
    assert {"kind": "note", "adk_store_session": "s"} == found["e99"].custom_metadata
    (best,) = await memory.search_memories(query="zurich", **USER)
    assert ("e200", "agent") == (best.memory.id, best.memory.author)
    assert ["e203"] == [one.id for one in (await memory.list_memories(session_id="t", **USER)).memories]


async def test_memories_are_written_as_the_golden_ones(adk_store_local: Store, fixed: None) -> None:
    """In the same documents and fields; ADK and zlib decide the rest."""
    assert fixed is None
    await remember(adk_store_local)
    golden, written = read_golden("memories"), await stored(adk_store_local)

    assert set(golden) == set(written)
    for path, fields in golden.items():
        assert {name: type(value) for name, value in fields.items()} == {
            name: type(value) for name, value in written[path].items()
        }
        for name in ("format", "epoch", "app", "user", "rev", "gone", "next", "until", "count", "ids"):
            assert fields.get(name) == written[path].get(name)


async def remember_with_vectors(store: Store) -> None:
    """Make memories whose vectors lie in a document and in the head, and remove one of both."""
    memory = MemoryService(store.sessions.storage, embedder=PartsEmbedder(8, "parts"))
    await memory.add_events_to_memory(events=[said(number, f"note {number}") for number in range(40)], **USER)
    await memory.add_events_to_memory(
        events=[said(number, f"Zürich {number}") for number in (50, 51)], **USER
    )
    for removed in ("e7", "e51"):
        await memory.delete_memory(memory_id=removed, **USER)


async def test_golden_vectors_are_read(adk_store_local: Store) -> None:
    """All of them: each memory has its own, and the nearest one is found without a common word."""
    for path, fields in read_golden("memory_vectors").items():
        await put(adk_store_local, path, fields)
    memory = MemoryService(adk_store_local.sessions.storage, embedder=PartsEmbedder(8, "parts"))
    counts = await memory.reindex_memories(dry_run=True, **USER)

    assert (40, 0) == (counts.memories, counts.missing)
    found = await memory.search_memories(query="zürichxx", **USER, limit=1)
    assert ["e50"] == [each.memory.id for each in found]


async def test_vectors_are_written_as_the_golden_ones(
    adk_store_local: Store, fixed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same documents and fields."""
    assert fixed is None
    set_numbers(monkeypatch, fresh_vector_bytes=256)
    await remember_with_vectors(adk_store_local)
    golden, written = read_golden("memory_vectors"), await stored(adk_store_local)

    assert any("adk_vectors" in path for path in golden)
    assert set(golden) == set(written)
    for path, fields in golden.items():
        assert set(fields) == set(written[path])
        for name in ("embedder", "dimensions", "fresh", "vectors", "next"):
            assert fields.get(name) == written[path].get(name)
        if "adk_vectors" in path:
            assert fields == written[path]
