"""Check the sessions and memories of a user, of an app, or of all."""

from collections.abc import AsyncIterator, Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from gcp_adk_store.codec.documents import Layout, chunk_owner
from gcp_adk_store.codec.memories import content_text
from gcp_adk_store.codec.memory_documents import MemoryLayout
from gcp_adk_store.codec.stored import read_state
from gcp_adk_store.codec.writes import Document
from gcp_adk_store.errors import InvalidInputError, StoredDataError
from gcp_adk_store.kernel.transact import commit_once
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.payloads import PayloadOwner, PayloadRef
from gcp_adk_store.sessions.fsck.faults import Fault, merged
from gcp_adk_store.sessions.fsck.held import Held, Holdings
from gcp_adk_store.sessions.fsck.memories import MemoryCheck
from gcp_adk_store.sessions.fsck.parts import deletion_faults, restore_faults
from gcp_adk_store.sessions.fsck.session_run import Look, Reading, SessionLook, orphan_faults
from gcp_adk_store.sessions.fsck.sessions import Header, read_header
from gcp_adk_store.sessions.read.completion import in_memories, in_texts, refs_in
from gcp_adk_store.sessions.read.storage import SessionStorage


async def memory_faults(look: Look, path: str, held: Held) -> list[Fault]:
    """Return what is wrong with the memories whose head is at *path*."""
    layout = MemoryLayout(look.storage.layout)
    if held.document is None:
        return await _payload_faults(look, path, None, held)
    check = MemoryCheck.of(held.document)
    if isinstance(check, Fault):
        return [check]
    head = check.head
    if head.is_ending:
        return []  # a deletion that was interrupted: the next call of the user's removes what is left
    for shard in head.shards:
        place = layout.shard(path, head.epoch, shard.number)
        check.take_shard(shard, place, (await look.reads.get([place]))[0])
    for part in head.vectors.parts:
        place = layout.vectors(path, head.epoch, part.number)
        check.take_vectors(part, place, (await look.reads.get([place]))[0])
    found = check.end()
    if head.has_ended() and not found:
        return []  # Firestore may have removed some of the payloads
    if any(fault.code in ("FSCK602", "FSCK603") for fault in found):
        return found  # what they refer to is unknown
    return [*found, *await _payload_faults(look, path, check, held)]


async def _payload_faults(look: Look, path: str, check: MemoryCheck | None, held: Held) -> list[Fault]:
    """Return what is wrong with payloads, each of which goes with its memory."""
    faults: list[Fault] = []
    references: dict[PayloadOwner, dict[PayloadRef, str]] = {}
    for place, memory, text in () if check is None else check.texts:
        if memory.life is None or (check is not None and memory.has_ended(check.head.read_time)):
            continue
        owner = PayloadOwner(path=path, life=memory.life)
        try:
            found = await in_texts(look.storage.payloads, owner, [content_text(text)])
        except StoredDataError as exc:
            faults.append(Fault(code="FSCK301", path=place, item=memory.life, says=str(exc)))
            continue
        references.setdefault(owner, {}).update(dict.fromkeys(found, place))
    chunks: dict[PayloadOwner, list[Document]] = {}
    for chunk in held.chunks:
        if (whose := chunk_owner(chunk.path)) is not None:
            chunks.setdefault(whose[0], []).append(chunk)
    for owner in {**references, **chunks}:
        used, mine = references.get(owner, {}), chunks.get(owner, [])
        if used:  # they expire with their memory, each at its own time
            mine = [replace(chunk, fields={**chunk.fields, "expire_at": None}) for chunk in mine]
        faults += await Reading(look, owner).all_faults(used, mine, objects_before=0.0 if used else None)
    return faults


@dataclass(slots=True)
class Checked:
    """What a check has looked at so far."""

    sessions: int = 0
    segments: int = 0
    events: int = 0
    payloads: int = 0


_SESSION: Final = 3  # level of a path

