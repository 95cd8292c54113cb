"""Read and change the memories of users below one prefix of a database."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from google.adk.platform import uuid as platform_uuid
from google.genai import types

from gcp_adk_store.codec.events import complete_event
from gcp_adk_store.codec.memories import EncodedMemory, decode_content, decode_memory, has_id
from gcp_adk_store.codec.memory_documents import MemoryLayout, read_memory_head, read_shard
from gcp_adk_store.codec.writes import Delete, Document, Write, Written
from gcp_adk_store.errors import OutcomeUnknownError, StoredDataError, StoreError
from gcp_adk_store.memory.changes import Change, Rewrite, rewriting, taking_in
from gcp_adk_store.memory.contents import Contents, Hit, Snapshot
from gcp_adk_store.model.keys import UserKey
from gcp_adk_store.model.memories import MemoryFilter, MemoryHead, in_batches
from gcp_adk_store.model.payloads import PayloadPlace
from gcp_adk_store.operations.fan_out import fan_out
from gcp_adk_store.operations.lru import Lru
from gcp_adk_store.operations.pauses import apart
from gcp_adk_store.operations.rereads import Rereads
from gcp_adk_store.ports.refusals import RefusedError, settling
from gcp_adk_store.sessions.storage import SessionStorage

_BATCH_BYTES: Final = 256 * 1024
"""UTF-8 bytes of memories that one commit takes in."""

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

    def __init__(self, storage: SessionStorage, *, cache_bytes: int, at_most: int) -> None:
        """Prepare; memories and indexes of users stay in memory up to *cache_bytes*.

        A user has *at_most* so many memories.
        """
        self._at_most = at_most
        self._documents, self._payloads = storage.documents, storage.payloads
        self._layout = MemoryLayout(storage.layout)
        self._known = Lru[str, Contents](cache_bytes, size_of=lambda contents: contents.size)

    @property
    def place(self) -> PayloadPlace:
        """The place of new payloads."""
        return self._payloads.place

    def now(self) -> float:
        """Return the time of the database, as Unix time in seconds."""
        return self._documents.clock.now()

    async def read(self, key: UserKey) -> Snapshot | None:
        """Return the memories of a user as they are now: 1 read, and 1 for each shard that is not known."""
        path = self._layout.head(key)
        rereads = Rereads(self._documents.deadline_s)
        incomplete = ""
        while True:
            (document,) = await self._documents.get([path])
            if document is None:
                self._known.forget(lambda known: known == path)
                return None
            head = read_memory_head(document)
            known = self._known.get(path)
            if known is not None and known.snapshot.head.update_time == head.update_time:
                if head.until is not None:
                    known.snapshot = replace(known.snapshot, head=head)  # it may have ended since
                return known.snapshot
            snapshot = await self._complete(path, head, known)
            if snapshot is not None:
                self._remember(path, snapshot)
                return snapshot
            if incomplete == head.update_time:
                raise StoredDataError(f"{path} names a shard that does not exist; restore it")
            incomplete = head.update_time
            await rereads.again()  # another call replaced shards during the read

    async def search(
        self, key: UserKey, query: str, *, limit: int, accepts: MemoryFilter, min_score: float
    ) -> list[Hit]:
        """Return the best memories for *query*, the best first; reads as :meth:`read`."""
        snapshot = await self.read(key)
        if snapshot is None or snapshot.is_empty:
            return []
        path = self._layout.head(key)
        contents = self._known.get(path) or Contents(snapshot=snapshot)
        look = partial(
            contents.search,
            snapshot,
            query,
            limit=limit,
            accepts=accepts,
            min_score=min_score,
            now=self.now(),
        )
        found = await apart(look, light=contents.is_light)
        self._known.put(path, contents)  # the index has grown
        return found

    async def add(
        self, key: UserKey, encoded: Sequence[EncodedMemory], *, sources: Sequence[bytes] = ()
    ) -> None:
        """Store memories that were never taken in; 1 commit for each 256 KiB, and 1 read if unknown.

        With *sources*, digests of ids that count as taken in from then on, it is 1 commit for all.

        Raises:
            OutcomeUnknownError: a part may be stored; calling again is safe.
        """
        await self._put_payloads(key, encoded)
        by_text = {each.text: each for each in encoded}
        texts = [each.text for each in encoded]
        batches = [texts] if sources else in_batches(texts, size=_BATCH_BYTES)
        for number, batch in enumerate(batches):
            epoch = platform_uuid.new_uuid().replace("-", "")
            new = [by_text[text] for text in batch]
            with _begun(number > 0):
                await self._change(
                    key, partial(taking_in, encoded=new, epoch=epoch, at_most=self._at_most, sources=sources)
                )

    async def replace(self, key: UserKey, encoded: EncodedMemory) -> bool:
        """Store *encoded* in the place of the memory with its id; return whether there is one."""
        await self._put_payloads(key, [encoded])
        text, memory_id = encoded.text, encoded.memory.id
        await self.rewrite(key, lambda old: text if has_id(old, memory_id) else old)
        known = self._known.get(self._layout.head(key))
        return known is not None and text in known.snapshot.texts

    async def _put_payloads(self, key: UserKey, encoded: Sequence[EncodedMemory]) -> None:
        await fan_out(
            self._payloads.put(
                self._layout.payloads(self._layout.head(key), each.memory.life or ""),
                each.payloads,
                parts_at=None if each.memory.until is None else int(each.memory.until) + 1,
            )
            for each in encoded
            if each.payloads
        )

    async def known(self, key: UserKey) -> Snapshot | None:
        """Return memories as this process last saw them, perhaps out of date; they are read if unknown."""
        known = self._known.get(self._layout.head(key))
        return await self.read(key) if known is None else known.snapshot

    async def rewrite(self, key: UserKey, rewrite: Rewrite) -> list[str]:
        """Change each memory as *rewrite* says; return the texts that were replaced or removed.

        Payloads of these go, too.

        Raises:
            OutcomeUnknownError: some may be changed; calling again is safe.
        """
        replaced: list[str] = []
        is_all = False
        while not is_all:
            with _begun(bool(replaced)):
                changed = await self._change(
                    key, lambda before: None if before is None else rewriting(before, rewrite)
                )
            if changed is None:
                break
            kept = set(changed.after.texts)
            replaced += [text for text in changed.before if text not in kept]
            is_all = changed.is_all
        with _begun(bool(replaced)):
            await self._remove_payloads(key, replaced)
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

        path = self._layout.head(key)
        rereads = Rereads(self._documents.deadline_s)
        refused = RefusedError()
        begun = False
        while True:
            with _begun(begun), settling(refused):
                snapshot = await self.read(key)
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
                exc.perhaps_own = exc.perhaps_own or refused.perhaps_own
                refused = exc
            self._known.forget(lambda known: known == path)
            with _begun(begun), settling(refused):
                await rereads.again(refused)

    async def content(self, key: UserKey, hit_text: str) -> types.Content:
        """Return the content of a memory with its payloads.

        Raises:
            PayloadMissingError: a payload is gone.
        """
        stored = decode_content(hit_text)
        path = self._layout.head(key)
        life = decode_memory(hit_text).life
        while stored.missing:
            owner = self._layout.payloads(path, life or "")
            refs = sorted(set(stored.missing.values()), key=lambda ref: ref.sha256)
            data = await fan_out(self._payloads.get(owner, ref) for ref in refs)
            stored = complete_event(stored, dict(zip(refs, data, strict=True)))
        return stored.event.content or types.Content()

    async def _change(self, key: UserKey, decide: Decide) -> Changed | None:
        """Commit what *decide* makes of the memories; ``None`` if that is nothing.

        It starts from what this process knows. A decision to do nothing stands on a read.
        """
        path = self._layout.head(key)
        known = self._known.get(path)
        before = None if known is None else known.snapshot
        is_read = False
        refused = RefusedError()
        rereads = Rereads(self._documents.deadline_s)
        while True:
            change = None
            is_ending = before is not None and before.head.is_ending
            if is_ending:
                with settling(refused):
                    await self._finish(key)
                    await rereads.again(refused)
            elif before is not None or is_read:
                change = await self._decided(decide, before)
            if change is None:
                if is_read and not is_ending:
                    return None
                with settling(refused):
                    before, is_read = await self.read(key), True
                continue
            writes = self._layout.put(key, None if before is None else before.head, change.head, change.added)
            try:
                with settling(refused):
                    written = await self._commit(writes)
            except RefusedError as exc:
                exc.perhaps_own = exc.perhaps_own or refused.perhaps_own
                refused = exc
                with settling(refused):
                    await rereads.again(refused)
                    before, is_read = await self.read(key), True
                continue
            head = replace(change.head, update_time=written[0].update_time)
            after = Snapshot(head=head, shards=change.shards_after(before))
            self._remember(path, after)
            return Changed(before=before.texts if before else (), after=after, is_all=change.is_all)

    async def _decided(self, decide: Decide, before: Snapshot | None) -> Change | None:
        light = before is None or not before.head.shards
        return await apart(lambda: decide(before), light=light)

    async def _commit(self, writes: Sequence[Write | Delete]) -> list[Written]:
        return await self._documents.commit(writes, repeatable_when_unanswered=True)

    async def _finish(self, key: UserKey) -> None:
        """Remove what is left of memories that are being removed."""
        snapshot = await self.read(key)
        if snapshot is None or not snapshot.head.is_ending:
            return
        sealed = [text for content in snapshot.shards.values() for text in content.texts]
        await self._remove_payloads(key, [*sealed, *snapshot.head.tail])
        try:
            await self._commit(self._layout.remove(key, snapshot.head))
        except RefusedError:
            return  # another call did the same

    async def _remove_payloads(self, key: UserKey, texts: Sequence[str]) -> None:
        path = self._layout.head(key)
        places = {
            (place, memory.life)
            for memory, text in ((decode_memory(text), text) for text in texts)
            if memory.life is not None
            for place in {ref.place for ref in decode_content(text).missing.values()}
        }
        await fan_out(
            self._payloads.at(place).remove_all(self._layout.payloads(path, life))
            for place, life in sorted(places, key=lambda each: each[1])
        )

    async def _complete(self, path: str, head: MemoryHead, known: Contents | None) -> Snapshot | None:
        """Return the snapshot of *head*; ``None`` if a shard of it is gone."""
        shards = {}
        if known is not None and known.snapshot.head.epoch == head.epoch:
            shards = dict(known.snapshot.shards)
        wanted = [
            shard
            for shard in head.shards
            if shard.number not in shards and (shard.until is None or shard.until > head.read_time)
        ]
        paths = [self._layout.shard(path, head.epoch, shard.number) for shard in wanted]
        found: list[Document | None] = await self._documents.get(paths) if paths else []
        for shard, document in zip(wanted, found, strict=True):
            if document is None:
                return None
            shards[shard.number] = await apart(partial(read_shard, document), light=False)
        listed = {shard.number for shard in head.shards}
        return Snapshot(head=head, shards={n: content for n, content in shards.items() if n in listed})

    def _remember(self, path: str, snapshot: Snapshot) -> None:
        contents = self._known.get(path) or Contents(snapshot=snapshot)
        contents.snapshot = snapshot
        self._known.put(path, contents)


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
