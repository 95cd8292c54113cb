"""Encode and read the documents of memories, with their vectors.

::

    {user document}/{prefix}_memories/head                  tail, and what shards there are
      .../{prefix}_memories/head/{prefix}_shards/{epoch}-{n}
      .../{prefix}_memories/head/{prefix}_vectors/{epoch}-{n}

docs/data-model.md lists every field.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from gcp_adk_store.codec.documents import UNCHANGED_FORMAT, Layout, ids_of
from gcp_adk_store.codec.encode import FieldValue
from gcp_adk_store.codec.packing import unpack
from gcp_adk_store.codec.stored import Count, DocumentFields, Epoch, read_fields, wrong
from gcp_adk_store.codec.writes import Delete, Document, FieldPath, Must, Write, kept_until
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.model.keys import UserKey
from gcp_adk_store.model.memories import (
    DIGEST_BYTES,
    FULL_BYTES,
    FULL_PACKED_BYTES,
    Memory,
    MemoryHead,
    Part,
    Vectors,
    digests_in,
    end_of,
)
from gcp_adk_store.model.payloads import PayloadOwner


class _Part(BaseModel):
    model_config = ConfigDict(strict=True)

    n: Count
    count: Count
    bytes: Count
    packed: Count = 0
    until: float | None = None

    @property
    def part(self) -> Part:
        return Part(number=self.n, count=self.count, size=self.bytes, packed=self.packed, until=self.until)


class _Shard(_Part):
    packed: Count


class _Rows(DocumentFields):
    body: bytes
    dimensions: Count


def new_vectors(number: int, rows: Sequence[bytes], *, until: float | None) -> "NewPart":
    """Return the document of *rows*, whose memories end at *until*."""
    body = b"".join(rows)
    return NewPart(part=Part(number=number, count=len(rows), size=len(body), until=until), body=body)


def rows_in(body: bytes, dimensions: int) -> list[bytes]:
    """Return the rows that lie one after the other in *body*."""
    size = DIGEST_BYTES + dimensions
    return [body[at : at + size] for at in range(0, len(body), size)]


def read_vectors(document: Document, *, dimensions: int) -> bytes:
    """Return the rows in a document of vectors, one after the other.

    Raises:
        StoredDataError: as :func:`read_memory_head`.
    """
    fields = read_fields(_Rows, document)
    if fields.dimensions != dimensions or len(fields.body) % (DIGEST_BYTES + dimensions):
        raise wrong(document.path, "body or dimensions")
    return fields.body


def of_part(part: Part) -> dict[str, FieldValue]:
    """Return how the head encodes *part*."""
    return {
        "n": part.number,
        "count": part.count,
        "bytes": part.size,
        **({"packed": part.packed} if part.packed else {}),
        **({} if part.until is None else {"until": part.until}),
    }


def time_after(end: float) -> datetime:
    """Return when Firestore may remove what ends at *end*, in Unix time."""
    return kept_until(end)


_MAX_UNPACKED: Final = 16 * FULL_BYTES
"""Of a shard: those of 0.1.0 grow by changes of their memories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardContent:
    """What a shard holds; it never changes."""

    texts: tuple[str, ...]
    ids: bytes
    """Digests of all ids that the shard, or those it was made of, took in, also of removed memories."""