OnProgress = Callable[[Checked], None]


class Checker:
    """Looks at everything below one prefix of a database, and confirms each fault.

    The first look goes through all documents in the order of their names. Where it finds a fault, two more
    looks at the one owner follow, each at one snapshot of the documents. Only what both of them find is
    yielded. A bucket has no snapshots: a write that puts or removes objects between the reads of one look
    does not show the same in the next, since epochs are never used twice.
    """

    def __init__(self, storage: SessionStorage) -> None:
        self._storage = storage
        self._holdings = Holdings(storage.documents, storage.layout)
        self._memories = MemoryLayout(storage.layout)

    async def find(
        self, start: str, *, full: bool, older_than_s: float, on_progress: OnProgress | None
    ) -> AsyncIterator[Fault]:
        """Yield the faults at and below the document at the path *start*, or all if it is empty."""
        checked = Checked()
        clock = self._storage.documents.clock
        async for path, held in self._holdings.within(start):
            before = clock.now() - older_than_s
            look = Look(storage=self._storage, reads=self._storage.documents, full=full, before=before)
            faults = await self._look(look, path, held, checked=checked)
            if faults:
                faults = await self._confirmed(look, path)
            for fault in faults:
                yield fault
            if on_progress is not None:
                on_progress(checked)
        before = clock.now() - older_than_s
        async for fault in self._orphans_in_bucket(start, before=before):
            yield fault
        for fault in await self._lost_files(start, before=before):
            yield fault

    async def repair(self, faults: Sequence[Fault]) -> list[Fault]:
        """Repair *faults* whose documents are as they were seen; return those that were repaired."""
        done: set[str] = set()
        for writes in merged(faults):
            if await commit_once(self._storage.documents, writes) is None:
                continue  # another writer was first
            done.update(item.path for item in writes)
        return [fault for fault in faults if fault.repair and all(item.path in done for item in fault.repair)]

    async def _confirmed(self, first: Look, path: str) -> list[Fault]:
        """Return the faults that two looks at one owner find, each after the *first*."""
        looks = []
        for _ in range(2):
            async with self._storage.documents.snapshot() as reads:
                held = await Holdings(reads, self._storage.layout).of(path)
                looks.append(await self._look(replace(first, reads=reads), path, held))
        seen = {fault.identity for fault in looks[0]}
        return [fault for fault in looks[1] if fault.identity in seen]

    async def _look(
        self, look: Look, path: str, held: Held, *, checked: Checked | None = None
    ) -> list[Fault]:
        if self._memories.owns(path):
            return await memory_faults(look, path, held)
        try:
            key = self._storage.layout.session_at(path)
        except StoredDataError as exc:
            return [Fault(code="FSCK101", path=path, says=str(exc))]
        if key is None:
            return await self._shared(look, path, held)
        header = None if held.document is None else read_header(held.document)
        living: object = None
        cut: AbstractSet[int] | None = None
        if isinstance(header, Header):
            living, cut = header.stored.epoch, header.cut
        elif held.document is not None:
            living = held.document.fields.get("epoch")
        notes, named = deletion_faults(held.notes, living=living, before=look.before)
        restores, removed = restore_faults(held.restores, living=living, cut=cut, before=look.before)
        if isinstance(header, Fault):
            # Its epoch may be wrong: nothing below it surely belongs to no session.
            return [header, *notes, *restores]
        faults: list[Fault] = []
        if header is not None and not header.stored.has_expired:  # or Firestore may have removed some of it
            of_session = SessionLook(look, header)
            faults = await of_session.look(held, named=removed)
            if checked is not None:
                checked.sessions += 1
                checked.segments += len(header.numbers)
                checked.events += of_session.history.events
                checked.payloads += len(of_session.history.references)
        orphans = orphan_faults(held, named, living=living, before=look.before)
        return [*faults, *notes, *restores, *orphans]

    async def _shared(self, look: Look, path: str, held: Held) -> list[Fault]:
        """Return what is wrong with the document of an app or a user and its payloads."""
        layout = self._storage.layout
        if layout.level_of(path) is None:
            return [
                Fault(code="FSCK304", path=part.path, says="it is not below an app, a user or a session")
                for part in (*held.segments, *held.notes, *held.restores, *held.chunks)
            ]
        try:
            state = read_state(held.document)
        except StoredDataError as exc:
            return [Fault(code="FSCK401", path=path, says=str(exc))]
        owner = layout.shared_payloads(path)
        found = dict.fromkeys(refs_in(state), path)
        # Objects that are not used come at the end.
        return await Reading(look, owner).all_faults(
            found, held.chunks, objects_before=0.0 if found else None
        )

    async def _orphans_in_bucket(self, start: str, *, before: float) -> AsyncIterator[Fault]:
        """Yield the objects whose owner does not exist, or has another life now."""
        in_bucket = self._storage.payloads.in_bucket
        if in_bucket is None:
            return
        async for page in in_bucket.scan():
            for owner, objects in groupby(page, key=lambda found: found.owner):
                old = [found for found in objects if found.put_at < before]
                if not old or (start and (owner is None or not _is_within(owner.path, start))):
                    continue
                if owner is None:
                    for found in old:
                        yield Fault(code="FSCK304", path=found.name, says="it does not name its owner")
                    continue
                says, used = await self._use_of(owner)
                for found in old:
                    if found.sha256 not in used:
                        yield Fault(code="FSCK305", path=found.name, item=found.sha256, says=says)

    async def _lost_files(self, start: str, *, before: float) -> list[Fault]:
        """Return the files in a folder that no object has: they do not say whose they are."""
        objects = self._storage.payloads.objects
        if objects is None or start:
            return []
        lost = [file for file in await objects.left(every=True) if file.since < before]
        return [Fault(code="FSCK307", path=file.name, says="no object has it") for file in lost]

    async def _use_of(self, owner: PayloadOwner) -> tuple[str, AbstractSet[str]]:
        """Return why payloads of *owner* are garbage, and the SHA-256 of those that are not."""
        try:
            return await self._use(owner)
        except StoredDataError:
            return "", _Everything()  # it has a fault of its own

    async def _use(self, owner: PayloadOwner) -> tuple[str, AbstractSet[str]]:
        if self._memories.owns(owner.path):
            return "nothing refers to it", {ref.sha256 for ref in await in_memories(self._storage, owner)}
        level = self._storage.layout.level_of(owner.path)
        if level is None:
            return "its owner is not an app, a user or a session", frozenset()
        fields = ("epoch",) if level == _SESSION else None
        (document,) = await self._storage.documents.get([owner.path], fields=fields)
        if document is None:
            return "its owner does not exist", frozenset()
        if level == _SESSION:
            is_living = document.fields.get("epoch", owner.life) == owner.life
            return "its owner has another life now", _Everything() if is_living else frozenset()
        return "nothing refers to it", {ref.sha256 for ref in refs_in(read_state(document))}


class _Everything(frozenset[str]):
    """Has each SHA-256: a look at the session shows which of its payloads are not used."""

    def __contains__(self, item: object) -> bool:
        return True


def start_of(layout: Layout, app: str | None, user: str | None, session: str | None) -> str:
    """Return the path of the document that three ids name; empty without any.

    Raises:
        InvalidInputError: a session comes without its user, or a user without the app.
    """
    if (session is not None and user is None) or (user is not None and app is None):
        raise InvalidInputError("a session is named with its user, and a user with the app")
    if app is None:
        return ""
    if user is None:
        return layout.app(app)
    if session is None:
        return layout.user(UserKey(app=app, user=user))
    return layout.session(SessionKey(app=app, user=user, session=session))


def _is_within(path: str, start: str) -> bool:
    return path == start or path.startswith(f"{start}/")
