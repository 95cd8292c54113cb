"""Keep memories of users over any storage, as ADK's memory service."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from google.adk.events import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.platform import time as platform_time
from google.adk.sessions import Session
from google.genai import types

from gcp_adk_store.codec.memories import decode_memory, has_id
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.calls import Bounds, checks_kinds, operation
from gcp_adk_store.kernel.concurrency import Limiter
from gcp_adk_store.kernel.ports import Embedder
from gcp_adk_store.kernel.process import Closing
from gcp_adk_store.memory.embedding import Embedding
from gcp_adk_store.memory.entries import add_new, made_of_entries, made_of_events, metadata_of, until_of
from gcp_adk_store.memory.keeper import MemoryKeeper
from gcp_adk_store.memory.searches import (
    FoundMemory,
    MemoryPage,
    ReindexedMemories,
    list_page,
    reindex,
    search,
)
from gcp_adk_store.model.keys import UserKey
from gcp_adk_store.model.memories import Memory, MemoryFilter, digest_of
from gcp_adk_store.sessions.read.storage import SessionStorage
from gcp_adk_store.settings import MemoryLimits

_LONGEST_WAIT_S: Final = 30.0


@checks_kinds
class MemoryService(Closing, BaseMemoryService):
    """ADK's memory service over any storage, for any number of processes, threads and event loops.

    ``Store.memory`` makes it. It ranks in the process, over words of any language and parts of words, and
    needs no index of the database.

    Guarantees: an acknowledged addition, change or removal is durable, and every later search sees it. Each
    event becomes one memory, however often it is added; a memory that was deleted does not come back when its
    session is added again. A call that failed can be repeated.

    Every method may raise :class:`~gcp_adk_store.errors.UnavailableError`,
    :class:`~gcp_adk_store.errors.AccessDeniedError`, :class:`~gcp_adk_store.errors.NotProvisionedError`,
    :class:`~gcp_adk_store.errors.InvalidInputError` for an id that is too long, and
    :class:`~gcp_adk_store.errors.StoredDataError`, in addition to the errors that it names. Writing methods
    raise :class:`~gcp_adk_store.errors.OutcomeUnknownError` for a write that was not answered; calling again
    is safe.
    """

    def __init__(
        self,
        storage: SessionStorage,
        *,
        limits: MemoryLimits | None = None,
        default_ttl_seconds: float | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        """Prepare the service over the *storage* of a session service; :meth:`close` closes it.

        Args:
            storage: The documents and payloads.
            limits: Sizes and deadlines.
            default_ttl_seconds: Seconds after its event's time, or the call of :meth:`add_memory`, at which a
                memory ends; ``None`` keeps memories.
            embedder: Makes vectors of memories and queries; ``None`` ranks by words alone.

        Raises:
            InvalidInputError: an option is malformed.
            ModuleNotFoundError: an embedder is given, and the extra ``vectors`` is not installed; the message
                has the command.
        """
        self._limits = limits or MemoryLimits()
        until_of(0.0, default_ttl_seconds)  # refuses an invalid one
        self._default_ttl_s = default_ttl_seconds
        self._storage = storage
        embedding = None
        if embedder is not None:
            embedding = Embedding(embedder, timeout_s=self._limits.embed_timeout_s)
        self._keeper = MemoryKeeper(
            storage,
            cache_bytes=self._limits.cache_bytes,
            at_most=self._limits.max_memories,
            embedding=embedding,
        )
        self._bounds = Bounds(
            MemoryService,
            system=telemetry.FIRESTORE,
            deadlines_s=self._limits.deadlines_s,
            limiter=Limiter(
                max_waiting=self._limits.max_waiting,
                longest_wait_s=_LONGEST_WAIT_S,
                at_once=self._limits.max_in_flight,
            ),
        )

    @property
    def storage(self) -> SessionStorage:
        """Where it stores memories."""
        return self._storage

    @operation
    async def add_session_to_memory(self, session: Session) -> None:
        """Remember the events of *session* that have text; it may be added after every turn.

        Events that were added before are not added again. 1 commit for new events; 1 read without new events.

        An event that no memory can hold, such as one with a time in milliseconds beside a time to live, is
        left out, and a warning in the log has its id; :meth:`add_events_to_memory` of it says why.

        Raises:
            InvalidInputError: the user has too many memories.
            OutcomeUnknownError: not answered; calling again is safe.
        """
        key = UserKey(app=session.app_name, user=session.user_id)
        left_out: dict[str, None] = {}
        ttl_s = self._default_ttl_s
        made = made_of_events(session.events, session.id, None, default_ttl_s=ttl_s, left_out=left_out)
        await add_new(self._keeper, key, made, left_out=left_out)

    @operation
    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember those of *events* that have text, and were never added; as :meth:`add_session_to_memory`.

        Args:
            app_name: The app.
            user_id: The user.
            events: Each becomes one memory, with its id, author and timestamp.
            session_id: The session that they come from, for filters and :meth:`delete_session_memory`.
            custom_metadata: JSON values for each memory, at most 16 KiB, for filters. ``ttl_seconds`` is
                not kept: the memory ends this long after the event's timestamp.

        Raises:
            InvalidInputError: an event, or the metadata, cannot be stored, or the user has too many memories.
            OutcomeUnknownError: as :meth:`add_session_to_memory`.
        """
        made = made_of_events(events, session_id, custom_metadata, default_ttl_s=self._default_ttl_s)
        await add_new(self._keeper, UserKey(app=app_name, user=user_id), made)

    @operation
    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember *memories* as they are.

        Args:
            app_name: The app.
            user_id: The user.
            memories: A memory without an id gets a random one; one whose id was taken in before, also if it
                was deleted since, is not added, unless its time to live is over. Without a timestamp it has
                the time of the call.
            custom_metadata: As for :meth:`add_events_to_memory`; a memory's own values take precedence.
                ``ttl_seconds`` counts from the time of the call.

        Raises:
            InvalidInputError, OutcomeUnknownError: as :meth:`add_events_to_memory`.
        """
        made = made_of_entries(memories, custom_metadata or {}, default_ttl_s=self._default_ttl_s)
        await add_new(self._keeper, UserKey(app=app_name, user=user_id), made)

    @operation
    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return the memories that fit *query* best, the best first; as :meth:`search_memories`.

        At most ``MemoryLimits.max_results``. The metadata of each has its score as ``adk_store_score``,
        its session, if it has one, as ``adk_store_session``, and as ``adk_store_vectors`` whether words alone
        ranked memories although the store has an embedder.
        """
        key = UserKey(app=app_name, user=user_id)
        limit = self._limits.max_results
        found = await search(self._keeper, key, query, limit=limit, min_score=0.0, accepts=MemoryFilter())
        return SearchMemoryResponse(memories=[each.memory for each in found])

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
            query: Words of any language; a memory need not have all of them.
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
        session_id = None if session_id is None else session_id.strip()  # as in a memory
        accepts = MemoryFilter(
            session_id=session_id, author=author, after=after, before=before, metadata=metadata or {}
        )
        key = UserKey(app=app_name, user=user_id)
        return await search(self._keeper, key, query, limit=limit, min_score=min_score, accepts=accepts)

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
        session_id = None if session_id is None else session_id.strip()  # as in a memory
        accepts = MemoryFilter(
            session_id=session_id, author=author, after=after, before=before, metadata=metadata or {}
        )
        key = UserKey(app=app_name, user=user_id)
        return await list_page(self._keeper, key, page_size=page_size, cursor=cursor, accepts=accepts)

    @operation
    async def update_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memory_id: str,
        content: types.Content | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> bool:
        """Replace the content or the metadata of a memory; return whether there is such a memory.

        What is ``None`` stays as it is stored by then, also if another process changes it during the call;
        id, session, author and time stay, too. ``ttl_seconds`` of *custom_metadata* counts from the time of
        the call.

        Raises:
            InvalidInputError: the content or the metadata cannot be stored.
            PayloadMissingError: large content that stays is gone.
            OutcomeUnknownError: not answered; calling again is safe.
        """
        key = UserKey(app=app_name, user=user_id)
        metadata, ttl_s = (None, None) if custom_metadata is None else metadata_of(custom_metadata)
        until = until_of(platform_time.get_time(), ttl_s)

        def changed(old: Memory) -> Memory:
            return replace(
                old,
                until=old.until if until is None else until,
                metadata=old.metadata if metadata is None else metadata,
                life=None,
                excerpt=None,
            )

        return await self._keeper.update(key, memory_id, changed, content)

    @operation
    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Remove a memory; a missing one is accepted.

        Its content is removed, not only hidden. A digest of its id stays, so that adding its session again
        does not bring it back. 1 commit, and 1 read if this process does not know the memories.

        Raises:
            OutcomeUnknownError: not answered; calling again is safe.
        """
        if not memory_id:
            return
        key = UserKey(app=app_name, user=user_id)
        await self._keeper.rewrite(key, lambda text: None if has_id(text, memory_id) else text)

    @operation
    async def has_memory(self, *, app_name: str, user_id: str, memory_id: str) -> bool:
        """Return whether the user has a memory of this id; 1 read, and those of its shards."""
        return await self._keeper.text_of(UserKey(app=app_name, user=user_id), memory_id) is not None

    @operation
    async def delete_session_memory(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Remove all memories of a session, as :meth:`delete_memory` removes each.

        Raises:
            OutcomeUnknownError: not answered; calling again is safe.
        """
        key, wanted = UserKey(app=app_name, user=user_id), session_id.strip()
        await self._keeper.rewrite(key, lambda text: None if decode_memory(text).session == wanted else text)

    @operation
    async def delete_user_memory(self, *, app_name: str, user_id: str) -> None:
        """Remove all memories of a user permanently; after the first commit, no search finds them.

        Nothing stays, so adding a session later starts anew. Damaged memories go, too: what only they could
        name in a bucket is garbage then, which ``gcp-adk-store gc`` removes.

        Raises:
            OutcomeUnknownError: not answered, or large content may be left; calling again is safe.
        """
        await self._keeper.remove_all(UserKey(app=app_name, user=user_id))

    @operation
    async def select_new_events(self, *, app_name: str, user_id: str, events: Sequence[Event]) -> list[Event]:
        """Return those of *events* that were never taken in, as memories or by :meth:`add_extracted`.

        1 read if this process does not know the user's memories.
        """
        snapshot = await self._keeper.newest(UserKey(app=app_name, user=user_id))
        known = frozenset() if snapshot is None else snapshot.known
        return [event for event in events if digest_of(event.id) not in known]

    @operation
    async def add_extracted(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        events: Sequence[Event],
        memories: Sequence[MemoryEntry],
    ) -> bool:
        """Remember *memories*, which were made of *events*, unless one of these was taken in before.

        It is 1 commit, and the ids of *events* count as taken in from then on. Return whether this call
        stored them. ``False`` means that another process took some of them in meanwhile, or an attempt of
        this call whose answer was lost: ask :meth:`select_new_events` again, and make memories of what it
        returns.

        Raises:
            InvalidInputError: a memory cannot be stored, or all of them do not fit a commit.
            OutcomeUnknownError: not answered; calling again is safe.
        """
        made = [
            await self._keeper.encode(replace(memory, session=session_id.strip()), content)
            for memory, content in made_of_entries(memories, {}, default_ttl_s=self._default_ttl_s)
        ]
        sources = [digest_of(event.id) for event in events]
        return await self._keeper.add(UserKey(app=app_name, user=user_id), made, sources=sources)

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
        memories and 1 call of the embedder for 100. A memory whose text the embedder refuses (status 400, 413
        or 422, or a ``ValueError``) gets none; the result names it.

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
        return await reindex(self._keeper, key, dry_run=dry_run, on_progress=on_progress)

    async def _take_over(self, owner: UserKey, memories: Sequence[tuple[Memory, types.Content]]) -> None:
        """Remember memories of another store with their sessions, times and ends, for copies.

        One without an end gets that of the service's time to live, from now on.
        """
        until = until_of(platform_time.get_time(), self._default_ttl_s)
        made = [
            (replace(memory, until=until) if memory.until is None else memory, content)
            for memory, content in memories
        ]
        await add_new(self._keeper, owner, made)

    async def close(self) -> None:
        """Close the connections of the storage; a later call opens them again."""
        await self._storage.close()
