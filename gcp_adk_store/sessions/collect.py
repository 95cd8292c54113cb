"""Find garbage below one prefix, and remove it, while writers go on."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from gcp_adk_store.codec.documents import ids_of
from gcp_adk_store.codec.memory_documents import MemoryLayout
from gcp_adk_store.codec.stored import read_session, read_state
from gcp_adk_store.codec.writes import Document
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.kernel.transact import CHANGED, Changed, read_whole
from gcp_adk_store.model.payloads import (
    Garbage,
    GarbageKind,
    PayloadOwner,
    PayloadPlace,
    PayloadRef,
    StoredPayload,
    require_age,
)
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.sessions.lifecycle.format import read_deletions
from gcp_adk_store.sessions.lifecycle.run import SessionArtifacts, SessionLifecycle
from gcp_adk_store.sessions.read.completion import in_initial, in_memories, in_texts, refs_in
from gcp_adk_store.sessions.read.payloads import pages
from gcp_adk_store.sessions.read.reader import SessionReader, segment_missing
from gcp_adk_store.sessions.read.storage import SessionStorage
from gcp_adk_store.sessions.restore.format import read_restores, restores_collection
from gcp_adk_store.sessions.restore.run import Restorer

_SEGMENTS_AT_ONCE: Final = 8


@dataclass(slots=True)
class Collector:
    """Compares payloads with the documents that may refer to them.

    A payload is written before the commit that refers to it, and changes when it is put again. So it is
    garbage if it is old, was found before the documents were read, and is unchanged when it is removed.
    """

    _storage: SessionStorage
    _reader: SessionReader
    _lifecycle: SessionLifecycle
    _restorer: Restorer

    async def find(self, *, older_than_s: float) -> AsyncIterator[Garbage]:
        """Yield unreferenced data that is older than *older_than_s*.

        Raises:
            InvalidInputError: *older_than_s* is below an hour.
        """
        require_age(older_than_s)
        clock = self._storage.documents.clock
        layout = self._storage.layout
        for kind, collection, read in (
            (GarbageKind.DELETION, layout.deletions_collection, read_deletions),
            (GarbageKind.RESTORE, restores_collection(layout), read_restores),
        ):
            async for notes, _ in pages(self._storage.documents, collection):
                for note in notes:  # the first read sets the clock
                    if float(note.update_time) < clock.now() - older_than_s:
                        yield self._noted(note, kind, read)
        before = clock.now() - older_than_s
        async for payloads in self._storage.payloads.scan():
            old = [payload for payload in payloads if payload.put_at < before]
            for owner, mine in _by_owner(old).items():
                async for garbage in self._unreferenced(owner, mine):
                    yield garbage

    async def remove(self, garbage: Garbage, artifacts: SessionArtifacts | None) -> bool:
        """Remove what :meth:`find` found unless it is in use again; return whether it is gone.

        Without *artifacts*, a restore with artifacts to take back stays, and an unfinished fork that may
        have copied some.
        """
        if garbage.kind is GarbageKind.PAYLOAD:
            return await self._storage.payloads.at(garbage.place).remove_unchanged(garbage.versions)
        if garbage.kind not in (GarbageKind.DELETION, GarbageKind.RESTORE):
            return False
        (note,) = await self._storage.documents.get([garbage.name])
        key = self._storage.layout.session_at(_parent(garbage.name))
        if note is None or key is None:
            return True
        if garbage.kind is GarbageKind.RESTORE:
            (left,) = read_restores([note])
            is_able = left.artifacts is None or artifacts is not None
            if is_able:
                await self._restorer.finish(key, [left], artifacts)
            return is_able
        (deletion,) = read_deletions([note])
        is_able = not deletion.artifacts or artifacts is not None
        return is_able and await self._lifecycle.abandon(key, deletion, artifacts)

    def _noted(
        self, note: Document, kind: GarbageKind, read: Callable[[Sequence[Document]], object]
    ) -> Garbage:
        reason = ""
        try:
            read([note])
            if self._storage.layout.session_at(_parent(note.path)) is None:
                kind, reason = GarbageKind.UNREADABLE, "it is not below a session"
        except StoredDataError as exc:
            kind, reason = GarbageKind.UNREADABLE, str(exc)
        return Garbage(
            kind=kind, place=PayloadPlace.CHUNKS, name=note.path, since=float(note.update_time), reason=reason
        )

    async def _unreferenced(
        self, owner: PayloadOwner | None, payloads: Sequence[StoredPayload]
    ) -> AsyncIterator[Garbage]:
        kind, reason = GarbageKind.PAYLOAD, ""
        used: set[tuple[PayloadPlace, str]] = set()
        try:
            used = {(ref.place, ref.sha256) for ref in await self._references(owner)}
        except StoredDataError as exc:
            kind, reason = GarbageKind.UNREADABLE, str(exc)
        for payload in payloads:
            if (payload.place, payload.sha256) not in used:
                yield Garbage(
                    kind=kind,
                    place=payload.place,
                    name=payload.name,
                    since=payload.put_at,
                    size=payload.size,
                    reason=reason,
                    versions=payload.versions,
                )

    async def _references(self, owner: PayloadOwner | None) -> set[PayloadRef]:
        """Return the references of the document of *owner*, an empty set if it is gone.

        Raises:
            StoredDataError: the owner is unknown, or its document cannot be read.
        """
        if owner is not None and MemoryLayout(self._storage.layout).owns(owner.path):
            return await in_memories(self._storage, owner)
        if owner is None or self._storage.layout.level_of(owner.path) is None:
            raise StoredDataError("no document of this store is its owner, so it stays; find who wrote it")
        key = self._storage.layout.session_at(owner.path)
        if key is None:
            ids_of(owner.path)  # refuses what Firestore would refuse
            (document,) = await self._storage.documents.get([owner.path])
            return refs_in(read_state(document))

        async def look() -> set[PayloadRef] | Changed:
            (document,) = await self._storage.documents.get([owner.path])
            stored = read_session(document) if document else None
            if stored is None or stored.epoch != owner.life:
                return set()
            try:
                return await self._of_session(owner, stored)
            except StoredDataError:
                now = await self._reader.header(key)
                if now is not None and (now.epoch, now.sealed) == (stored.epoch, stored.sealed):
                    raise
            return CHANGED  # another call deleted the session, or moved events, during the read

        return await read_whole(self._storage.documents.deadline_s, look)

    async def _of_session(self, owner: PayloadOwner, stored: StoredSession) -> set[PayloadRef]:
        payloads = self._storage.payloads
        found = refs_in(stored.state) | await in_texts(payloads, owner, stored.tail)
        found |= await in_initial(payloads, owner, stored.initial)
        live = stored.live
        for first in range(0, len(live), _SEGMENTS_AT_ONCE):
            some = live[first : first + _SEGMENTS_AT_ONCE]
            segments = await self._reader.segments(stored, some, exactly=True)
            if segments is None:
                raise StoredDataError(f"{owner.path}: {segment_missing(stored)}")
            for segment in segments:
                found |= await in_texts(payloads, owner, segment.texts)
                found |= await in_initial(payloads, owner, segment.initial)
                found |= set() if segment.archive is None else {segment.archive}
        return found


def _by_owner(payloads: Sequence[StoredPayload]) -> dict[PayloadOwner | None, list[StoredPayload]]:
    found: dict[PayloadOwner | None, list[StoredPayload]] = {}
    for payload in payloads:
        found.setdefault(payload.owner, []).append(payload)
    return found


def _parent(path: str) -> str:
    """Return the path of the parent of the document at *path*."""
    return path.rsplit("/", 2)[0]
