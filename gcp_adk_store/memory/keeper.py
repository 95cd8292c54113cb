"""Read and change the memories of users below one prefix of a database."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from google.adk.platform import uuid as platform_uuid
from google.genai import types

from gcp_adk_store.codec.memories import EncodedMemory, decode_memory, encode_memory, has_id
from gcp_adk_store.codec.memory_documents import MemoryLayout
from gcp_adk_store.codec.packing import in_batches
from gcp_adk_store.codec.writes import Written
from gcp_adk_store.errors import InvalidInputError, OutcomeUnknownError, StoredDataError
from gcp_adk_store.kernel.concurrency import offload
from gcp_adk_store.kernel.transact import (
    CHANGED,
    Attempts,
    Changed,
    Commit,
    Decision,
    Done,
    commit_once,
    read_whole,
    transact,
)
from gcp_adk_store.memory.changes import Change, Rewrite, gone, half_done, rewriting, taking_in
from gcp_adk_store.memory.contents import Snapshot
from gcp_adk_store.memory.embedding import Embedding
from gcp_adk_store.memory.reader import MemoryReader, remove_unread
from gcp_adk_store.memory.vectors import Embedded, following, parts_to_read, revectored
from gcp_adk_store.model.keys import UserKey
from gcp_adk_store.model.memories import Memory
from gcp_adk_store.model.state import is_light
from gcp_adk_store.sessions.read.storage import SessionStorage

_BATCH_BYTES: Final = 256 * 1024
"""UTF-8 bytes of memories that one commit takes in."""
_MAX_BATCH: Final = 10_000
"""Memories that one commit takes in."""

Decide = Callable[[Snapshot | None], Change | None]
Settled = Callable[[Attempts], None]
"""Raises, where nothing is left to change, if it is unknown what became of the commits before."""


class _Wanted(NamedTuple):
    """What a change wants of the memories."""

    decide: Decide
    embedded: Embedded | None = None
    """Vectors that are stored with their memories."""
    settled: Settled | None = None
    light: bool = True
    """Whether it is decided in the event loop, and not beside it."""


class _Plan(NamedTuple):
    before: Snapshot | None
    change: Change | None
    is_read: bool
    """Whether a decision to change nothing stands on a read."""


class _Step(NamedTuple):
    """A commit of a change, which may be one of several."""

    before: Snapshot | None
    change: Change
    after: Snapshot


class MemoryKeeper:
    """The memories of users; a read fetches only documents that this process does not know."""

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
        self.embedding = embedding
        """Makes vectors; ``None`` if words alone rank."""
        self._documents = storage.documents
        self._layout = MemoryLayout(storage.layout)
        self._place = storage.payloads.place
        self.reader = MemoryReader(storage, self._layout, cache_bytes=cache_bytes)
        """What this process knows, and what is too large for the documents."""

    @property
    def rows_at_once(self) -> int:
        """Memories with vectors that one commit takes."""
        return _MAX_BATCH if self.embedding is None else self.embedding.rows_at_once

    async def encode(self, memory: Memory, content: types.Content) -> EncodedMemory:
        """Return *memory* with its *content* as it is stored; its payloads get a life of their own."""
        life = platform_uuid.new_uuid().replace("-", "")
        encode = partial(encode_memory, memory, content, place=self._place, life=life)
        return await offload(encode, light=is_light(content))

    def now(self) -> float:
        """Return the time of the database, as Unix time in seconds."""
        return self._documents.clock.now()

    async def add(
        self, key: UserKey, encoded: Sequence[EncodedMemory], *, sources: Sequence[bytes] = ()
    ) -> bool:
        """Store memories that were never taken in; 1 commit for each 256 KiB, and 1 read if unknown.

        With *sources*, digests of ids that count as taken in from then on, it is 1 commit for all, and
        nothing is stored if one of these was taken in before. Return whether anything was stored.

        Raises:
            OutcomeUnknownError: a part may be stored; calling again is safe.
        """
        await self.reader.put_payloads(key, encoded)
        by_text = {each.text: each for each in encoded}
        texts = [each.text for each in encoded]
        most = self.rows_at_once
        batches = (
            [texts]
            if sources
            else in_batches(texts, lambda text: len(text.encode()), size=_BATCH_BYTES, most=most)
        )
        is_stored = False
        taken = partial(taking_in, at_most=self._at_most, now=self.now(), sources=sources)
        for number, batch in enumerate(batches):
            epoch = platform_uuid.new_uuid().replace("-", "")
            later = [by_text[text] for others in batches[number + 1 :] for text in others]
            decide = partial(taken, encoded=[by_text[text] for text in batch], later=later, epoch=epoch)
            light = sum(map(len, batch)) <= _BATCH_BYTES
            with half_done(range(number)):
                embedded = await self._embedded(batch[:most])
                changed = await self._change(key, _Wanted(decide, embedded, light=light))
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

        async def made() -> tuple[str, EncodedMemory] | None:
            old = await self.text_of(key, memory_id)
            if old is None:
                return None
            kept = await self.reader.content(key, old) if content is None else content
            return old, await self.encode(changed(decode_memory(old)), kept)

        async def stored() -> bool | Changed:
            found = await self.reader.whole(key, made)
            if found is None:
                return False
            return True if await self._replace(key, *found) else CHANGED

        return await read_whole(self._documents.deadline_s, stored)

    async def _replace(self, key: UserKey, old: str, new: EncodedMemory) -> bool:
        """Store *new* in the place of the memory with the text *old*; return whether it is stored."""
        await self.reader.put_payloads(key, [new])
        is_stored = False

        def replaced(text: str) -> str:
            nonlocal is_stored
            is_stored = is_stored or text == new.text  # by an earlier attempt, whose answer was lost
            return new.text if text == old else text

        def settled(attempts: Attempts) -> None:
            if attempts.maybe_applied and not is_stored:
                raise OutcomeUnknownError(
                    "sent and not answered, and then changed by another call; read the memory before you "
                    "change it again"
                )

        embedded = await self._embedded([new.text])
        if old in await self.rewrite(key, replaced, embedded, settled) or is_stored:
            return True
        # The head has changed: no attempt can be stored any more.
        await self.reader.remove_payloads(key, [new.text])
        return False

    async def text_of(self, key: UserKey, memory_id: str) -> str | None:
        """Return the stored text of a memory; ``None`` if it does not exist, or has ended."""
        snapshot = await self.reader.read(key)
        now = self.now()
        for text in () if snapshot is None else snapshot.texts:
            if has_id(text, memory_id) and not decode_memory(text).has_ended(now):
                return text
        return None

    async def newest(self, key: UserKey) -> Snapshot | None:
        """Return memories as this process last saw them, perhaps out of date; they are read if unknown."""
        known = self.reader.cached(key)
        return await self.reader.read(key) if known is None else known.snapshot

    async def rewrite(
        self,
        key: UserKey,
        rewrite: Rewrite,
        embedded: Embedded | None = None,
        settled: Settled | None = None,
    ) -> list[str]:
        """Change each memory as *rewrite* says; return the texts that were replaced or removed.

        Payloads of these go, too. If all memories have ended, everything goes. *settled* is called where
        nothing is left to change, and raises if the earlier commits make the outcome unknown.

        Raises:
            OutcomeUnknownError: some may be changed; calling again is safe.
        """
        replaced: list[str] = []
        tried: dict[str, None] = {}
        newest: Snapshot | None = None
        is_all = False

        def decide(before: Snapshot | None) -> Change | None:
            nonlocal newest
            newest = before
            change = None if before is None else rewriting(before, rewrite, now=self.now())
            tried.update(dict.fromkeys(gone(before, change)))
            return change

        while not is_all:
            with half_done(replaced):
                changed = await self._change(key, _Wanted(decide, embedded, settled))
            if changed is None:
                break
            newest, is_all = changed.after, changed.change.is_all
            kept = set(newest.texts)
            before = changed.before.texts if changed.before else ()
            replaced += [text for text in before if text not in kept]
        left = set() if newest is None else set(newest.texts)
        # A commit whose answer was lost may have removed some: nothing else removes their payloads.
        removed = [text for text in tried if text not in left]
        with half_done(removed):
            await self.reader.remove_payloads(key, removed)
            known = self.reader.cached(key)
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

        begun: list[str] = []

        async def look() -> Snapshot | Changed | None:
            try:
                snapshot = await self.reader.read(key)
                if snapshot is None or not (snapshot.head.is_ending or snapshot.head.spilled):
                    return snapshot
                begun.append(snapshot.head.update_time)
                if snapshot.head.is_ending:
                    await self._remove(key, snapshot)
                else:
                    await self._change(key, _Wanted(end))
            except StoredDataError:
                await remove_unread(self._documents, self._layout.head(key))
            return CHANGED

        def decide(found: Snapshot | Changed | None, _: Attempts) -> Decision[None]:
            if found is CHANGED:
                return CHANGED
            if found is None:
                return Done(None)
            return Commit(self._layout.remove(key, found.head), lambda _: None)

        with half_done(begun):
            await transact(self._documents, look, decide)
        self.reader.forget(key)

    async def missing(self, key: UserKey) -> tuple[Snapshot, list[str]] | None:
        """Return a user's memories, and the texts that lack a vector; it reads all documents."""
        if self.embedding is None:
            raise InvalidInputError("no embedder makes vectors; pass embedder= to the store")
        snapshot = await self.reader.read(key, vectors=True)
        if snapshot is None or snapshot.is_empty:
            return None
        missing = partial(self.embedding.missing, snapshot)
        return snapshot, await offload(missing, light=not snapshot.head.shards)

    async def embed(self, key: UserKey, texts: Sequence[str]) -> Sequence[str]:
        """Store vectors of memories with these stored *texts*, in 1 commit; those of another embedder go.

        Return the texts that the embedder refused. It raises what :meth:`Embedding.stored` does.
        """
        if self.embedding is None:
            return ()
        made = await self.embedding.stored(texts)
        wanted = _Wanted(lambda before: None if before is None else revectored(before, made), made)
        await self._change(key, wanted)
        return made.refused

    async def _embedded(self, texts: Sequence[str]) -> Embedded | None:
        return None if self.embedding is None else await self.embedding.stored_if_able(texts)

    async def _change(self, key: UserKey, wanted: _Wanted) -> _Step | None:
        """Commit what is *wanted* of the memories; return the last commit, ``None`` without any.

        It starts from what this process knows. A decision to do nothing stands on a read. Vectors of removed
        memories go in the same commit, or in commits before.
        """
        held = self.reader.cached(key)
        before = None if held is None else held.snapshot
        begun: list[str] = []
        with half_done(begun):
            while True:
                step = await self._step(key, wanted, before)
                if step is None or not step.change.is_prior:
                    return step
                before = step.after
                begun.append(before.head.update_time)

    async def _step(self, key: UserKey, wanted: _Wanted, before: Snapshot | None) -> _Step | None:
        """Commit the next part of a change, which starts from *before* if that is known."""

        async def look() -> _Plan:
            return await self._planned(key, wanted, await self.reader.read(key), is_read=True)

        def decided(plan: _Plan, attempts: Attempts) -> Decision[_Step | None]:
            if plan.change is None and not plan.is_read:
                return CHANGED
            if plan.change is None:
                if wanted.settled is not None:
                    wanted.settled(attempts)
                return Done(None)
            before, change = plan.before, plan.change
            old = None if before is None else before.head
            writes = self._layout.put(key, old, change.head, change.added, change.embedded)
            return Commit(writes, partial(self._step_done, key, before, change))

        known = None
        if before is not None:
            with suppress(InvalidInputError):  # by then others may have made room: a refusal stands on a read
                known = (await self._planned(key, wanted, before, is_read=False),)
        return await transact(self._documents, look, decided, known=known)

    async def _planned(
        self, key: UserKey, wanted: _Wanted, found: Snapshot | None, *, is_read: bool
    ) -> _Plan:
        """Return what a commit makes of what was *found*, with the vectors that it needs."""
        if found is not None and found.head.is_ending:
            await self._remove(key, found)
            return _Plan(found, None, is_read=False)
        alone = wanted.light and (found is None or not found.head.shards)
        change = await offload(partial(wanted.decide, found), light=alone)
        if change is None:
            return _Plan(found, None, is_read=is_read)
        if found is not None and (numbers := parts_to_read(found, change, wanted.embedded)):
            found = await self.reader.with_parts(key, found, numbers)
            if found is None:  # another call replaced what the change needs
                return _Plan(None, None, is_read=False)
        change = await offload(partial(following, found, change, wanted.embedded), light=alone)
        return _Plan(found, change, is_read=is_read)

    def _step_done(
        self, key: UserKey, before: Snapshot | None, change: Change, written: Sequence[Written]
    ) -> _Step:
        head = replace(change.head, update_time=written[0].update_time)
        after = Snapshot(head=head, shards=change.shards_after(before), vectors=change.vectors_after(before))
        self.reader.remember(key, after)
        return _Step(before, change, after)

    async def _remove(self, key: UserKey, snapshot: Snapshot) -> None:
        """Remove memories that no one reads any more, with their payloads, unless they have changed."""
        self.reader.forget(key)
        sealed = [text for content in snapshot.shards.values() for text in content.texts]
        await self.reader.remove_payloads(key, [*sealed, *snapshot.head.tail])
        await commit_once(self._documents, self._layout.remove(key, snapshot.head))
