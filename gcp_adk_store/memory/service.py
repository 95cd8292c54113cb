"""Keep memories of users in Firestore, as ADK's memory service."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from google.adk.events import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions import Session
from google.genai import types

from gcp_adk_store import settings
from gcp_adk_store.codec.memories import decode_memory, has_id, text_in
from gcp_adk_store.codec.redactions import is_redacted
from gcp_adk_store.memory.embedding import Embedding
from gcp_adk_store.memory.entries import metadata_of, time_of, until_of
from gcp_adk_store.memory.keeper import MemoryKeeper
from gcp_adk_store.memory.reindexing import ReindexMethods
from gcp_adk_store.memory.searches import SearchMethods
from gcp_adk_store.model.keys import UserKey
from gcp_adk_store.model.memories import Memory, MemoryFilter, digest_of
from gcp_adk_store.operations import telemetry
from gcp_adk_store.operations.bounds import Bounds, operation
from gcp_adk_store.operations.closing import Closing
from gcp_adk_store.operations.forks import OfOneProcess
from gcp_adk_store.operations.kinds import checks_kinds
from gcp_adk_store.operations.limiter import Limiter
from gcp_adk_store.ports.embedders import Embedder
from gcp_adk_store.sessions.storage import SessionStorage
from gcp_adk_store.settings import MemoryLimits

_LONGEST_WAIT_S: Final = 30.0


@checks_kinds
class FirestoreMemoryService(SearchMethods, ReindexMethods, OfOneProcess, Closing, BaseMemoryService):
    """ADK's memory service on Firestore, for any number of processes, threads and event loops.

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
            default_ttl_seconds: Seconds after its time at which a memory ends; ``None`` keeps memories.
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
        self.bounds = Bounds(
            FirestoreMemoryService,
            system=telemetry.FIRESTORE,
            deadlines_s=self._limits.deadlines_s,
            limiter=Limiter(
                max_waiting=self._limits.max_waiting,
                longest_wait_s=_LONGEST_WAIT_S,
                at_once=self._limits.max_in_flight,
            ),
            names_ids=settings.names_ids,
        )

    @property
    def storage(self) -> SessionStorage:
        """Where it stores memories."""
        return self._storage

    @operation
    async def add_session_to_memory(self, session: Session) -> None:
        """Remember the events of *session* that have text; it may be added after every turn.

        Events that were added before are not added again. 1 commit for new events; 1 read if there are none.

        Raises:
            InvalidInputError: an event cannot be stored.
            OutcomeUnknownError: not answered; calling again is safe.
        """
        key = UserKey(app=session.app_name, user=session.user_id)
        await self._add_events(key, session.events, session.id, None)

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
            InvalidInputError, OutcomeUnknownError: as :meth:`add_session_to_memory`.
        """
        await self._add_events(UserKey(app=app_name, user=user_id), events, session_id, custom_metadata)

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
                was deleted since, is not added. Without a timestamp it has the time of the call.
            custom_metadata: As for :meth:`add_events_to_memory`; a memory's own values take precedence.

        Raises:
            InvalidInputError, OutcomeUnknownError: as :meth:`add_session_to_memory`.
        """
        key = UserKey(app=app_name, user=user_id)
        await self._add(key, self._entries(memories, custom_metadata or {}))

    @operation
    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return the memories that fit *query* best, the best first; as :meth:`search_memories`.

        At most ``MemoryLimits.max_results``. The metadata of each tells its score as ``adk_store_score``,
        its session, if it has one, as ``adk_store_session``, and as ``adk_store_vectors`` whether words alone
        ranked memories although the store has an embedder.
        """
        key = UserKey(app=app_name, user=user_id)
        found = await self._search(key, query, self._limits.max_results, 0.0, MemoryFilter())
        return SearchMemoryResponse(memories=[each.memory for each in found])

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
        await self._keeper.rewrite(
            UserKey(app=app_name, user=user_id), lambda text: None if has_id(text, memory_id) else text
        )

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
        wanted = session_id.strip()
        await self._keeper.rewrite(
            UserKey(app=app_name, user=user_id),
            lambda text: None if decode_memory(text).session == wanted else text,
        )

    @operation
    async def delete_user_memory(self, *, app_name: str, user_id: str) -> None:
        """Remove all memories of a user for good; after the first commit, no search finds them.

        Nothing stays, so adding a session later starts anew.

        Raises:
            OutcomeUnknownError: not answered, or large content may be left; calling again is safe.
        """
        await self._keeper.remove_all(UserKey(app=app_name, user=user_id))

    @operation
    async def select_new_events(self, *, app_name: str, user_id: str, events: Sequence[Event]) -> list[Event]:
        """Return those of *events* that were never taken in, as memories or by :meth:`add_extracted`.

        1 read if this process does not know the user's memories.
        """
        snapshot = await self._keeper.known(UserKey(app=app_name, user=user_id))
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
            InvalidInputError: a memory cannot be stored, or all of them do not fit a document.
            OutcomeUnknownError: not answered; calling again is safe.
        """
        made = [
            await self._keeper.encode(replace(memory, session=session_id.strip()), content)
            for memory, content in self._entries(memories, {})
        ]
        sources = [digest_of(event.id) for event in events]
        return await self._keeper.add(UserKey(app=app_name, user=user_id), made, sources=sources)

    async def close(self) -> None:
        """Close the connections of the storage; a later call opens them again."""
        await self._storage.close()

    def _entries(
        self, memories: Sequence[MemoryEntry], shared: Mapping[str, object]
    ) -> list[tuple[Memory, types.Content]]:
        now = platform_time.get_time()
        made = []
        for entry in memories:
            metadata, ttl_s = metadata_of({**shared, **entry.custom_metadata})
            memory = Memory(
                id=entry.id or platform_uuid.new_uuid(),
                time=now if entry.timestamp is None else time_of(entry.timestamp, default=now),
                author=entry.author,
                until=until_of(now, self._default_ttl_s if ttl_s is None else ttl_s),
                stamp=entry.timestamp,
                metadata=metadata,
            )
            made.append((memory, entry.content))
        return made

    async def _add_events(
        self,
        key: UserKey,
        events: Sequence[Event],
        session_id: str | None,
        custom_metadata: Mapping[str, object] | None,
    ) -> None:
        metadata, ttl_s = metadata_of(custom_metadata or {})
        session = None if session_id is None else session_id.strip()
        made = []
        for event in events:
            if event.content is None or event.partial or is_redacted(event):
                continue
            if not text_in(event.content).strip():
                continue
            memory = Memory(
                id=event.id,
                time=event.timestamp,
                session=session,
                author=event.author,
                until=until_of(event.timestamp, self._default_ttl_s if ttl_s is None else ttl_s),
                metadata=metadata,
            )
            made.append((memory, event.content))
        await self._add(key, made)

    async def _add(self, key: UserKey, made: Sequence[tuple[Memory, types.Content]]) -> None:
        if not made:
            return
        snapshot = await self._keeper.known(key)
        if snapshot is not None and all(memory.digest in snapshot.known for memory, _ in made):
            snapshot = await self._keeper.reader.read(key)  # another process may have removed all
        while True:
            known = frozenset() if snapshot is None else snapshot.known
            now = self._keeper.now()
            new = [
                await self._keeper.encode(memory, content)
                for memory, content in made
                if memory.digest not in known and not memory.has_ended(now)
            ]
            if not new:
                return
            await self._keeper.add(key, new)
            after = await self._keeper.known(key)
            if snapshot is None or (after is not None and after.head.epoch == snapshot.head.epoch):
                return
            snapshot = after  # another process removed all, also what this one knew to be there
