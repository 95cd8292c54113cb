"""A check finds what contradicts the invariants of memories, and repairs what has one right answer."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from gcp_adk_store import Fault, FunctionEmbedder, MemoryService, Store
from tests.fsck.corpus import Stored
from tests.support.clock import in_days
from tests.support.stored import change, fields_of, remove

WHO: dict[str, Any] = {"app_name": "shop", "user_id": "ada"}
DIMENSIONS = 4096
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
HEAD = "adk_apps/shop/adk_users/ada/adk_memories/head"


async def embed(texts: Sequence[str], _: str) -> list[list[float]]:
    """Return a direction for each text, so large that a few fill a document."""
    return [[1.0, float(len(text) % 7)] * (DIMENSIONS // 2) for text in texts]


def entry(text: str, **more: Any) -> MemoryEntry:
    """Return a memory."""
    return MemoryEntry(content=types.Content(parts=[types.Part(text=text)]), **more)


async def fill(memory: MemoryService, count: int = 13) -> None:
    """Remember what makes shards, documents of vectors, a tail, payloads, removed ids and times to live."""
    for number in range(count):
        text = f"{number} " + f"{number} words " * 1500
        await memory.add_memory(**WHO, memories=[entry(text, id=f"long-{number}")])
    await memory.add_memory(**WHO, memories=[entry("large " * 9000, id="large")])
    ending = {"ttl_seconds": 60 * 86_400}
    await memory.add_memory(**WHO, memories=[entry("ends " * 9000, id="ends")], custom_metadata=ending)
    await memory.add_memory(
        **WHO, memories=[entry(f"short {number}", id=f"s{number}") for number in range(3)]
    )
    await memory.delete_memory(**WHO, memory_id="s1")
    await memory.delete_memory(**WHO, memory_id="long-2")
    await memory.update_memory(**WHO, memory_id="s2", content=entry("other").content)


EMBEDDER = FunctionEmbedder(embed, name="test", dimensions=DIMENSIONS)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store whose user has memories, with vectors; tests take copies."""
    folder = tmp_path_factory.mktemp("memories") / "store"

    async def make() -> None:
        async with Store.local(folder, embedder=EMBEDDER) as store:
            await fill(store.memory)

    asyncio.run(make())
    return folder


@pytest.fixture
async def store(filled: Path, tmp_path: Path) -> AsyncIterator[Store]:
    """A copy of that store."""
    async with Store.local(shutil.copytree(filled, tmp_path / "store"), embedder=EMBEDDER) as store:
        yield store


async def faults_of(store: Store, **options: Any) -> list[Fault]:
    """Return what a full check finds."""
    return [fault async for fault in store.check(**{"full": True, **options})]


async def shard_of(store: Store) -> str:
    """Return the path of a shard."""
    head = await fields_of(store, HEAD)
    return f"{HEAD}/adk_shards/{head['epoch']}-{head['shards'][0]['n']}"


async def test_what_the_store_writes_has_no_fault(store: Store) -> None:
    """Neither now nor later, when old payloads need a reference; nor once memories have ended."""
    head = await fields_of(store, HEAD)
    assert all(head[name] for name in ("shards", "tail", "vectors", "fresh", "gone"))

    assert [] == await faults_of(store)
    with in_days(3):
        assert [] == await faults_of(store)
    with in_days(90):
        assert [] == await faults_of(store)


