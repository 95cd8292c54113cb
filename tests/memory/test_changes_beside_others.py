"""Reads of large content beside changes of other processes, and where it is gone for good."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

import pytest
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import InMemorySessionService
from google.genai import types

from gcp_adk_store import MemoryLimits, MemoryService, PayloadMissingError, Store
from gcp_adk_store.model.keys import UserKey
from gcp_adk_store.moving import copy
from gcp_adk_store.testing.faults import Hold
from tests.memory.conftest import USER

KEY = UserKey(app="app", user="user")
LARGE = types.Part(inline_data=types.Blob(data=b"x" * 10_000, mime_type="image/png"))
"""A payload of its own."""


class Held:
    """The documents of a process that stops before its second read."""

    def __init__(self, inner: Any, hold: Hold) -> None:
        self._inner = inner
        self._hold = hold
        self._reads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def get(self, paths: Sequence[str], **options: Any) -> Any:
        """Read; the first read is followed by a wait."""
        found = await self._inner.get(paths, **options)
        self._reads += 1
        if self._reads == 1:
            self._hold.reached.set()
            await asyncio.wrap_future(self._hold.decision)
        return found


def stopped(store: Store, hold: Hold) -> MemoryService:
    """Return the service of a process that *hold* stops."""
    storage = store.sessions.storage
    documents: Any = Held(storage.documents, hold)
    return MemoryService(replace(storage, documents=documents))


def said(text: str, *more: types.Part) -> types.Content:
    """Return *text* as content."""
    return types.Content(role="user", parts=[types.Part(text=text), *more])


async def searched(memory: MemoryService) -> list[MemoryEntry]:
    """Return what a search finds."""
    return [found.memory for found in await memory.search_memories(query="tea", **USER)]


async def listed(memory: MemoryService) -> list[MemoryEntry]:
    """Return a page."""
    return (await memory.list_memories(**USER)).memories


async def copied(memory: MemoryService) -> list[MemoryEntry]:
    """Return what a copy takes along, or raise what it reports."""
    async with Store.local(":memory:") as target:
        none = InMemorySessionService()
        await none.create_session(**USER)
        report = await copy(
            none, target.sessions, app_name=USER["app_name"], memories=(memory, target.memory)
        )
        for note in report.notes:
            if note.kind == "failed":
                raise PayloadMissingError(note.says)
        return await listed(target.memory)


@pytest.mark.parametrize("reads", [searched, listed, copied])
@pytest.mark.parametrize("is_deleted", [False, True], ids=["updated", "deleted"])
async def test_large_content_that_goes_during_a_read_is_not_missing(
    adk_store_local: Store,
    reads: Callable[[MemoryService], Coroutine[Any, Any, list[MemoryEntry]]],
    *,
    is_deleted: bool,
) -> None:
    """The reader finds what came in its place."""
    await adk_store_local.memory.add_memory(
        memories=[MemoryEntry(id="m", content=said("tea", LARGE))], **USER
    )
    hold = Hold()
    reading = asyncio.create_task(reads(stopped(adk_store_local, hold)))
    await asyncio.to_thread(hold.reached.wait)
    if is_deleted:
        await adk_store_local.memory.delete_memory(memory_id="m", **USER)
    else:
        await adk_store_local.memory.update_memory(memory_id="m", custom_metadata={"n": 2}, **USER)
    hold.release()

    assert ([] if is_deleted else [said("tea", LARGE)]) == [entry.content for entry in await reading]


@pytest.mark.parametrize("reads", [searched, listed, copied])
async def test_large_content_that_is_gone_for_good_is_an_error(
    adk_store_local: Store, reads: Callable[[MemoryService], Coroutine[Any, Any, list[MemoryEntry]]]
) -> None:
    """No reader waits for it, nor an update that keeps it; one that replaces it helps."""
    memory = adk_store_local.memory
    await memory.add_memory(memories=[MemoryEntry(id="m", content=said("tea", LARGE))], **USER)
    (text,) = (await memory._keeper.reader.read(KEY)).texts  # type: ignore[union-attr]
    await memory._keeper.reader.remove_payloads(KEY, [text])

    with pytest.raises(PayloadMissingError):
        await reads(memory)
    with pytest.raises(PayloadMissingError):
        await memory.update_memory(memory_id="m", custom_metadata={"n": 2}, **USER)
    assert await memory.update_memory(memory_id="m", content=said("tea"), **USER)
    assert [said("tea")] == [entry.content for entry in await reads(memory)]


async def test_an_update_is_acknowledged_also_if_the_process_keeps_nothing(adk_store_local: Store) -> None:
    """Memories beyond the cache are read each time."""
    many = [MemoryEntry(id=f"m{number}", content=said(f"tea {'x' * 30_000}")) for number in range(4)]
    await adk_store_local.memory.add_memory(memories=many, **USER)
    storage = adk_store_local.sessions.storage
    memory = MemoryService(storage, limits=MemoryLimits(cache_bytes=1))

    for _ in range(2):
        assert await memory.update_memory(memory_id="m1", content=said("rum"), **USER)
        assert 3 == len(await searched(memory))
    assert said("rum") in [entry.content for entry in await listed(adk_store_local.memory)]
