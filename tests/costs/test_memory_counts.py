"""Hold the model's counts of memories to what the emulator's meter bills."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.integrations.firestore.firestore_memory_service import FirestoreMemoryService as AdkMemory
from google.cloud.firestore import AsyncClient
from google.genai import types

from gcp_adk_store import MemoryService, Store
from gcp_adk_store.costs import counts
from gcp_adk_store.costs.counts import (
    BuiltinServices,
    Operations,
    StoreServices,
    Workload,
    builtin_recall,
    store_recall,
)
from gcp_adk_store.costs.month import operations_of_a_month
from gcp_adk_store.memory import vectors
from gcp_adk_store.model import memories as model
from gcp_adk_store.model.keys import UserKey
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, Emulator
from gcp_adk_store.testing.meters import FirestoreMeter
from tests.support.lengths import at_length
from tools.benchmarks.memory_embedder import PartsEmbedder

USER: dict[str, Any] = {"app_name": "app", "user_id": "user"}
USED: dict[str, Any] = {"turns_per_day": 10, "events_per_turn": 2, "history": 0}


@pytest.fixture
def meter(firestore_emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[FirestoreMeter]:
    """A meter that the services of the test talk through."""
    with FirestoreMeter(firestore_emulator.address) as meter:
        monkeypatch.setenv(FIRESTORE_VARIABLE, meter.address)
        yield meter


def billed(meter: FirestoreMeter) -> Operations:
    """Return what was billed since the last call."""
    figures = meter.take()
    return Operations(reads=figures.reads, writes=figures.writes, deletes=figures.deletes)


def said(number: int) -> Event:
    """Return an event of the same size for each number."""
    return Event(
        id=f"{number:06}",
        author="user",
        timestamp=1e9,
        content=types.Content(parts=[types.Part(text=f"note{number:06} {'x' * 1400}")]),
    )


@pytest.mark.sample(1)
@pytest.mark.emulators
@pytest.mark.parametrize("dimensions", [0, 1024], ids=["words", "vectors"])
async def test_memories_of_the_store_cost_what_the_model_says(
    meter: FirestoreMeter, project: str, dimensions: int
) -> None:
    """Additions with all their seals and merges, and searches of processes that know the user or not."""
    embedder = PartsEmbedder(dimensions) if dimensions else None
    count, added = at_length(150, 300), 2
    async with Store.connect(project=project, embedder=embedder) as store:
        memory = store.memory
        await memory.search_memory(query="note000001", **USER)
        meter.take()
        for first in range(0, count, added):
            await memory.add_events_to_memory(events=[said(first), said(first + 1)], **USER)
        made = billed(meter)
        snapshot = await memory._keeper.reader.read(UserKey(app="app", user="user"))
        assert snapshot is not None
        size = len(snapshot.texts[0].encode())
        held: dict[str, Any] = {"memories": count, "memory_bytes": size, "vector_dimensions": dimensions}
        recall = Workload(**USED, **held, memories_per_turn=added)
        modelled = store_recall(recall, cold=False).times(count // added)
        assert (round(modelled.writes), round(modelled.deletes)) == (made.writes, made.deletes)
        meter.take()

        searched = replace(recall, searches_per_turn=1)
        await memory.search_memory(query="note000001", **USER)
        assert store_recall(searched, cold=False).reads == billed(meter).reads
        cold = MemoryService(store.sessions.storage, embedder=embedder)
        await cold.search_memory(query="note000001", **USER)
        assert store_recall(searched, cold=True).reads == billed(meter).reads
        cold = MemoryService(store.sessions.storage, embedder=embedder)
        await cold.add_events_to_memory(events=[said(count), said(count + 1)], **USER)
        assert store_recall(recall, cold=True).reads == billed(meter).reads


@pytest.mark.emulators
async def test_memories_of_adks_service_cost_what_the_model_says(meter: FirestoreMeter, project: str) -> None:
    """A query for each word reads every memory that has it, or is billed as one read."""
    client = AsyncClient(project=project)
    service = AdkMemory(client=client)
    words = [types.Part(text=f"apple {'pear' if number < 2 else 'plum'}") for number in range(6)]
    events = [Event(author="user", content=types.Content(parts=[part])) for part in words]
    await service.add_events_to_memory(events=events, **USER)
    assert builtin_recall(Workload(**USED, memories_per_turn=6)) == billed(meter)
    await service.search_memory(query="apple pear plum quince", **USER)

    recall = Workload(
        **USED, memories=6, searches_per_turn=1, query_words=4, word_matches=(6 + 2 + 4 + 1) / 4
    )
    assert builtin_recall(recall) == billed(meter)
    client.close()


def test_the_model_has_the_sizes_of_the_store() -> None:
    """Of what the head holds, and of full documents."""
    assert model.SEAL_BYTES == vectors.FRESH_BYTES == counts.SEAL_BYTES
    assert model.FULL_BYTES == counts.FULL_SHARD_BYTES
    assert vectors.PART_BYTES == counts.FULL_PART_BYTES
    assert model.DIGEST_BYTES == counts.KEY_BYTES


def test_a_month_has_the_operations_of_memories() -> None:
    """Of each turn, by the share of cold processes; nothing without memories."""
    plain = Workload(**USED)
    recalling = Workload(
        **USED, memories=1000, memories_per_turn=1, searches_per_turn=2, memory_bytes=1000, cold_share=0.5
    )
    ours, builtin = StoreServices(), BuiltinServices()

    def more(services: StoreServices | BuiltinServices) -> Operations:
        with_memories = operations_of_a_month(services, recalling)
        return with_memories + operations_of_a_month(services, plain).times(-1)

    half = Workload(**USED, cold_share=0.5)
    base = operations_of_a_month(ours, half).reads
    shards = store_recall(recalling, cold=True).reads - 2
    assert operations_of_a_month(ours, recalling).reads - base == pytest.approx(300 * (2 + 0.5 * shards))
    assert more(builtin).reads == pytest.approx(300 * 2 * 5 * 10)
    assert more(builtin).writes == pytest.approx(300)
    assert Operations() == store_recall(plain, cold=True) == builtin_recall(plain)
