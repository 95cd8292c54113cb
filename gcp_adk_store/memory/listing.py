"""List all memories of a user, for copies."""

from collections.abc import AsyncIterator

from google.adk.memory.memory_entry import MemoryEntry

from gcp_adk_store.codec.memories import decode_memory
from gcp_adk_store.memory.entries import entry_of
from gcp_adk_store.memory.keeper import MemoryKeeper
from gcp_adk_store.model.keys import UserKey
from gcp_adk_store.sessions.storage import SessionStorage


async def iter_entries(storage: SessionStorage, owner: UserKey) -> AsyncIterator[MemoryEntry]:
    """Yield the memories of a user that have not ended, with their content; all texts are in memory.

    Takes 1 read, and 1 for each shard and for each large content.
    """
    keeper = MemoryKeeper(storage, cache_bytes=0, at_most=0)
    found = await keeper.read(owner)
    now = keeper.now()
    for text in () if found is None else found.texts:
        memory = decode_memory(text)
        if not memory.has_ended(now):
            yield entry_of(memory, await keeper.content(owner, text))
