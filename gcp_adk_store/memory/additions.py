"""Make memories of events and of entries, and add those that were never taken in."""

from collections.abc import Mapping, Sequence

from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid
from google.genai import types

from gcp_adk_store.codec.memories import text_in
from gcp_adk_store.codec.redactions import is_redacted
from gcp_adk_store.memory.entries import metadata_of, time_of, until_of
from gcp_adk_store.memory.keeper import MemoryKeeper
from gcp_adk_store.model.keys import UserKey
from gcp_adk_store.model.memories import Memory


def made_of_entries(
    memories: Sequence[MemoryEntry], shared: Mapping[str, object], *, default_ttl_s: float | None
) -> list[tuple[Memory, types.Content]]:
    """Return memories as a caller wrote them; those without metadata of their own have the *shared*."""
    now = platform_time.get_time()
    made = []
    for entry in memories:
        metadata, ttl_s = metadata_of({**shared, **entry.custom_metadata})
        memory = Memory(
            id=entry.id or platform_uuid.new_uuid(),
            time=now if entry.timestamp is None else time_of(entry.timestamp, default=now),
            author=entry.author,
            until=until_of(now, default_ttl_s if ttl_s is None else ttl_s),
            stamp=entry.timestamp,
            metadata=metadata,
        )
        made.append((memory, entry.content))
    return made


def made_of_events(
    events: Sequence[Event],
    session_id: str | None,
    custom_metadata: Mapping[str, object] | None,
    *,
    default_ttl_s: float | None,
) -> list[tuple[Memory, types.Content]]:
    """Return a memory for each event that has text."""
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
            until=until_of(event.timestamp, default_ttl_s if ttl_s is None else ttl_s),
            metadata=metadata,
        )
        made.append((memory, event.content))
    return made


async def add_new(keeper: MemoryKeeper, key: UserKey, made: Sequence[tuple[Memory, types.Content]]) -> None:
    """Add those of *made* whose ids were never taken in, and that have not ended."""
    if not made:
        return
    snapshot = await keeper.known(key)
    if snapshot is not None and all(memory.digest in snapshot.known for memory, _ in made):
        snapshot = await keeper.reader.read(key)  # another process may have removed all
    while True:
        known = frozenset() if snapshot is None else snapshot.known
        now = keeper.now()
        new = [
            await keeper.encode(memory, content)
            for memory, content in made
            if memory.digest not in known and not memory.has_ended(now)
        ]
        if not new:
            return
        await keeper.add(key, new)
        after = await keeper.known(key)
        if snapshot is None or (after is not None and after.head.epoch == snapshot.head.epoch):
            return
        snapshot = after  # another process removed all, also what this one knew to be there
