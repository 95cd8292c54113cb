"""Decide which vectors follow a change of a user's memories: pure functions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gcp_adk_store.codec.memories import decode_memory
from gcp_adk_store.codec.memory_documents import NewPart, new_vectors, rows_in
from gcp_adk_store.memory.changes import Change
from gcp_adk_store.memory.contents import Snapshot
from gcp_adk_store.model.memories import DIGEST_BYTES, Part, Vectors, end_of, merged_with, row_key

FRESH_BYTES: Final = 64 * 1024
"""Bytes of rows that the head holds before they go into a document."""
PART_BYTES: Final = 900 * 1024
"""Bytes of rows in one document."""
_FULL_BYTES: Final = PART_BYTES * 9 // 10
"""Bytes of rows in a full document: the next rows go into another one."""
_REWRITTEN_BYTES: Final = 2 * 1024 * 1024
"""Bytes of documents that one commit writes again: the emulator takes 4 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """Vectors that a change may store."""

    embedder: str
    dimensions: int
    vectors: Mapping[str, bytes] = field(default_factory=dict)
    """A memory's text as it is stored -> one signed byte a dimension."""
    refused: Sequence[str] = ()
    """Texts that the embedder refuses."""


def parts_to_read(before: Snapshot | None, change: Change, embedded: Embedded | None) -> list[int]:
    """Return the numbers of the documents of vectors that :func:`following` needs and *before* lacks."""
    if before is None or change.head.epoch != before.head.epoch:
        return []
    vectors = change.head.vectors
    parts: Iterable[Part] = ()
    if change.embeds_again or _removes(before, change):
        parts = vectors.parts
    elif (size := _size(vectors.fresh) + _size(_rows_of(change, before, embedded))) > FRESH_BYTES:
        living = _living(vectors, before.head.read_time)
        parts = merged_with(living, size=size, full=_FULL_BYTES, most=_REWRITTEN_BYTES)
    return [part.number for part in parts if part.number not in before.vectors]


def following(before: Snapshot | None, change: Change, embedded: Embedded | None) -> Change:
    """Return *change* with its vectors: those of removed texts go, and *embedded* are added.

    Vectors of another embedder than the stored ones are not added. If more documents must be written again
    than one commit takes, the result changes vectors alone, and ``is_prior``: then *change* comes later.
    """
    head = change.head
    new = _rows_of(change, before, embedded)
    if not new and not head.vectors.embedder:
        return change
    if before is not None and _removes(before, change):
        kept = {row_key(text) for text in change.texts_after(before)}
        pruned, is_all = _pruned(before, head.vectors, kept, head.next_number)
        if not is_all:
            first = replace(
                before.head,
                revision=before.head.revision + 1,
                vectors=pruned.vectors,
                next_number=pruned.next_number,
                update_time="",
            )
            return Change(head=first, embedded=pruned.added, is_prior=True)
    else:
        pruned = _Next(vectors=head.vectors, next_number=head.next_number)
    if embedded is not None and new and not pruned.vectors.embedder:
        named = replace(pruned.vectors, embedder=embedded.embedder, dimensions=embedded.dimensions)
        pruned = replace(pruned, vectors=named)
    grown = replace(pruned, vectors=replace(pruned.vectors, fresh=(*pruned.vectors.fresh, *new)))
    if _size(grown.vectors.fresh) > FRESH_BYTES:
        grown = _sealed(before, change, grown)
    head = replace(head, vectors=grown.vectors, next_number=grown.next_number)
    return replace(change, head=head, embedded=grown.added)


def revectored(before: Snapshot, embedded: Embedded) -> Change | None:
    """Return the change that makes room for *embedded*: vectors of another embedder go.

    ``None`` if the user has no memories.
    """
    head, vectors = before.head, before.head.vectors
    if before.is_empty:
        return None
    if not vectors.is_of(embedded.embedder, embedded.dimensions):
        vectors = Vectors(embedder=embedded.embedder, dimensions=embedded.dimensions)
    after = replace(head, revision=head.revision + 1, vectors=vectors, update_time="")
    return Change(head=after, embeds_again=True)


def missing(snapshot: Snapshot, embedder: str, dimensions: int) -> list[str]:
    """Return the texts of *snapshot* without a vector of this embedder; all documents must be known."""
    vectors = snapshot.head.vectors
    if not vectors.is_of(embedder, dimensions):
        return list(snapshot.texts)
    rows = [row for body in snapshot.vectors.values() for row in rows_in(body, dimensions)]
    known = {row[:DIGEST_BYTES] for row in (*rows, *vectors.fresh)}
    return [text for text in snapshot.texts if row_key(text) not in known]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Next:
    vectors: Vectors
    next_number: int
    added: Sequence[NewPart] = ()


