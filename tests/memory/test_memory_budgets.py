"""Count what operations on memories take: RPCs and billed operations. One more than agreed fails."""

import pytest
from google.adk.sessions import Session

from gcp_adk_store import MemoryService, Store
from gcp_adk_store.testing.meters import FirestoreFigures, FirestoreMeter
from tests.memory.conftest import USER, said
from tools.benchmarks.memory_embedder import PartsEmbedder


def cost(figures: FirestoreFigures) -> tuple[dict[str, int], int, int, int]:
    """Return RPCs by name, documents read, written and deleted."""
    return dict(figures.rpcs), figures.reads, figures.writes, figures.deletes


@pytest.mark.emulators
async def test_what_memories_take(meter: FirestoreMeter, project: str) -> None:
    """A turn is 1 commit of 1 write, and a warm search 1 read, however many memories there are."""
    one, few = ({"Commit": 1}, 0, 1, 0), {"BatchGetDocuments": 1}
    async with Store.connect(project=project) as store:
        memory = store.memory
        turns = [said("first"), said("second")]
        await memory.add_session_to_memory(Session(id="s", events=turns[:1], **USER))
        assert ({"BatchGetDocuments": 2, "Commit": 1}, 2, 1, 0) == cost(meter.take())
        await memory.add_session_to_memory(Session(id="s", events=turns, **USER))
        assert one == cost(meter.take())
        await memory.add_session_to_memory(Session(id="s", events=turns, **USER))
        assert (few, 1, 0, 0) == cost(meter.take())
        await memory.search_memory(query="second", **USER)
        assert (few, 1, 0, 0) == cost(meter.take())
        await memory.delete_memory(memory_id=turns[0].id, **USER)
        assert one == cost(meter.take())
        # Of the same length: a shard takes in an earlier one only if that is no larger, by a byte.
        many = [said(f"note {n:04} {'x ' * 1500}", at=1e9, id=f"note-{n:04}") for n in range(140)]
        await memory.add_events_to_memory(events=many, **USER)
        meter.take()
        await memory.search_memory(query="second", **USER)
        assert (few, 1, 0, 0) == cost(meter.take())
        await memory.delete_memory(memory_id=many[0].id, **USER)
        assert ({"Commit": 1}, 0, 2, 1) == cost(meter.take())
        cold = MemoryService(store.sessions.storage)
        await cold.search_memory(query="second", **USER)
        figures = meter.take()
        assert {"BatchGetDocuments": 2} == dict(figures.rpcs)
        assert figures.reads <= 12
        await memory.delete_user_memory(**USER)
        figures = meter.take()
        assert ({"BatchGetDocuments": 1, "Commit": 1}, 0) == (dict(figures.rpcs), figures.writes)
        assert (1, 3) == (figures.reads, figures.deletes)  # the head, and its shards


@pytest.mark.emulators
async def test_what_vectors_take(meter: FirestoreMeter, project: str) -> None:
    """Nothing more than words in the head; and 1 read, cold, for each document of 900 KiB."""
    one, few = ({"Commit": 1}, 0, 1, 0), {"BatchGetDocuments": 1}
    embedder = PartsEmbedder(2560)
    async with Store.connect(project=project, embedder=embedder) as store:
        memory = store.memory
        await memory.add_events_to_memory(events=[said("known")], **USER)
        meter.take()
        await memory.add_events_to_memory(events=[said("first")], **USER)
        assert one == cost(meter.take())
        await memory.search_memory(query="first", **USER)
        assert (few, 1, 0, 0) == cost(meter.take())
        many = [said(f"note {number} {'x ' * 700}") for number in range(60)]
        await memory.add_events_to_memory(events=many, **USER)
        assert ({"Commit": 1}, 0, 3, 0) == cost(meter.take())  # the head, a shard, a document of vectors
        await memory.search_memory(query="second", **USER)
        assert (few, 1, 0, 0) == cost(meter.take())
        await memory.delete_memory(memory_id=many[0].id, **USER)
        assert ({"Commit": 1}, 0, 3, 2) == cost(meter.take())
        cold = MemoryService(store.sessions.storage, embedder=embedder)
        await cold.search_memory(query="second", **USER)
        assert ({"BatchGetDocuments": 2}, 3, 0, 0) == cost(meter.take())
        words = MemoryService(store.sessions.storage)
        await words.search_memory(query="second", **USER)
        assert ({"BatchGetDocuments": 2}, 2, 0, 0) == cost(meter.take())
        await words.delete_memory(memory_id=many[1].id, **USER)
        assert ({"BatchGetDocuments": 1, "Commit": 1}, 1, 3, 2) == cost(meter.take())
        assert 0 == (await cold.reindex_memories(**USER)).missing
        assert ({"BatchGetDocuments": 2}, 3, 0, 0) == cost(meter.take())
        await memory.delete_user_memory(**USER)
        figures = meter.take()
        assert (0, 3) == (figures.writes, figures.deletes)  # the head, a shard, a document of vectors
