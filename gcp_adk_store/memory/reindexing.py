"""Make the vectors that memories of a user lack."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gcp_adk_store.memory.keeper import MemoryKeeper
from gcp_adk_store.model.keys import UserKey

_AT_ONCE: Final = 500
"""Memories of one commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReindexedMemories:
    """What :meth:`MemoryService.reindex_memories` found and did."""

    memories: int
    """Memories of the user."""
    missing: int
    """Those that had words, and no vector of the embedder."""
    embedded: int
    """Those that got one; fewer than *missing* after a dry run."""


async def reindex(
    keeper: MemoryKeeper, key: UserKey, *, dry_run: bool, on_progress: Callable[[int, int], None] | None
) -> ReindexedMemories:
    """Make missing vectors, as the service's ``reindex_memories``, which has the errors."""
    found = await keeper.missing(key)
    if found is None:
        return ReindexedMemories(memories=0, missing=0, embedded=0)
    snapshot, missing = found
    at_once = min(_AT_ONCE, keeper.rows_at_once)
    embedded = 0
    for first in range(0, 0 if dry_run else len(missing), at_once):
        some = missing[first : first + at_once]
        await keeper.embed(key, some)
        embedded += len(some)
        if on_progress is not None:
            on_progress(embedded, len(missing))
    return ReindexedMemories(memories=len(snapshot.texts), missing=len(missing), embedded=embedded)
