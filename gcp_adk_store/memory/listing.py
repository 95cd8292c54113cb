"""List all memories of a user, for copies."""

from collections.abc import AsyncIterator

from google.adk.memory.memory_entry import MemoryEntry

from gcp_adk_store.codec.memories import decode_memory
from gcp_adk_store.errors import PayloadMissingError
from gcp_adk_store.kernel.transact import CHANGED, Changed, read_whole
from gcp_adk_store.memory.entries import entry_of
from gcp_adk_store.memory.keeper import MemoryKeeper
from gcp_adk_store.model.keys import UserKey
from gcp_adk_store.sessions.read.storage import SessionStorage


async def iter_entries(storage: SessionStorage, owner: UserKey) -> AsyncIterator[MemoryEntry]:
    """Yield the memories of a user that have not ended, with their content; all texts are in memory.

    Takes 1 read, and 1 for each shard and for each large content.
    """
    keeper = MemoryKeeper(storage, cache_bytes=0, at_most=0)
    found = await keeper.reader.read(owner)
    now = keeper.now()
    for text in () if found is None else found.texts:
        if not decode_memory(text).has_ended(now):
            look = _Entry(keeper, owner, text).look
            entry = await read_whole(storage.documents.deadline_s, look)
            if entry is not None:
                yield entry


class _Entry:
    """The memory with this stored *text*, or what it became meanwhile."""

    def __init__(self, keeper: MemoryKeeper, owner: UserKey, text: str) -> None:
        self._keeper = keeper
        self._owner = owner
        self._text = text

    async def look(self) -> MemoryEntry | Changed | None:
        """Return the memory with its content; ``None`` if it is gone."""
        memory = decode_memory(self._text)
        try:
            return entry_of(memory, await self._keeper.payloads.content(self._owner, self._text))
        except PayloadMissingError:
            newer = await self._keeper.text_of(self._owner, memory.id)
            if newer == self._text:
                raise
        if newer is None:
            return None
        self._text = newer
        return CHANGED
