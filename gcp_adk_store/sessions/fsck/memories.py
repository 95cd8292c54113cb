"""Decide what is wrong with the documents of one user's memories."""

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime

from gcp_adk_store.codec.encode import FieldValue
from gcp_adk_store.codec.memories import decode_memory
from gcp_adk_store.codec.memory_documents import (
    of_part,
    read_memory_head,
    read_shard,
    read_vectors,
    rows_in,
    shard_of,
    time_after,
)
from gcp_adk_store.codec.writes import Document, update
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.model.memories import (
    DIGEST_BYTES,
    Memory,
    MemoryHead,
    Part,
    digests_in,
    end_of_all,
    last_end,
    row_key,
)
from gcp_adk_store.sessions.fsck.faults import Fault


@dataclass(slots=True)
class MemoryCheck:
    """What a look at the head of a user's memories, its shards and its vectors has found so far."""

    document: Document
    head: MemoryHead
    faults: list[Fault] = field(default_factory=list)
    texts: list[tuple[str, Memory, str]] = field(default_factory=list)
    """Path of the document, the memory and its text."""
    _shards: list[Part] = field(default_factory=list)
    _parts: list[Part] = field(default_factory=list)
    _rows: dict[int, tuple[Document, AbstractSet[bytes]]] = field(default_factory=dict)
    """Number of a document of vectors -> the document, and what stands there for the texts of memories."""
    _is_whole: bool = True
    """Whether the documents prove what the head has to say of them."""

    @classmethod
    def of(cls, document: Document) -> "MemoryCheck | Fault":
        """Return the check of the head in *document*, with the memories of its tail."""
        try:
            check = cls(document, read_memory_head(document))
            check._take(document.path, check.head.tail)
        except StoredDataError as exc:
            return Fault(code="FSCK601", path=document.path, says=str(exc))
        return check

    def take_shard(self, shard: Part, path: str, document: Document | None) -> None:
        """Check the *document* of a shard."""
        if document is None:
            self._missing(f"shard {shard.number}", path, shard.until)
            self._shards.append(shard)
            return
        try:
            content = read_shard(document)
            memories = self._take(path, content.texts)
        except StoredDataError as exc:
            self._damaged(path, exc)
            return
        body = document.fields.get("body")
        packed = len(body) if isinstance(body, bytes) else 0
        self._shards.append(shard_of(shard.number, content, packed, memories))
        self._expires(document, self._shards[-1].until)
        unknown = {memory.digest for memory in memories} - digests_in(content.ids)
        if unknown:
            self._is_whole = False  # ids show when the shard ends
            says = f"lacks {len(unknown)} of the {len(memories)} memories, which could be added again"
            self._add("FSCK607", "ids", says, path=path)

    def take_vectors(self, part: Part, path: str, document: Document | None) -> None:
        """Check the *document* of vectors."""
        if document is None:
            self._missing(f"vectors {part.number}", path, part.until)
            self._parts.append(part)
            return
        dimensions = self.head.vectors.dimensions
        try:
            body = read_vectors(document, dimensions=dimensions)
        except StoredDataError as exc:
            self._damaged(path, exc)
            return
        rows = rows_in(body, dimensions)
        self._rows[part.number] = document, {row[:DIGEST_BYTES] for row in rows}
        self._parts.append(replace(part, count=len(rows), size=len(body)))

    def end(self) -> list[Fault]:
        """Return all faults, once each document was taken."""
        head = self.head
        again = [
            name for name, count in Counter(memory.id for _, memory, _ in self.texts).items() if count > 1
        ]
        if again:
            self._add("FSCK607", "id", f"{len(again)} memories are there more than once")
        numbers = [*(each.number for each in head.shards), *(each.number for each in head.vectors.parts)]
        number = max(numbers, default=-1)
        if head.next_number <= number:
            says = f"is {head.next_number}, and number {number} is used"
            self._add("FSCK606", "next", says, {"next": number + 1})
        if not head.spilled and any(memory.life is not None for _, memory, _ in self.texts):
            self._add("FSCK606", "spilled", "is false, and a memory has payloads", {"spilled": True})
        if not self._is_whole:
            return self.faults
        self._parts = [self._lasting(part) for part in self._parts]
        shards = [of_part(each) for each in self._shards]
        for was, now in zip(head.shards, self._shards, strict=True):
            self._counts(f"shard {was.number}", was, now, "memories", {"shards": shards})
        parts = [of_part(each) for each in self._parts]
        for old, new in zip(head.vectors.parts, self._parts, strict=True):
            self._counts(f"vectors {old.number}", old, new, "rows", {"vectors": parts})
        tail = [memory for path, memory, _ in self.texts if path == self.document.path]
        until = end_of_all(tail, self._shards, head.gone)
        if until != head.until:
            says = f"is {head.until}, the memories say {until}"
            fields = {"until": until, **({} if until is None else {"expire_at": time_after(until)})}
            self._add("FSCK605", "until", says, fields, without=() if until is not None else ("expire_at",))
        else:
            self._expires(self.document, until)
        return self.faults

    def _counts(self, item: str, was: Part, now: Part, what: str, fields: Mapping[str, FieldValue]) -> None:
        """Check what the head says of one document of shards or vectors."""
        if was != now:
            says = (
                f"has {was.count} {what} of {was.size} bytes until {was.until}; they are {now.count} of "
                f"{now.size} until {now.until}"
            )
            self._add("FSCK604", item, says, fields)

    def _lasting(self, part: Part) -> Part:
        """Return *part* as its document says; it lasts at least as long as the memories that are known."""
        if part.number not in self._rows:
            return part
        document, rows = self._rows[part.number]
        ends = [memory.until for _, memory, text in self.texts if row_key(text) in rows]
        until = last_end([part.until, *ends])
        self._expires(document, until)
        return replace(part, until=until)

    def _expires(self, document: Document, until: float | None) -> None:
        """Check when Firestore may remove *document*, whose memories end at *until*."""
        expected = None if until is None else time_after(until)
        found = document.fields.get("expire_at")
        if found == expected:
            return
        says = f"is {found if isinstance(found, datetime) else 'not a time'}, its memories say {expected}"
        fields: dict[str, FieldValue] = {} if expected is None else {"expire_at": expected}
        without = ("expire_at",) if expected is None else ()
        repair = update(document.path, fields, must=document.update_time, without=without)
        self.faults.append(
            Fault(code="FSCK608", path=document.path, item="expire_at", says=says, repair=(repair,))
        )

    def _take(self, path: str, texts: Sequence[str]) -> list[Memory]:
        memories = [decode_memory(text) for text in texts]
        self.texts += [(path, memory, text) for memory, text in zip(memories, texts, strict=True)]
        return memories

    def _missing(self, item: str, path: str, until: float | None) -> None:
        if until is None or until > self.head.read_time:  # otherwise Firestore may have removed it
            self._add("FSCK602", item, f"{path} is missing")

    def _damaged(self, path: str, exc: StoredDataError) -> None:
        self._is_whole = False
        self._add("FSCK603", "", str(exc), path=path)

    def _add(
        self,
        code: str,
        item: str,
        says: str,
        fields: Mapping[str, FieldValue] | None = None,
        *,
        path: str = "",
        without: Sequence[str] = (),
    ) -> None:
        head = self.document
        repair = (
            () if fields is None else (update(head.path, fields, must=head.update_time, without=without),)
        )
        self.faults.append(Fault(code=code, path=path or head.path, item=item, says=says, repair=repair))
