"""Read and change the memories of users below one prefix of a database."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from google.adk.platform import uuid as platform_uuid
from google.genai import types

from gcp_adk_store.codec.memories import EncodedMemory, decode_memory, encode_memory, has_id
from gcp_adk_store.codec.memory_documents import MemoryLayout
from gcp_adk_store.codec.writes import Delete, Write, Written
from gcp_adk_store.errors import InvalidInputError, OutcomeUnknownError, StoreError
from gcp_adk_store.memory.changes import Change, Rewrite, rewriting, taking_in
from gcp_adk_store.memory.contents import Contents, Hit, Snapshot
from gcp_adk_store.memory.embedding import Embedding, lack
from gcp_adk_store.memory.payloads import MemoryPayloads
from gcp_adk_store.memory.reader import MemoryReader
from gcp_adk_store.memory.vectors import Embedded, following, parts_to_read, revectored
from gcp_adk_store.model.keys import UserKey
from gcp_adk_store.model.memories import Memory, MemoryFilter, in_batches
from gcp_adk_store.operations.pauses import apart
from gcp_adk_store.operations.rereads import Rereads
from gcp_adk_store.ports.refusals import RefusedError, settling
from gcp_adk_store.sessions.storage import SessionStorage

_BATCH_BYTES: Final = 256 * 1024
"""UTF-8 bytes of memories that one commit takes in."""
_MAX_BATCH: Final = 10_000
"""Memories that one commit takes in."""

Decide = Callable[[Snapshot | None], Change | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What a change replaced."""

    before: Sequence[str]
    """The texts of all memories before."""
    after: Snapshot
    is_all: bool