_NOTHING: Final = ShardContent(texts=(), ids=b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPart:
    """A shard, or a document of vectors, to be written."""

    part: Part
    body: bytes
    content: ShardContent = _NOTHING
    """What a shard holds."""

    def write(self, path: str, **others: FieldValue) -> Write:
        """Return the write of its document, with fields of its kind."""
        end = self.part.until
        return Write(
            path=path,
            fields={
                "format": UNCHANGED_FORMAT,
                "body": self.body,
                **others,
                **({} if end is None else {"expire_at": time_after(end)}),
            },
            must=Must.BE_ABSENT,
        )


class _Head(DocumentFields):
    epoch: Epoch
    app: str
    user: str
    rev: Count
    tail: list[str]
    gone: bytes
    next: Count
    shards: list[_Shard]
    spilled: bool
    until: float | None = None
    ending: bool = False
    embedder: str = ""
    dimensions: Count = 0
    fresh: list[bytes] = Field(default_factory=list)
    vectors: list[_Part] = Field(default_factory=list)


class _Body(DocumentFields):
    body: bytes
    count: Count
    ids: bytes


class MemoryLayout:
    """Paths and writes of memories below one prefix."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._prefix = layout.prefix
        self.collection = f"{layout.prefix}_memories"
        """Id of the collection of a user's head."""

    def head(self, key: UserKey) -> str:
        """Path of the head of a user's memories."""
        return f"{self._layout.user(key)}/{self.collection}/head"

    def shard(self, head: str, epoch: str, number: int) -> str:
        """Path of a shard below the *head*."""
        return f"{head}/{self._prefix}_shards/{epoch}-{number}"

    def vectors(self, head: str, epoch: str, number: int) -> str:
        """Path of a document of vectors below the *head*."""
        return f"{head}/{self._prefix}_vectors/{epoch}-{number}"

    def owns(self, path: str) -> bool:
        """Return whether *path* is that of a head."""
        user, _, rest = path.rpartition(f"/{self.collection}/")
        return rest == "head" and self._layout.level_of(user) == 2  # noqa: PLR2004  # a user's document

    def payloads(self, head: str, life: str) -> PayloadOwner:
        """Owner of the payloads of one memory: they go with it."""
        return PayloadOwner(path=head, life=life)

    def put(
        self,
        key: UserKey,
        before: MemoryHead | None,
        after: MemoryHead,
        added: Sequence[NewPart],
        embedded: Sequence[NewPart] = (),
    ) -> list[Write | Delete]:
        """Return the writes that turn *before*, which they require, into *after* with the shards *added*.

        *embedded* are new documents of vectors. Documents that *after* does not name are removed.
        """
        path = self.head(key)
        writes: list[Write | Delete] = [self._head(key, before, after)]
        for shard in added:
            name = self.shard(path, after.epoch, shard.part.number)
            writes.append(shard.write(name, count=shard.part.count, ids=shard.content.ids))
        for rows in embedded:
            name = self.vectors(path, after.epoch, rows.part.number)
            writes.append(rows.write(name, dimensions=after.vectors.dimensions))
        if before is not None:
            is_same = before.epoch == after.epoch
            parts = {part.number for part in after.vectors.parts if is_same}
            shards = {part.number for part in after.shards if is_same}
            gone = [part for part in before.vectors.parts if part.number not in parts]
            writes += [Delete(path=self.vectors(path, before.epoch, part.number)) for part in gone]
            gone = [part for part in before.shards if part.number not in shards]
            writes += [Delete(path=self.shard(path, before.epoch, part.number)) for part in gone]
        return writes

    def remove(self, key: UserKey, head: MemoryHead) -> list[Write | Delete]:
        """Return the deletes of a head, which they require as it is, and of its shards and vectors."""
        path = self.head(key)
        shards = [Delete(path=self.shard(path, head.epoch, shard.number)) for shard in head.shards]
        parts = [Delete(path=self.vectors(path, head.epoch, part.number)) for part in head.vectors.parts]
        return [Delete(path=path, must=head.update_time), *shards, *parts]

    def _head(self, key: UserKey, before: MemoryHead | None, after: MemoryHead) -> Write:
        path = self.head(key)
        fields: dict[str, FieldValue] = {
            "format": UNCHANGED_FORMAT,
            "epoch": after.epoch,
            "app": key.app,
            "user": key.user,
            "rev": after.revision,
            "tail": list(after.tail),
            "gone": after.gone,
            "next": after.next_number,
            "shards": [of_part(shard) for shard in after.shards],
            "spilled": after.spilled,
            "until": after.until,
            "ending": after.is_ending,
        }
        if after.vectors.embedder:
            fields["embedder"] = after.vectors.embedder
            fields["dimensions"] = after.vectors.dimensions
            fields["fresh"] = list(after.vectors.fresh)
            fields["vectors"] = [of_part(part) for part in after.vectors.parts]
        if after.until is not None:
            fields["expire_at"] = time_after(after.until)
        if before is None:
            return Write(path=path, fields=fields, must=Must.BE_ABSENT, life=after.epoch)
        if not _only_grows(before, after):
            return Write(path=path, fields=fields, must=before.update_time, life=after.epoch)
        # What is there already is not sent again.
        mask: list[FieldPath] = [("rev",), ("until",), ("expire_at",)]
        tail = list(after.tail[len(before.tail) :])
        fresh = list(after.vectors.fresh[len(before.vectors.fresh) :])
        return Write(
            path=path,
            fields={name: fields[name] for (name,) in mask if name in fields},
            mask=mask,
            union={"tail": tail, **({"fresh": fresh} if fresh else {})},
            must=before.update_time,
            life=after.epoch,
        )


def _only_grows(before: MemoryHead, after: MemoryHead) -> bool:
    """Return whether *after* differs from *before* by a longer tail and further fresh vectors alone."""
    same: dict[str, Any] = {"tail": (), "revision": 0, "until": None, "update_time": "", "read_time": 0.0}
    old, new = before.vectors, after.vectors
    return (
        replace(before, **same, vectors=replace(old, fresh=()))
        == replace(after, **same, vectors=replace(new, fresh=()))
        and after.tail[: len(before.tail)] == before.tail
        and new.fresh[: len(old.fresh)] == old.fresh
    )


def new_shard(number: int, texts: Sequence[str], ids: bytes, memories: Sequence[Memory]) -> NewPart:
    """Return the shard of *texts*, which are those of *memories*, as it is written."""
    body = zlib.compress("\n".join(texts).encode())
    content = ShardContent(texts=tuple(texts), ids=ids)
    return NewPart(part=shard_of(number, content, len(body), memories), content=content, body=body)


def new_shards(number: int, texts: Sequence[str], ids: bytes, memories: Sequence[Memory]) -> list[NewPart]:
    """Return shards of *texts* as they are written, from *number* on: as many as documents can hold them.

    Each has the *ids* of its memories; all others are in the last one.
    """
    new = new_shard(number, texts, ids, memories)
    is_full = new.part.size > FULL_BYTES or new.part.packed > FULL_PACKED_BYTES
    if not is_full or len(texts) <= 1:
        return [new]
    half = len(texts) // 2
    own = b"".join(memory.digest for memory in memories[:half])
    first = new_shards(number, texts[:half], own, memories[:half])
    others = b"".join(sorted(digests_in(ids) - digests_in(own)))
    return [*first, *new_shards(number + len(first), texts[half:], others, memories[half:])]


def shard_of(number: int, content: ShardContent, packed: int, memories: Sequence[Memory]) -> Part:
    """Return what the head says of a shard with *memories*, whose body takes *packed* bytes."""
    texts, ids = content.texts, content.ids
    return Part(
        number=number,
        count=len(texts),
        size=sum(len(text.encode()) for text in texts),
        packed=packed + len(ids),
        # The ids of removed memories never end: they keep these from being added again.
        until=end_of(memories) if texts and len(ids) == len(texts) * DIGEST_BYTES else None,
    )


def read_memory_head(document: Document) -> MemoryHead:
    """Return the head in *document*, which says whose it is.

    Raises:
        StoredDataError: it has another format, lacks a field or is damaged.
    """
    fields = read_fields(_Head, document)
    if [fields.app, fields.user] != ids_of(document.path.rsplit("/", 2)[0]):
        raise wrong(document.path, "app or user")
    if len(fields.gone) % DIGEST_BYTES:
        raise wrong(document.path, "gone")
    if any(len(row) != DIGEST_BYTES + fields.dimensions for row in fields.fresh):
        raise wrong(document.path, "fresh")
    return MemoryHead(
        epoch=fields.epoch,
        revision=fields.rev,
        tail=tuple(fields.tail),
        gone=fields.gone,
        next_number=fields.next,
        shards=tuple(each.part for each in fields.shards),
        spilled=fields.spilled,
        until=fields.until,
        is_ending=fields.ending,
        vectors=Vectors(
            embedder=fields.embedder,
            dimensions=fields.dimensions,
            fresh=tuple(fields.fresh),
            parts=tuple(each.part for each in fields.vectors),
        ),
        update_time=document.update_time,
        read_time=document.read_time,
    )


def read_shard(document: Document) -> ShardContent:
    """Return what a shard holds.

    Raises:
        StoredDataError: as :func:`read_memory_head`.
    """
    fields = read_fields(_Body, document)
    try:
        lines = unpack(fields.body, limit=_MAX_UNPACKED).decode().split("\n")
    except ValueError as exc:
        raise StoredDataError(f"{document.path}: the body is damaged") from exc
    texts = tuple(f"{lines[at]}\n{lines[at + 1]}" for at in range(0, len(lines) - 1, 2))
    if len(texts) != fields.count or len(fields.ids) % DIGEST_BYTES:
        raise StoredDataError(f"{document.path} holds {len(texts)} memories, not {fields.count}")
    return ShardContent(texts=texts, ids=fields.ids)
