"""Search and list the memories of a user."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from google.adk.memory.memory_entry import MemoryEntry

from gcp_adk_store.codec.cursors import decode_memory_cursor, encode_memory_cursor
from gcp_adk_store.codec.memories import decode_memory
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.memory.entries import entry_of
from gcp_adk_store.memory.keeper import MemoryKeeper
from gcp_adk_store.model.keys import UserKey
from gcp_adk_store.model.memories import MemoryFilter
from gcp_adk_store.operations.bounds import operation
from gcp_adk_store.operations.fan_out import fan_out
from gcp_adk_store.operations.pauses import paced
from gcp_adk_store.sessions.arguments import is_count

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


class SearchMethods:
    """The methods of the memory service that search and list.

    The service's constructor sets the attribute.
    """

    _keeper: MemoryKeeper

    @operation
    async def search_memories(
        self,
        *,
        app_name: str,
        user_id: str,
        query: str,
        limit: int = 10,
        min_score: float = 0.0,
        session_id: str | None = None,
        author: str | None = None,
        after: float | None = None,
        before: float | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[FoundMemory]:
        """Return the memories that fit *query* best, the best first.

        With an embedder, the metadata of each says as ``adk_store_vectors`` if words alone ranked some or all
        memories, because they have no vector, or the embedder does not answer.

        1 read; 1 more for each shard that this process does not know, at most 11 for 10,000 memories. With an
        embedder, also 1 for each 900 KiB of vectors that it does not know, and 1 call for a new query.

        Args:
            app_name: The app.
            user_id: The user.
            query: Words of any language; a memory needs not have all of them.
            limit: The most memories, 1 to 1,000.
            min_score: The least :attr:`FoundMemory.score`.
            session_id: Only memories of this session.
            author: Only memories of this author.
            after: Only memories at or after this Unix time in seconds.
            before: Only memories before this Unix time in seconds.
            metadata: Only memories whose metadata has these keys with equal values.

        Raises:
            InvalidInputError: *limit* or *min_score* is not such a number.
            PayloadMissingError: large content of a result is gone.
            EmbedderError: the embedder's answer has another size or is not finite. If it fails, words rank.
        """
        if not is_count(limit) or limit > MAX_PAGE_SIZE:
            raise InvalidInputError(f"limit is {limit!r:.40}, it must be 1 to {MAX_PAGE_SIZE}")
        if not 0 <= min_score <= 1:
            raise InvalidInputError(f"min_score is {min_score!r:.40}, it must be 0 to 1")
        accepts = MemoryFilter(
            session_id=session_id, author=author, after=after, before=before, metadata=metadata or {}
        )
        return await self._search(UserKey(app=app_name, user=user_id), query, limit, min_score, accepts)

    @operation
    async def list_memories(
        self,
        *,
        app_name: str,
        user_id: str,
        page_size: int = 50,
        cursor: str | None = None,
        session_id: str | None = None,
        author: str | None = None,
        after: float | None = None,
        before: float | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> MemoryPage:
        """Return one page of a user's memories, the newest first; it reads as :meth:`search_memories`.

        Args:
            app_name: The app.
            user_id: The user.
            page_size: The most memories of the page, 1 to 1,000.
            cursor: ``next_cursor`` of the page before, of the same user and filters.
            session_id: As for :meth:`search_memories`, and so are the further arguments.
            author: As there.
            after: As there.
            before: As there.
            metadata: As there.

        Raises:
            InvalidInputError: *page_size* or *cursor* is invalid.
            PayloadMissingError: large content of a memory is gone.
        """
        if not is_count(page_size) or page_size > MAX_PAGE_SIZE:
            raise InvalidInputError(f"page_size is {page_size!r:.40}, it must be 1 to {MAX_PAGE_SIZE}")
        key = UserKey(app=app_name, user=user_id)
        accepts = MemoryFilter(
            session_id=session_id, author=author, after=after, before=before, metadata=metadata or {}
        )
        listing = f"{key} {accepts}"
        last = None if cursor is None else decode_memory_cursor(cursor, listing=listing)

        async def listed() -> MemoryPage:
            snapshot = await self._keeper.reader.read(key)
            texts = [] if snapshot is None else snapshot.texts
            now = self._keeper.now()
            read = await paced((decode_memory(text), text) for text in texts)
            fitting = [(memory, text) for memory, text in read if accepts.accepts(memory, now=now)]
            fitting.sort(key=lambda each: (each[0].time, each[0].id), reverse=True)
            rest = [each for each in fitting if last is None or (each[0].time, each[0].id) < last]
            page = rest[:page_size]
            contents = await fan_out(self._keeper.payloads.content(key, text) for _, text in page)
            return MemoryPage(
                memories=[
                    entry_of(memory, content) for (memory, _), content in zip(page, contents, strict=True)
                ],
                next_cursor=encode_memory_cursor(listing, page[-1][0].time, page[-1][0].id)
                if len(rest) > page_size
                else None,
            )

        return await self._keeper.reader.whole(key, listed)

    async def _search(
        self, key: UserKey, query: str, limit: int, min_score: float, accepts: MemoryFilter
    ) -> list[FoundMemory]:
        if not query.strip():
            return []

        async def found() -> list[FoundMemory]:
            hits, lacks = await self._keeper.search(
                key, query, limit=limit, accepts=accepts, min_score=min_score
            )
            contents = await fan_out(self._keeper.payloads.content(key, hit.text) for hit in hits)
            return [
                FoundMemory(
                    memory=entry_of(hit.memory, content, score=hit.score, lacks=lacks),
                    score=hit.score,
                    session_id=hit.memory.session,
                )
                for hit, content in zip(hits, contents, strict=True)
            ]

        return await self._keeper.reader.whole(key, found)
