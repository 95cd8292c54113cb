"""Search and list the memories of a user."""

from dataclasses import dataclass
from typing import Final

from google.adk.memory.memory_entry import MemoryEntry

from gcp_adk_store.codec.cursors import decode_memory_cursor, encode_memory_cursor
from gcp_adk_store.codec.memories import decode_memory
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.kernel.concurrency import fan_out, paced
from gcp_adk_store.memory.entries import entry_of
from gcp_adk_store.memory.keeper import MemoryKeeper
from gcp_adk_store.model.keys import UserKey
from gcp_adk_store.model.memories import MemoryFilter
from gcp_adk_store.sessions.read.session_objects import is_count

MAX_PAGE_SIZE: Final = 1000
"""Memories in one page of a listing, and results of one search."""


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
    """A part of a listing."""

    memories: list[MemoryEntry]
    next_cursor: str | None
    """The cursor of the next page; ``None`` if this is the last."""


async def search(
    keeper: MemoryKeeper, key: UserKey, query: str, *, limit: int, min_score: float, accepts: MemoryFilter
) -> list[FoundMemory]:
    """Return the memories that fit best, as the service's ``search_memories``, which has the errors."""
    if not is_count(limit) or limit > MAX_PAGE_SIZE:
        raise InvalidInputError(f"limit is {limit!r:.40}, it must be 1 to {MAX_PAGE_SIZE}")
    if not 0 <= min_score <= 1:
        raise InvalidInputError(f"min_score is {min_score!r:.40}, it must be 0 to 1")
    if not query.strip():
        return []

    async def found() -> list[FoundMemory]:
        hits, lacks = await keeper.search(key, query, limit=limit, accepts=accepts, min_score=min_score)
        contents = await fan_out(keeper.payloads.content(key, hit.text) for hit in hits)
        return [
            FoundMemory(
                memory=entry_of(hit.memory, content, score=hit.score, lacks=lacks),
                score=hit.score,
                session_id=hit.memory.session,
            )
            for hit, content in zip(hits, contents, strict=True)
        ]

    return await keeper.reader.whole(key, found)


async def list_page(
    keeper: MemoryKeeper, key: UserKey, *, page_size: int, cursor: str | None, accepts: MemoryFilter
) -> MemoryPage:
    """Return one page of memories, as the service's ``list_memories``, which has the errors."""
    if not is_count(page_size) or page_size > MAX_PAGE_SIZE:
        raise InvalidInputError(f"page_size is {page_size!r:.40}, it must be 1 to {MAX_PAGE_SIZE}")
    listing = f"{key} {accepts}"
    last = None if cursor is None else decode_memory_cursor(cursor, listing=listing)

    async def listed() -> MemoryPage:
        snapshot = await keeper.reader.read(key)
        texts = [] if snapshot is None else snapshot.texts
        now = keeper.now()
        read = await paced((decode_memory(text), text) for text in texts)
        fitting = [(memory, text) for memory, text in read if accepts.accepts(memory, now=now)]
        fitting.sort(key=lambda each: (each[0].time, each[0].id), reverse=True)
        rest = [each for each in fitting if last is None or (each[0].time, each[0].id) < last]
        page = rest[:page_size]
        contents = await fan_out(keeper.payloads.content(key, text) for _, text in page)
        return MemoryPage(
            memories=[entry_of(memory, content) for (memory, _), content in zip(page, contents, strict=True)],
            next_cursor=encode_memory_cursor(listing, page[-1][0].time, page[-1][0].id)
            if len(rest) > page_size
            else None,
        )

    return await keeper.reader.whole(key, listed)
