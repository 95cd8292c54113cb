"""Count the memories that have no vector, although others of the store have."""

import shlex
from typing import Any, Final

from gcp_adk_store.codec.documents import Layout, ids_of
from gcp_adk_store.codec.memory_documents import MemoryLayout
from gcp_adk_store.codec.writes import Document, Page
from gcp_adk_store.doctor.findings import Finding, MemoryCounts, ok, skipped, warn
from gcp_adk_store.errors import StoredDataError, StoreError
from gcp_adk_store.kernel.ports import Reads

_USERS: Final = 100
"""Users whose memories are looked at: the head of each may have 128 KiB."""
_FIELDS: Final = ("tail", "shards", "fresh", "vectors", "embedder", "ending")
_SHOWN: Final = 3
_USER_IDS: Final = 4
"""Parts of a path that name a user: two collections and two ids."""


async def count_memories(documents: Reads, prefix: str) -> MemoryCounts:
    """Return the counts of at most 100 users; 1 query."""
    page = Page(field=None, descending=False, limit=_USERS, after=None)
    collection = MemoryLayout(Layout(prefix)).collection
    try:
        heads = await documents.query("", collection, fields=_FIELDS, all_descendants=True, page=page)
    except StoreError as exc:
        return MemoryCounts(failure=str(exc))
    counts = [(head, *_counted(head)) for head in heads if head.fields.get("ending") is not True]
    lacking = [
        (_owner_of(head), memories - vectors) for head, memories, vectors in counts if memories > vectors
    ]
    return MemoryCounts(
        users=len(counts),
        memories=sum(memories for _, memories, _ in counts),
        vectors=sum(vectors for _, _, vectors in counts),
        without=sum(missing for _, missing in lacking),
        lacking=[owner for owner, _ in lacking if owner is not None][:_SHOWN],
    )


def vectors(counts: MemoryCounts, at: str) -> Finding:
    """Check that memories have vectors; *at* are the options that name the store."""
    if counts.failure:
        return skipped(f"memories could not be read: {counts.failure}")
    looked_at = f"{counts.memories:,} memories of {_people(counts.users)}"
    if not counts.vectors:
        return ok(f"{looked_at} have no vectors: the store has no embedder, or it never answered")
    if not counts.without:
        return ok(f"{looked_at} have vectors, as far as they have words")
    return warn(
        f"{counts.without:,} of {looked_at} have no vector, so words alone rank them, if they have any",
        *(
            f"gcp-adk-store memory reindex {at} --app={shlex.quote(app)} --user={shlex.quote(user)}"
            for app, user in counts.lacking
        ),
    )


def _people(users: int) -> str:
    return f"the first {users} users" if users == _USERS else f"{users} users"


def _counted(head: Document) -> tuple[int, int]:
    """Return how many memories and how many vectors a head says that a user has."""
    fields = head.fields
    return (
        _length(fields.get("tail")) + _sum(fields.get("shards")),
        _length(fields.get("fresh")) + _sum(fields.get("vectors")),
    )


def _length(found: Any) -> int:
    return len(found) if isinstance(found, list) else 0


def _sum(parts: Any) -> int:
    counts = (
        [part.get("count") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    )
    return sum(count for count in counts if isinstance(count, int))


def _owner_of(head: Document) -> tuple[str, str] | None:
    try:
        app, user = ids_of("/".join(head.path.split("/")[:_USER_IDS]))
    except StoredDataError:
        return None
    return app, user