def _rows_of(change: Change, before: Snapshot | None, embedded: Embedded | None) -> list[bytes]:
    """Return the rows of *embedded* whose texts are there after *change*."""
    if embedded is None or not embedded.vectors:
        return []
    vectors = change.head.vectors
    if not vectors.is_of(embedded.embedder, embedded.dimensions):
        return []
    there = set(change.texts_after(before))
    known = {row[:DIGEST_BYTES] for row in vectors.fresh}
    if before is not None and change.embeds_again:
        bodies = (before.vectors.get(part.number, b"") for part in vectors.parts)
        known |= {row[:DIGEST_BYTES] for body in bodies for row in rows_in(body, vectors.dimensions)}
    rows = (row_key(text) + vector for text, vector in embedded.vectors.items() if text in there)
    return [row for row in rows if row[:DIGEST_BYTES] not in known]


def _removes(before: Snapshot, change: Change) -> bool:
    """Return whether *change* removes texts, or shards whose texts are not known, that may have vectors."""
    head = change.head
    if not head.vectors.count or head.epoch != before.head.epoch:
        return False
    listed = {shard.number for shard in head.shards}
    gone = [shard.number for shard in before.head.shards if shard.number not in listed]
    if any(number not in before.shards for number in gone):
        return True
    grows = head.tail[: len(before.head.tail)] == before.head.tail
    return not (grows and not gone) and not set(before.texts) <= set(change.texts_after(before))


def _pruned(before: Snapshot, vectors: Vectors, kept: set[bytes], number: int) -> tuple[_Next, bool]:
    """Return *vectors* without rows of other texts than *kept*, and whether that is all."""
    parts: list[Part] = []
    added: list[NewPart] = []
    is_all = True
    for part in vectors.parts:
        rows = rows_in(before.vectors[part.number], vectors.dimensions)
        left = [row for row in rows if row[:DIGEST_BYTES] in kept]
        if len(left) == part.count:
            parts.append(part)
        elif sum(new.part.size for new in added) > _REWRITTEN_BYTES:
            parts.append(part)
            is_all = False
        elif left:
            added.append(new_vectors(number, left, until=part.until))
            parts.append(added[-1].part)
            number += 1
    fresh = tuple(row for row in vectors.fresh if row[:DIGEST_BYTES] in kept)
    left_over = replace(vectors, fresh=fresh, parts=tuple(parts))
    return _Next(vectors=left_over, next_number=number, added=added), is_all


def _sealed(before: Snapshot | None, change: Change, grown: _Next) -> _Next:
    """Return *grown* with its fresh rows in documents, together with neighbours that are small."""
    vectors = grown.vectors
    now = 0.0 if before is None else before.head.read_time
    living = _living(vectors, now)
    merged = merged_with(living, size=_size(vectors.fresh), full=_FULL_BYTES, most=_REWRITTEN_BYTES)
    parts = living[: len(living) - len(merged)]
    bodies = {} if before is None else before.vectors
    written = {new.part.number: new.body for new in grown.added}
    texts = {row_key(text): text for text in change.texts_after(before)}
    rows: dict[bytes, bytes] = {}
    for part in merged:
        body = written.get(part.number, bodies.get(part.number, b""))
        rows.update((row[:DIGEST_BYTES], row) for row in rows_in(body, vectors.dimensions))
    rows.update((row[:DIGEST_BYTES], row) for row in vectors.fresh)
    lasting = [row for key, row in rows.items() if key in texts]
    number = grown.next_number
    kept = {part.number for part in parts}
    added = [new for new in grown.added if new.part.number in kept]
    room = max(1, PART_BYTES // (DIGEST_BYTES + vectors.dimensions))
    for first in range(0, len(lasting), room):
        some = lasting[first : first + room]
        until = end_of(decode_memory(texts[row[:DIGEST_BYTES]]) for row in some)
        added.append(new_vectors(number, some, until=until))
        parts.append(added[-1].part)
        number += 1
    return _Next(vectors=replace(vectors, fresh=(), parts=tuple(parts)), next_number=number, added=added)


def _living(vectors: Vectors, now: float) -> list[Part]:
    return [part for part in vectors.parts if not part.has_ended(now)]


def _size(rows: Iterable[bytes]) -> int:
    return sum(map(len, rows))
