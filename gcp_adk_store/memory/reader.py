"""Read the documents of a user's memories, and their large contents; remove what cannot be read."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from google.genai import types

from gcp_adk_store.codec.decode import complete_event
from gcp_adk_store.codec.encode import WHOLE
from gcp_adk_store.codec.memories import EncodedMemory, decode_content, decode_memory
from gcp_adk_store.codec.memory_documents import MemoryLayout, read_memory_head, read_shard, read_vectors
from gcp_adk_store.codec.writes import Delete, Document
from gcp_adk_store.errors import PayloadMissingError, StoredDataError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.concurrency import Lru, gather, offload
from gcp_adk_store.kernel.ports import Documents
from gcp_adk_store.kernel.transact import CHANGED, Changed, commit_all, commit_once, read_whole
from gcp_adk_store.memory.contents import Contents, Snapshot
from gcp_adk_store.model.keys import UserKey
from gcp_adk_store.model.memories import MemoryHead, Part
from gcp_adk_store.sessions.read.payloads import pages
from gcp_adk_store.sessions.read.storage import SessionStorage

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 500
"""Documents of one page of a removal."""

T = TypeVar("T")

LOST: Final = "vectors are lost, `gcp-adk-store memory reindex` makes them anew"


class MemoryReader:
    """Reads as few documents as this process does not know."""

    def __init__(self, storage: SessionStorage, layout: MemoryLayout, *, cache_bytes: int) -> None:
        """Prepare; memories and indexes of users stay in memory up to *cache_bytes*."""
        self._documents = storage.documents
        self._payloads = storage.payloads
        self._layout = layout
        self._known = Lru[str, Contents](cache_bytes, size_of=lambda contents: contents.size)

    async def read(self, key: UserKey, *, vectors: bool = False) -> Snapshot | None:
        """Return the memories of a user as they are now.

        It takes 1 read, and 1 for each shard that is not known; with *vectors*, also 1 for each document of
        these.
        """
        path = self._layout.head(key)
        incomplete = ""

        async def look() -> Snapshot | Changed | None:
            nonlocal incomplete
            (document,) = await self._documents.get([path])
            if document is None:
                self.forget(key)
                return None
            head = read_memory_head(document)
            known = self._known.lookup(path)
            if known is not None and known.snapshot.head.update_time == head.update_time:
                if head.until is not None:
                    known.snapshot = replace(known.snapshot, head=head)  # it may have ended since
                if known.snapshot.has_vectors or not vectors:
                    telemetry.count_lookups("memories", hits=_sealed(head, vectors=vectors), misses=0)
                    return known.snapshot
            is_again = incomplete == head.update_time
            snapshot = await self._complete(path, head, known, vectors=vectors, without_lost=is_again)
            if snapshot is not None:
                self.remember(key, snapshot)
                return snapshot
            if is_again:
                raise StoredDataError(f"{path} names a shard that does not exist; restore it")
            incomplete = head.update_time
            return CHANGED  # another call replaced documents during the read

        return await read_whole(self._documents.deadline_s, look)

    async def whole(self, key: UserKey, look: Callable[[], Awaitable[T]]) -> T:
        """Return what *look* reads; it looks again if a payload is gone because memories changed meanwhile.

        Raises:
            PayloadMissingError: a payload is gone, and the memories are as they were.
        """
        seen = None

        async def watched() -> T | Changed:
            nonlocal seen
            try:
                return await look()
            except PayloadMissingError:
                snapshot = await self.read(key)
                found = "" if snapshot is None else snapshot.head.update_time
                if found == seen:
                    raise
                seen = found
            return CHANGED

        return await read_whole(self._documents.deadline_s, watched)

    async def with_parts(self, key: UserKey, snapshot: Snapshot, numbers: Sequence[int]) -> Snapshot | None:
        """Return *snapshot* with these documents of vectors; ``None`` if one was replaced since."""
        path = self._layout.head(key)
        parts = [part for part in snapshot.head.vectors.parts if part.number in numbers]
        found = await self._documents.get([self._of_part(path, snapshot.head, part) for part in parts])
        if not all(found):
            (now,) = await self._documents.get([path], fields=("rev",))
            if now is None or now.update_time != snapshot.head.update_time:
                return None
        added = await self._bodies(snapshot.head, parts, found)
        return replace(snapshot, vectors={**snapshot.vectors, **added})

    async def put_payloads(self, key: UserKey, encoded: Sequence[EncodedMemory]) -> None:
        """Store the payloads of memories, before what refers to them."""
        await gather(
            self._payloads.put(
                self._layout.payloads(self._layout.head(key), each.memory.life or ""),
                each.payloads,
                parts_at=None if each.memory.until is None else int(each.memory.until) + 1,
            )
            for each in encoded
            if each.payloads
        )

    async def content(self, key: UserKey, text: str) -> types.Content:
        """Return the content of the memory with this stored *text*.

        Raises:
            PayloadMissingError: a payload is gone.
        """
        stored = decode_content(text)
        path = self._layout.head(key)
        life = decode_memory(text).life
        while stored.missing:
            owner = self._layout.payloads(path, life or "")
            refs = sorted(set(stored.missing.values()), key=lambda ref: ref.sha256)
            data = await gather(self._payloads.get(owner, ref) for ref in refs)
            complete = partial(complete_event, stored, dict(zip(refs, data, strict=True)))
            stored = await offload(complete, light=WHOLE not in stored.missing)
        return stored.event.content or types.Content()

    async def remove_payloads(self, key: UserKey, texts: Sequence[str]) -> None:
        """Remove the payloads of memories with these stored *texts*, to which nothing refers any more."""
        path = self._layout.head(key)
        places = {
            (ref.place, life)
            for text in texts
            if (life := decode_memory(text).life) is not None
            for ref in decode_content(text).missing.values()
        }
        await gather(
            self._payloads.at(place).remove_all(self._layout.payloads(path, life))
            for place, life in sorted(places, key=lambda each: each[1])
        )

    def cached(self, key: UserKey) -> Contents | None:
        """Return what this process holds, perhaps out of date."""
        return self._known.lookup(self._layout.head(key))

    def remember(self, key: UserKey, snapshot: Snapshot) -> Contents:
        """Hold *snapshot*, with the index that follows it; return both."""
        path = self._layout.head(key)
        contents = self._known.lookup(path) or Contents(snapshot=snapshot)
        contents.snapshot = snapshot
        self._known.put(path, contents)
        return contents

    def grown(self, key: UserKey, contents: Contents) -> None:
        """Count the size of *contents* again, whose index has grown."""
        self._known.put(self._layout.head(key), contents)

    def forget(self, key: UserKey) -> None:
        """Hold nothing of a user."""
        path = self._layout.head(key)
        self._known.forget(lambda known: known == path)

    async def _complete(
        self, path: str, head: MemoryHead, known: Contents | None, *, vectors: bool, without_lost: bool
    ) -> Snapshot | None:
        """Return the snapshot of *head*; ``None`` if a document of it is gone.

        *without_lost*, documents of vectors may be gone: searches go on by words.
        """
        shards, bodies = {}, {}
        if known is not None and known.snapshot.head.epoch == head.epoch:
            shards, bodies = dict(known.snapshot.shards), dict(known.snapshot.vectors)
        wanted = [shard for shard in head.living if shard.number not in shards]
        parts = [part for part in head.vectors.parts if vectors and part.number not in bodies]
        paths = [self._layout.shard(path, head.epoch, shard.number) for shard in wanted]
        paths += [self._of_part(path, head, part) for part in parts]
        found: list[Document | None] = await self._documents.get(paths) if paths else []
        hits = _sealed(head, vectors=vectors) - len(paths)
        telemetry.count_lookups("memories", hits=hits, misses=len(paths))
        for shard, document in zip(wanted, found, strict=False):
            if document is None:
                return None
            shards[shard.number] = await offload(partial(read_shard, document), light=False)
        of_parts = found[len(wanted) :]
        if not without_lost and any(
            document is None and not part.has_ended(head.read_time)
            for part, document in zip(parts, of_parts, strict=True)
        ):
            return None
        bodies |= await self._bodies(head, parts, of_parts)
        listed = {shard.number for shard in head.shards}
        kept = {part.number for part in head.vectors.parts}
        return Snapshot(
            head=head,
            shards={n: content for n, content in shards.items() if n in listed},
            vectors={n: body for n, body in bodies.items() if n in kept},
        )

    async def _bodies(
        self, head: MemoryHead, parts: Sequence[Part], found: Sequence[Document | None]
    ) -> dict[int, bytes]:
        """Return the rows of *parts*; of those that are gone or damaged, none."""
        bodies: dict[int, bytes] = {}
        for part, document in zip(parts, found, strict=True):
            bodies[part.number] = b""
            if document is not None:
                try:
                    bodies[part.number] = read_vectors(document, dimensions=head.vectors.dimensions)
                except StoredDataError as exc:
                    telemetry.warn(logger, f"{LOST}; {exc}", exc)
            elif not part.has_ended(head.read_time):
                logger.warning("%s: the document %d of %s is gone", LOST, part.number, head.epoch)
        return bodies

    def _of_part(self, path: str, head: MemoryHead, part: Part) -> str:
        return self._layout.vectors(path, head.epoch, part.number)


async def remove_unread(documents: Documents, head: str) -> None:
    """Remove all documents below *head* without a look at their content; then *head*, unless it changed."""
    (found,) = await documents.get([head], fields=("format",))
    async for below, _ in pages(documents, "", parent=head, fields=("format",), limit=_AT_ONCE):
        await commit_all(documents, [Delete(path=each.path) for each in below])
    if found is not None:
        await commit_once(documents, [Delete(path=head, must=found.update_time)])


def _sealed(head: MemoryHead, *, vectors: bool) -> int:
    """Return how many documents *head* names."""
    return len(head.shards) + (len(head.vectors.parts) if vectors else 0)
