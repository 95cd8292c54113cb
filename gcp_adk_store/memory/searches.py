"""Search and list the memories of a user, and index them again."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from gcp_adk_store.codec.cursors import decode_place_in, encode_place_in
from gcp_adk_store.codec.memories import decode_memory, require_metadata
from gcp_adk_store.errors import InvalidInputError, PayloadMissingError
from gcp_adk_store.kernel.concurrency import gather, offload, yielding
from gcp_adk_store.kernel.operation import require_count
from gcp_adk_store.kernel.transact import CHANGED, Changed, read_whole
from gcp_adk_store.memory.contents import Contents, Hit
from gcp_adk_store.memory.embedding import lack
from gcp_adk_store.memory.entries import entry_of
from gcp_adk_store.memory.keeper import MemoryKeeper
from gcp_adk_store.model.keys import UserKey, require_text_keys
from gcp_adk_store.model.memories import Memory, MemoryFilter
from gcp_adk_store.sessions.read.storage import SessionStorage
from gcp_adk_store.settings import MAX_RESULTS


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMemory:
    """A memory that a search found."""

    memory: MemoryEntry
    score: float
    """The share of the query's weight that the memory has, above 0 and below 1; rare words weigh more.

    With an embedder, where the memory stands between the worst and the best of this search, 0 to 1."""
    session_id: str | None
    """The session that it comes from, if it was added with one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPage:
    """One page of a listing of memories."""

    memories: list[MemoryEntry]
    next_cursor: str | None
    """The cursor of the next page; ``None`` if this is the last."""


async def search(
    keeper: MemoryKeeper, key: UserKey, query: str, *, limit: int, min_score: float, accepts: MemoryFilter
) -> list[FoundMemory]:
    """Return the memories that fit best, as the service's ``search_memories``, which has the errors."""
    _require_metadata(accepts)
    require_count("limit", limit, most=MAX_RESULTS)
    if not 0 <= min_score <= 1:
        raise InvalidInputError(f"min_score is {min_score!r:.40}, it must be 0 to 1")
    if not query.strip():
        return []

    async def found() -> list[FoundMemory]:
        hits, lacks = await _rank(keeper, key, query, limit=limit, accepts=accepts, min_score=min_score)
        contents = await gather(keeper.reader.content(key, hit.text) for hit in hits)
        return [
            FoundMemory(
                memory=entry_of(hit.memory, content, score=hit.score, lacks=lacks),
                score=hit.score,
                session_id=hit.memory.session,
            )
            for hit, content in zip(hits, contents, strict=True)
        ]

    return await keeper.reader.whole(key, found)


async def _rank(
    keeper: MemoryKeeper,
    key: UserKey,
    query: str,
    *,
    limit: int,
    accepts: MemoryFilter,
    min_score: float,
) -> tuple[Sequence[Hit], str]:
    """Return the best memories for *query*, the best first, and why words alone ranked some, if so.

    It reads as :meth:`MemoryReader.read`, with an embedder also each document of vectors that is not known.
    """
    embedding = keeper.embedding
    snapshot = await keeper.reader.read(key, vectors=embedding is not None)
    if snapshot is None or snapshot.is_empty:
        return [], ""
    is_made = embedding is not None and embedding.made(snapshot.head.vectors)
    direction = await embedding.query(query) if embedding is not None and is_made else None
    contents = keeper.reader.cached(key) or Contents(snapshot=snapshot)
    look = partial(
        contents.search,
        snapshot,
        query,
        limit=limit,
        accepts=accepts,
        min_score=min_score,
        now=keeper.now(),
        direction=direction,
    )
    found = await offload(look, light=contents.is_light(snapshot, query))
    keeper.reader.grown(key, contents)
    if embedding is None:
        return found.hits, ""
    return found.hits, lack(found.without_vector, is_made=is_made, has_query=direction is not None)


def _require_metadata(accepts: MemoryFilter) -> None:
    """Check the metadata of a filter.

    Raises:
        InvalidInputError: a key is not a string, or stored metadata cannot have a value.
    """
    require_text_keys(accepts.metadata)
    if accepts.metadata:
        require_metadata(accepts.metadata, what="metadata")


async def list_page(
    keeper: MemoryKeeper, key: UserKey, *, page_size: int, cursor: str | None, accepts: MemoryFilter
) -> MemoryPage:
    """Return one page of memories, as the service's ``list_memories``, which has the errors."""
    _require_metadata(accepts)
    require_count("page_size", page_size, most=MAX_RESULTS)
    listing = f"{key} {replace(accepts, metadata=dict(sorted(accepts.metadata.items())))}"
    last = None
    if cursor is not None:
        last = tuple(decode_place_in(listing, cursor, float, str, of="memories of another user or filter"))

    async def listed() -> MemoryPage:
        snapshot = await keeper.reader.read(key)
        texts = [] if snapshot is None else snapshot.texts
        now = keeper.now()
        read = await yielding((decode_memory(text), text) for text in texts)
        fitting = [(memory, text) for memory, text in read if accepts.accepts(memory, now=now)]
        fitting.sort(key=lambda each: (each[0].time, each[0].id), reverse=True)
        rest = [each for each in fitting if last is None or (each[0].time, each[0].id) < last]
        page = rest[:page_size]
        contents = await gather(keeper.reader.content(key, text) for _, text in page)
        return MemoryPage(
            memories=[entry_of(memory, content) for (memory, _), content in zip(page, contents, strict=True)],
            next_cursor=encode_place_in(listing, page[-1][0].time, page[-1][0].id)
            if len(rest) > page_size
            else None,
        )

    return await keeper.reader.whole(key, listed)


async def iter_memories(
    storage: SessionStorage, owner: UserKey
) -> AsyncIterator[tuple[Memory, types.Content]]:
    """Yield the memories of a user that have not ended, without the names of payloads, and their content.

    All texts are in memory. Takes 1 read, and 1 for each shard and for each large content.
    """
    keeper = MemoryKeeper(storage, cache_bytes=0, at_most=0)
    found = await keeper.reader.read(owner)
    now = keeper.now()
    for stored in () if found is None else found.texts:
        text = stored

        async def look() -> tuple[Memory, types.Content] | Changed | None:
            """Return the memory with its content, as it became meanwhile; ``None`` if it is gone."""
            nonlocal text
            memory = decode_memory(text)
            try:
                content = await keeper.reader.content(owner, text)
                return replace(memory, life=None, excerpt=None), content
            except PayloadMissingError:
                newer = await keeper.text_of(owner, memory.id)
                if newer == text:
                    raise
            if newer is None:
                return None
            text = newer
            return CHANGED

        if not decode_memory(stored).has_ended(now):
            one = await read_whole(storage.documents.deadline_s, look)
            if one is not None:
                yield one


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
    """Those that got one; fewer than *missing* after a dry run, and where the embedder refused some."""
    refused: Sequence[str] = ()
    """Ids of those whose text the embedder refused."""


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
    refused: list[str] = []
    for first in range(0, 0 if dry_run else len(missing), at_once):
        some = missing[first : first + at_once]
        left_out = await keeper.embed(key, some)
        refused += [decode_memory(text).id for text in left_out]
        embedded += len(some) - len(left_out)
        if on_progress is not None:
            on_progress(embedded, len(missing))
    return ReindexedMemories(
        memories=len(snapshot.texts), missing=len(missing), embedded=embedded, refused=tuple(refused)
    )