class MemoryKeeper:
    """The memories of users, read with as few documents as this process does not know."""

    def __init__(
        self,
        storage: SessionStorage,
        *,
        cache_bytes: int,
        at_most: int,
        embedding: Embedding | None = None,
    ) -> None:
        """Prepare; memories and indexes of users stay in memory up to *cache_bytes*.

        A user has *at_most* so many memories. *embedding* makes their vectors.
        """
        self._at_most = at_most
        self._embedding = embedding
        self._documents = storage.documents
        self._layout = MemoryLayout(storage.layout)
        self.payloads = MemoryPayloads(storage.payloads, self._layout)
        """What is too large for the documents."""
        self.reader = MemoryReader(storage, self._layout, cache_bytes=cache_bytes)
        """What this process knows."""

    @property
    def rows_at_once(self) -> int:
        """Memories with vectors that one commit takes."""
        return _MAX_BATCH if self._embedding is None else self._embedding.rows_at_once

    async def encode(self, memory: Memory, content: types.Content) -> EncodedMemory:
        """Return *memory* with its *content* as it is stored; its payloads get a life of their own."""
        life = platform_uuid.new_uuid().replace("-", "")
        place = self.payloads.place
        return await apart(lambda: encode_memory(memory, content, place=place, life=life), light=True)

    def now(self) -> float:
        """Return the time of the database, as Unix time in seconds."""
        return self._documents.clock.now()

    async def search(
        self, key: UserKey, query: str, *, limit: int, accepts: MemoryFilter, min_score: float
    ) -> tuple[Sequence[Hit], str]:
        """Return the best memories for *query*, the best first, and why words alone ranked some, if so.

        It reads as :meth:`MemoryReader.read`, with an embedder also each document of vectors that is not
        known.
        """
        embedding = self._embedding
        snapshot = await self.reader.read(key, vectors=embedding is not None)
        if snapshot is None or snapshot.is_empty:
            return [], ""
        is_made = embedding is not None and embedding.made(snapshot.head.vectors)
        direction = await embedding.query(query) if embedding is not None and is_made else None
        contents = self.reader.known(key) or Contents(snapshot=snapshot)
        look = partial(
            contents.search,
            snapshot,
            query,
            limit=limit,
            accepts=accepts,
            min_score=min_score,
            now=self.now(),
            direction=direction,
        )
        found = await apart(look, light=contents.is_light)
        self.reader.grown(key, contents)
        if embedding is None:
            return found.hits, ""
        return found.hits, lack(found.without_vector, is_made=is_made, has_query=direction is not None)

    async def add(
        self, key: UserKey, encoded: Sequence[EncodedMemory], *, sources: Sequence[bytes] = ()
    ) -> bool:
        """Store memories that were never taken in; 1 commit for each 256 KiB, and 1 read if unknown.

        With *sources*, digests of ids that count as taken in from then on, it is 1 commit for all, and
        nothing is stored if one of these was taken in before. Return whether anything was stored.

        Raises:
            OutcomeUnknownError: a part may be stored; calling again is safe.
        """
        await self.payloads.put(key, encoded)
        by_text = {each.text: each for each in encoded}
        texts = [each.text for each in encoded]
        most = self.rows_at_once
        batches = [texts] if sources else in_batches(texts, size=_BATCH_BYTES, most=most)
        is_stored = False
        for number, batch in enumerate(batches):
            epoch = platform_uuid.new_uuid().replace("-", "")
            new = [by_text[text] for text in batch]
            with _begun(number > 0):
                changed = await self._change(
                    key,
                    partial(taking_in, encoded=new, epoch=epoch, at_most=self._at_most, sources=sources),
                    await self._embedded(batch[:most]),
                )
            is_stored = is_stored or changed is not None
        return is_stored

    async def update(
        self,
        key: UserKey,
        memory_id: str,
        changed: Callable[[Memory], Memory],
        content: types.Content | None,
    ) -> bool:
        """Put what *changed* makes of a memory, with *content*, in its place; return whether there is one.

        Without *content*, the memory keeps its own. It is made of what is stored: anew if another call
        changes the memory before the commit.
        """
        rereads = Rereads(self._documents.deadline_s)

        async def made() -> tuple[str, EncodedMemory] | None:
            old = await self.text_of(key, memory_id)
            if old is None:
                return None
            kept = await self.payloads.content(key, old) if content is None else content
            return old, await self.encode(changed(decode_memory(old)), kept)

        while (found := await self.reader.whole(key, made)) is not None:
            if await self._replace(key, *found):
                return True
            await rereads.again()
        return False

    async def _replace(self, key: UserKey, old: str, new: EncodedMemory) -> bool:
        """Store *new* in the place of the memory with the text *old*; return whether it is stored."""
        await self.payloads.put(key, [new])
        is_stored = False

        def replaced(text: str) -> str:
            nonlocal is_stored
            is_stored = is_stored or text == new.text  # by an earlier attempt, whose answer was lost
            return new.text if text == old else text

        embedded = await self._embedded([new.text])
        if old in await self.rewrite(key, replaced, embedded) or is_stored:
            return True
        await self.payloads.remove(key, [new.text])  # the head has changed: no attempt can be stored any more
        return False

    async def text_of(self, key: UserKey, memory_id: str) -> str | None:
        """Return the stored text of a memory; ``None`` if there is none, or it has ended."""
        snapshot = await self.reader.read(key)
        now = self.now()
        for text in () if snapshot is None else snapshot.texts:
            if has_id(text, memory_id) and not decode_memory(text).has_ended(now):
                return text
        return None

    async def known(self, key: UserKey) -> Snapshot | None:
        """Return memories as this process last saw them, perhaps out of date; they are read if unknown."""
        known = self.reader.known(key)
        return await self.reader.read(key) if known is None else known.snapshot

    async def rewrite(self, key: UserKey, rewrite: Rewrite, embedded: Embedded | None = None) -> list[str]:
        """Change each memory as *rewrite* says; return the texts that were replaced or removed.

        Payloads of these go, too. If all memories have ended, everything goes.

        Raises:
            OutcomeUnknownError: some may be changed; calling again is safe.
        """
        replaced: list[str] = []
        is_all = False
        while not is_all:
            with _begun(bool(replaced)):
                changed = await self._change(
                    key, lambda before: None if before is None else rewriting(before, rewrite), embedded
                )
            if changed is None:
                break
            kept = set(changed.after.texts)
            replaced += [text for text in changed.before if text not in kept]
            is_all = changed.is_all
        with _begun(bool(replaced)):
            await self.payloads.remove(key, replaced)
            known = self.reader.known(key)
            if known is not None and known.snapshot.head.has_ended():
                await self._remove(key, known.snapshot)
        return replaced

    async def remove_all(self, key: UserKey) -> None:
        """Remove all memories of a user, and the ids of removed ones; harmless when repeated.

        Raises:
            OutcomeUnknownError: some may be left; calling again is safe.
        """

        def end(before: Snapshot | None) -> Change | None:
            if before is None or before.head.is_ending:
                return None
            return Change(head=replace(before.head, is_ending=True, revision=before.head.revision + 1))

        rereads = Rereads(self._documents.deadline_s)
        refused = RefusedError()
        begun = False
        while True:
            with _begun(begun), settling(refused):
                snapshot = await self.reader.read(key)
            if snapshot is None:
                return
            begun = begun or snapshot.head.is_ending
            try:
                with _begun(begun), settling(refused):
                    if snapshot.head.spilled and not begun:
                        await self._change(key, end)
                        begun = True
                    elif begun:
                        await self._finish(key)
                    else:
                        await self._commit(self._layout.remove(key, snapshot.head))
            except RefusedError as exc:
                refused = exc.after(refused)
            self.reader.forget(key)
            with _begun(begun), settling(refused):
                await rereads.again(refused)

    async def missing(self, key: UserKey) -> tuple[Snapshot, list[str]] | None:
        """Return a user's memories, and the texts that lack a vector; it reads all documents."""
        if self._embedding is None:
            raise InvalidInputError("no embedder makes vectors; pass embedder= to the store")
        snapshot = await self.reader.read(key, vectors=True)
        if snapshot is None or snapshot.is_empty:
            return None
        missing = partial(self._embedding.missing, snapshot)
        return snapshot, await apart(missing, light=not snapshot.head.shards)

    async def embed(self, key: UserKey, texts: Sequence[str]) -> None:
        """Store vectors of memories with these stored *texts*, in 1 commit; those of another embedder go.

        Raises:
            EmbedderError: the embedder failed, or its answer has another size or is not finite.
        """
        if self._embedding is not None:
            embedded = await self._embedding.stored(texts)
            await self._change(
                key, lambda before: None if before is None else revectored(before, embedded), embedded
            )

    async def _embedded(self, texts: Sequence[str]) -> Embedded | None:
        return None if self._embedding is None else await self._embedding.stored_if_able(texts)

    async def _change(self, key: UserKey, decide: Decide, embedded: Embedded | None = None) -> Changed | None:
        """Commit what *decide* makes of the memories; ``None`` if that is nothing.

        It starts from what this process knows. A decision to do nothing stands on a read. Vectors of removed
        memories go in the same commit, or in commits before; *embedded* are stored with their memories.
        """
        held = self.reader.known(key)
        before = None if held is None else held.snapshot
        is_read = begun = False
        refused = RefusedError()
        rereads = Rereads(self._documents.deadline_s)
        while True:
            change = None
            is_ending = before is not None and before.head.is_ending
            with _begun(begun), settling(refused):
                if is_ending:
                    await self._finish(key)
                    await rereads.again(refused)
                elif before is not None or is_read:
                    known = before
                    change, before = await self._decided(key, decide, before, embedded)
                    if before is not known and before is None:
                        is_read = False  # another call replaced what the change needs
                        await rereads.again(refused)
            if change is None:
                if is_read and not is_ending:
                    return None
                with _begun(begun), settling(refused):
                    before, is_read = await self.reader.read(key), True
                continue
            old = None if before is None else before.head
            writes = self._layout.put(key, old, change.head, change.added, change.embedded)
            try:
                with _begun(begun), settling(refused):
                    written = await self._commit(writes)
            except RefusedError as exc:
                refused = exc.after(refused)
                with _begun(begun), settling(refused):
                    await rereads.again(refused)
                    before, is_read = await self.reader.read(key), True
                continue
            head = replace(change.head, update_time=written[0].update_time)
            after = Snapshot(
                head=head, shards=change.shards_after(before), vectors=change.vectors_after(before)
            )
            self.reader.remember(key, after)
            if not change.is_prior:
                return Changed(before=before.texts if before else (), after=after, is_all=change.is_all)
            before, begun = after, True

    async def _decided(
        self, key: UserKey, decide: Decide, before: Snapshot | None, embedded: Embedded | None
    ) -> tuple[Change | None, Snapshot | None]:
        """Return the change, and *before* with the vectors that it needs; nothing if they were replaced."""
        light = before is None or not before.head.shards
        change = await apart(lambda: decide(before), light=light)
        if change is None:
            return None, before
        if before is not None and (numbers := parts_to_read(before, change, embedded)):
            before = await self.reader.with_parts(key, before, numbers)
            if before is None:
                return None, None
        return await apart(partial(following, before, change, embedded), light=light), before

    async def _commit(self, writes: Sequence[Write | Delete]) -> list[Written]:
        return await self._documents.commit(writes, repeatable_when_unanswered=True)

    async def _finish(self, key: UserKey) -> None:
        """Remove what is left of memories that are being removed."""
        snapshot = await self.reader.read(key)
        if snapshot is not None and snapshot.head.is_ending:
            await self._remove(key, snapshot)

    async def _remove(self, key: UserKey, snapshot: Snapshot) -> None:
        """Remove memories that no one reads any more, with their payloads, unless they have changed."""
        self.reader.forget(key)
        sealed = [text for content in snapshot.shards.values() for text in content.texts]
        await self.payloads.remove(key, [*sealed, *snapshot.head.tail])
        try:
            await self._commit(self._layout.remove(key, snapshot.head))
        except RefusedError:
            return  # another call did the same


@contextmanager
def _begun(begun: bool) -> Iterator[None]:  # noqa: FBT001  # whether it is
    """Report an unknown outcome if the block fails after a part of the change was written.

    Raises:
        OutcomeUnknownError: *begun* is true, and the block raised a StoreError.
    """
    try:
        yield
    except StoreError as exc:
        if not begun or isinstance(exc, OutcomeUnknownError):
            raise
        raise OutcomeUnknownError.since(
            exc, f"some memories are changed, and not all; call it again: {exc}"
        ) from exc
