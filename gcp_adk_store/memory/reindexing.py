"""Make the vectors that memories of a user lack."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gcp_adk_store.memory.keeper import MemoryKeeper
from gcp_adk_store.model.keys import UserKey
from gcp_adk_store.operations.bounds import operation

_AT_ONCE: Final = 500
"""Memories of one commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReindexedMemories:
    """What :meth:`FirestoreMemoryService.reindex_memories` found and did."""

    memories: int
    """Memories of the user."""
    missing: int
    """Those that had words, and no vector of the embedder."""
    embedded: int
    """Those that got one; fewer than *missing* after a dry run."""


class ReindexMethods:
    """The method of the memory service that makes vectors.

    The service's constructor sets the attribute.
    """

    _keeper: MemoryKeeper

    @operation
    async def reindex_memories(
        self,
        *,
        app_name: str,
        user_id: str,
        dry_run: bool = False,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> ReindexedMemories:
        """Make the vectors that memories of a user lack, and replace those of another embedder.

        It is safe while agents run, and goes on where an earlier call ended. It takes 1 commit for 500
        memories and 1 call of the embedder for 100.

        Args:
            app_name: The app.
            user_id: The user.
            dry_run: Whether it only counts.
            on_progress: Called with the number of memories that got a vector, and the number of all that lack
                one.

        Raises:
            EmbedderError: the embedder failed, or its answer has another size or is not finite; what came
                before is stored.
            InvalidInputError: the store has no embedder.
            OutcomeUnknownError: not answered; calling again is safe.
        """
        key = UserKey(app=app_name, user=user_id)
        found = await self._keeper.missing(key)
        if found is None:
            return ReindexedMemories(memories=0, missing=0, embedded=0)
        snapshot, missing = found
        at_once = min(_AT_ONCE, self._keeper.rows_at_once)
        embedded = 0
        for first in range(0, 0 if dry_run else len(missing), at_once):
            some = missing[first : first + at_once]
            await self._keeper.embed(key, some)
            embedded += len(some)
            if on_progress is not None:
                on_progress(embedded, len(missing))
        return ReindexedMemories(memories=len(snapshot.texts), missing=len(missing), embedded=embedded)