async def test_a_deletion_that_was_interrupted_is_no_fault(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its payloads go before their memories, which nobody reads any more; the next call removes all."""

    async def interrupted(*_: Any) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as patch:
        patch.setattr("gcp_adk_store.memory.keeper.commit_once", interrupted)
        with pytest.raises(asyncio.CancelledError):
            await store.memory.delete_user_memory(**WHO)
    assert (await fields_of(store, HEAD))["ending"]
    assert [] == await faults_of(store)
    await store.memory.delete_user_memory(**WHO)
    assert [None] == await store.sessions.storage.documents.get([HEAD])
    assert [] == await faults_of(store)


async def test_payloads_in_firestore_have_no_fault_either() -> None:
    """Chunks lie below the head, and expire with their memory."""
    stored = Stored.empty()
    memory = MemoryService(stored.storage)
    await fill(memory)
    chunks = [path for path in await stored.documents() if path.startswith(f"{HEAD}/adk_chunks/")]

    assert chunks
    assert [] == await stored.faults()
    await stored.put(chunks[0], None)
    assert ["FSCK301"] == sorted({fault.code for fault in await stored.faults()})


async def test_an_old_payload_without_a_memory_is_left_to_the_collector(store: Store) -> None:
    """The others of the user stay."""
    await store.memory.add_memory(**WHO, memories=[entry("unused " * 9000, id="unused")])
    tail = (await fields_of(store, HEAD))["tail"]
    await change(store, HEAD, {"tail": [text for text in tail if '"id":"unused"' not in text]})
    with in_days(3):
        codes = [fault.code for fault in await faults_of(store)]

    assert ["FSCK305"] == codes


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ("FSCK605", {"until": 5_000_000_000.0}),
        ("FSCK605", {"until": 5.0}),
        ("FSCK605", {"until": 5.0, "expire_at": LONG_AGO}),
        ("FSCK608", {"expire_at": LONG_AGO}),
        ("FSCK608", {"expire_at": 7}),
        ("FSCK606", {"next": 0}),
        ("FSCK606", {"spilled": False}),
    ],
)
async def test_what_the_rest_proves_is_mended(store: Store, code: str, changed: dict[str, Any]) -> None:
    """The head is then as it was."""
    before = await fields_of(store, HEAD)
    await change(store, HEAD, changed)
    faults = await faults_of(store)

    repaired = await store.repair(faults)

    after = await fields_of(store, HEAD)
    assert [code] == [fault.code for fault in repaired]
    assert [] == await faults_of(store)
    assert {**before, "next": 0} == {**after, "next": 0}
    assert isinstance(after["next"], int)
    assert after["next"] <= before["next"]


@pytest.mark.parametrize("name", ["shards", "vectors"])
@pytest.mark.parametrize("changed", ["count", "bytes", "until"])
async def test_what_the_head_says_of_parts_is_mended(store: Store, name: str, changed: str) -> None:
    """As the documents themselves say."""
    before = await fields_of(store, HEAD)
    parts = before[name]
    assert parts
    wrong = {**parts[0], changed: parts[0].get(changed, 4.0) + 1}
    await change(store, HEAD, {name: [wrong, *parts[1:]]})
    faults = await faults_of(store)

    await store.repair(faults)

    assert [("FSCK604", f"{name.removesuffix('s') if name == 'shards' else name} {parts[0]['n']}")] == [
        (fault.code, fault.item) for fault in faults
    ]
    assert before == await fields_of(store, HEAD)


async def test_an_end_in_the_past_hides_no_memory_from_a_check(store: Store) -> None:
    """A search finds nothing, and the check finds why; memories that ended are no fault."""
    search = {**WHO, "query": "short"}
    assert await store.memory.search_memories(**search)
    await change(store, HEAD, {"until": 5.0})
    other = MemoryService(store.sessions.storage)
    assert [] == await other.search_memories(**search)
    await store.repair(await faults_of(store))
    assert await other.search_memories(**search)

    await store.memory.delete_user_memory(**WHO)
    ended = {"ttl_seconds": 60}
    await store.memory.add_memory(**WHO, memories=[entry("short " * 9000)], custom_metadata=ended)
    with in_days(2):
        assert [] == await other.search_memories(**search)
        assert [] == await faults_of(store)


@pytest.mark.parametrize("name", ["shards", "vectors"])
async def test_a_part_that_would_expire_before_its_memories_is_mended(store: Store, name: str) -> None:
    """Firestore would remove it."""
    head = await fields_of(store, HEAD)
    path = f"{HEAD}/adk_{name}/{head['epoch']}-{head[name][0]['n']}"
    before = await fields_of(store, path)
    await change(store, path, {"expire_at": LONG_AGO})
    faults = await faults_of(store)

    assert [("FSCK608", path)] == [(fault.code, fault.path) for fault in await store.repair(faults)]
    assert before == await fields_of(store, path)


async def test_what_nobody_can_repair_is_reported(store: Store) -> None:
    """A missing shard, one that cannot be read, another owner, and a memory that is there twice."""
    shard, tail = await shard_of(store), (await fields_of(store, HEAD))["tail"]
    whole = await fields_of(store, shard)
    found = {}

    async def codes() -> list[str]:
        faults = await faults_of(store)
        assert [] == await store.repair(faults)
        return sorted({fault.code for fault in faults})

    await change(store, shard, {"ids": b""})
    found["unknown ids"] = await codes()
    await change(store, shard, {"body": b"damaged"})
    found["damaged"] = await codes()
    await remove(store, shard)
    found["missing"] = await codes()
    await change(store, shard, whole)
    await change(store, HEAD, {"tail": [*tail, tail[0].replace("short", "shirt")]})
    found["twice"] = await codes()
    await change(store, HEAD, {"tail": tail, "user": "somebody"})
    found["owner"] = await codes()

    assert {
        "unknown ids": ["FSCK607"],
        "damaged": ["FSCK603"],
        "missing": ["FSCK602"],
        "twice": ["FSCK607"],
        "owner": ["FSCK601"],
    } == found


async def test_a_check_may_be_of_one_user(store: Store) -> None:
    """Memories belong to a user, and not to a session."""
    await change(store, HEAD, {"spilled": False})
    await store.sessions.create_session(**WHO, session_id="s1")

    assert ["FSCK606"] == [fault.code for fault in await faults_of(store, **WHO)]
    assert [] == await faults_of(store, app_name="shop", user_id="bob")
    assert [] == await faults_of(store, **WHO, session_id="s1")


async def test_no_finding_has_content(store: Store) -> None:
    """Neither texts nor ids of memories."""
    tail = (await fields_of(store, HEAD))["tail"]
    await change(store, await shard_of(store), {"ids": b"", "count": 1})
    await change(store, HEAD, {"tail": [*tail, tail[0], "damaged short"]})

    report = " ".join(f"{fault.item} {fault.says}" for fault in await faults_of(store))

    assert report
    assert "short" not in report
    assert "long-" not in report


async def test_writers_cause_no_finding(tmp_path: Path) -> None:
    """One remembers, updates and deletes, while another process checks."""
    async with Store.local(tmp_path, embedder=EMBEDDER) as store, Store.local(tmp_path) as checking:
        writing = asyncio.create_task(fill(store.memory, 4))
        found: list[Fault] = []
        while not writing.done():
            found += await faults_of(checking)
        await writing
        await store.memory.delete_user_memory(**WHO)

        assert [] == found
        assert [] == await faults_of(checking)
