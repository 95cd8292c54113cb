"""List all memories of a user, for copies."""

from collections.abc import AsyncIterator

from google.adk.memory.memory_entry import MemoryEntry

from gcp_adk_store.codec.memories import decode_memory
from gcp_adk_store.errors import PayloadMissingError
from gcp_adk_store.memory.entries import entry_of
from gcp_adk_store.memory.keeper import MemoryKeeper
from gcp_adk_store.model.keys import UserKey
from gcp_adk_store.operations.rereads import Rereads
from gcp_adk_store.sessions.storage import SessionStorage


async def iter_entries(storage: SessionStorage, owner: UserKey) -> AsyncIterator[MemoryEntry]:
    """Yield the memories of a user that have not ended, with their content; all texts are in memory.

    Takes 1 read, and 1 for each shard and for each large content.
    """
    keeper = MemoryKeeper(storage, cache_bytes=0, at_most=0)
    found = await keeper.reader.read(owner)
    now = keeper.now()
    for text in () if found is None else found.texts:
        if not decode_memory(text).has_ended(now):
            entry = await _entry(keeper, owner, text, Rereads(storage.documents.deadline_s))
            if entry is not None:
                yield entry


async def _entry(keeper: MemoryKeeper, owner: UserKey, text: str, rereads: Rereads) -> MemoryEntry | None:
    """Return the memory with this stored *text*, or what it became meanwhile; ``None`` if it is gone."""
    while True:
        memory = decode_memory(text)
        try:
            return entry_of(memory, await keeper.payloads.content(owner, text))
        except PayloadMissingError:
            newer = await keeper.text_of(owner, memory.id)
            if newer == text:
                raise
        if newer is None:
            return None
        text = newer
        await rereads.again()
