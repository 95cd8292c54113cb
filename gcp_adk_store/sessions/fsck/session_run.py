"""Look at one session: read its events from the first to the last, and judge what is found."""

import hashlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from gcp_adk_store.codec.decode import StoredEvent, complete_event, decode_event, references, unpack_value
from gcp_adk_store.codec.documents import Deletion
from gcp_adk_store.codec.encode import WHOLE
from gcp_adk_store.codec.packing import unpack_segment
from gcp_adk_store.codec.segments import unpack_initial, without_window
from gcp_adk_store.codec.stored import archive_of
from gcp_adk_store.codec.writes import Document
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.kernel.concurrency import offload
from gcp_adk_store.kernel.ports import Reads
from gcp_adk_store.model.payloads import PayloadOwner, PayloadPlace, PayloadRef
from gcp_adk_store.model.session_fields import Expiry
from gcp_adk_store.model.sessions import Segment
from gcp_adk_store.sessions.fsck.faults import Fault, digest_faults
from gcp_adk_store.sessions.fsck.held import Held
from gcp_adk_store.sessions.fsck.history import History, Run, digest
from gcp_adk_store.sessions.fsck.parts import chunk_faults, field_faults, object_faults
from gcp_adk_store.sessions.fsck.sessions import (
    Header,
    archived_fault,
    ended_faults,
    header_faults,
    missing_segments,
    part_expiry_faults,
    read_counted_segment,
    sealed_initial_fault,
    segment_faults,
    state_fault,
    tail_run_head,
    wrong_places,
)
from gcp_adk_store.sessions.read.completion import refs_in
from gcp_adk_store.sessions.read.storage import SessionStorage

T = TypeVar("T")

_SEGMENTS_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look reads with, and what it takes for a fault."""

    storage: SessionStorage
    reads: Reads
    full: bool
    """Whether all payloads are read."""
    before: float
    """What nothing refers to, or was interrupted, is a fault if it was written before this Unix time."""


class Reading:
    """Reads payloads of one owner, and keeps what is wrong with them."""

    def __init__(self, look: Look, owner: PayloadOwner) -> None:
        self._look = look
        self._storage = look.storage
        self._owner = owner
        self.faults: list[Fault] = []
        self.read: set[PayloadRef] = set()

    async def get(self, ref: PayloadRef, path: str) -> bytes | None:
        """Return the bytes of a payload that the document at *path* refers to; ``None`` if they are wrong."""
        self.read.add(ref)
        try:
            data = await self._storage.payloads.at(ref.place).get(self._owner, ref)
        except StoredDataError as exc:
            self.faults.append(Fault(code="FSCK304", path=path, item=ref.sha256, says=str(exc)))
            return None
        code, says = "", ""
        if data is None:
            code, says = "FSCK301", "it is missing"
        elif len(data) != ref.size:
            code, says = "FSCK302", f"it has {len(data)} bytes, the reference says {ref.size}"
        elif not ref.fits(data):
            code, says = "FSCK303", "its bytes have another SHA-256"
        if code:
            self.faults.append(Fault(code=code, path=path, item=ref.sha256, says=says))
            return None
        return data

    async def unpacked(self, ref: PayloadRef, path: str, unpack: Callable[[bytes], T]) -> T | None:
        """Return what *unpack* makes of a payload; ``None`` if it is not what refers to it says."""
        data = await self.get(ref, path)
        if data is None:
            return None
        try:
            return await offload(partial(unpack, data), light=False)
        except StoredDataError as exc:
            self.faults.append(Fault(code="FSCK306", path=path, item=ref.sha256, says=str(exc)))
            return None

    async def all_faults(
        self,
        references_: Mapping[PayloadRef, str],
        chunks: Sequence[Document],
        *,
        expiry: Expiry | None = None,
        objects_before: float | None,
    ) -> list[Fault]:
        """Return what is wrong with the payloads that documents refer to, and with those that none does.

        Objects that nothing refers to are faults if they were written before *objects_before*, a Unix time;
        without it, the bucket is not looked at.
        """
        layout, owner, before = self._storage.layout, self._owner, self._look.before
        faults = [*chunk_faults(layout, owner, references_, chunks, expiry=expiry, before=before)]
        in_bucket = self._storage.payloads.in_bucket
        if in_bucket is not None and objects_before is not None:
            faults += object_faults(references_, await in_bucket.of(self._owner), before=objects_before)
        unread = references_.keys() - self.read if self._look.full else ()
        for ref in sorted(unread, key=lambda ref: ref.sha256):
            await self.get(ref, references_[ref])
        return [*faults, *self.faults]


_UNREAD: Final = frozenset({"FSCK201", "FSCK202"})
"""Faults of segments whose events are not known."""


class SessionLook:
    """One look at a session."""

    def __init__(self, look: Look, header: Header) -> None:
        self._look = look
        self._layout = look.storage.layout
        self._header = header
        self._owner = self._layout.session_payloads(header.stored.key, header.stored.epoch)
        self._reading = Reading(look, self._owner)
        self._last_max: float | None = None
        self._first: Segment | None = None
        self.history = History(header.stored.epoch)
        self.faults: list[Fault] = []
        self._sealed_digests = array("Q")
        """:func:`_digest` of the events of the segments so far."""

    async def look(self, held: Held, *, named: AbstractSet[int]) -> list[Fault]:
        """Return what is wrong with the session, of which *held* is stored.

        Notes of restores say that the segments *named* are to be removed.
        """
        header, faults = self._header, self.faults
        stored, epoch = header.stored, header.stored.epoch
        faults += header_faults(header, place=self._look.storage.payloads.place)
        faults += field_faults(header)
        there = []
        for document in held.segments:
            life, _, number = document.path.rpartition("/")[2].rpartition("-")
            if life == epoch and number.isdecimal():
                there.append(int(number))
                if int(number) in header.numbers:
                    faults += part_expiry_faults(stored.expiry, document)
        faults += missing_segments(header, there, named=named)
        numbers = header.numbers
        for start in range(0, len(numbers), _SEGMENTS_AT_ONCE):
            await self._segments(numbers[start : start + _SEGMENTS_AT_ONCE])
        await self._tail()
        is_whole = not any(fault.code in _UNREAD for fault in faults)
        if is_whole:
            faults += ended_faults(header, self.history, last_max=self._last_max)
        await self._state(is_whole=is_whole)
        of_payloads = await self._payloads(held)  # adds to the faults, too
        return [*faults, *of_payloads]

    async def _segments(self, numbers: Sequence[int]) -> None:
        stored = self._header.stored
        paths = self._layout.segments(stored.key, stored.epoch, numbers)
        for number, document in zip(numbers, await self._look.reads.get(paths), strict=True):
            if document is None:
                self.faults.append(
                    Fault(code="FSCK201", path=self._header.path, item=f"segment {number}", says="is missing")
                )
                continue
            archive = await self._archive(document)
            segment, found = await offload(partial(read_counted_segment, document, archive), light=False)
            self.faults += found
            if segment is None:
                continue
            if says := self._wrong_window(number, segment.window):
                repair = without_window(document.path, must=document.update_time)
                self.faults.append(
                    Fault(code="FSCK210", path=document.path, item="window", says=says, repair=(repair,))
                )
            self._sealed_digests.extend(map(_digest, segment.texts))
            begin, end = segment.chain_begin, segment.chain_end
            first = self.history.events
            await self._add(document.path, segment.texts, begin, end, code="FSCK205")
            if not any(fault.code in _UNREAD for fault in self.faults):
                self.faults += archived_fault(self._header, number, begin=first, end=self.history.events)
            if number == self._header.numbers[0]:
                self._first = segment
                self._refer_to_initial(segment.initial, document.path)
            newest = self.history.newest
            self._last_max = segment.running_max if newest is None else newest
            self.faults += segment_faults(self._header, document, number, segment, self.history.newest)
            self.faults += digest_faults(document, segment.texts, segment.digests, begin=begin, end=end)

    async def _archive(self, document: Document) -> bytes | None:
        """Return the archived events of a segment; ``None`` if it has none, or they cannot be read."""
        try:
            ref = archive_of(document)
        except StoredDataError:
            return None  # as the segment's own fault says
        if ref is None:
            return None
        self.history.references[ref] = document.path
        return await self._reading.get(ref, document.path)

    def _wrong_window(self, number: int, packed: bytes) -> str:
        """Return what is wrong with the window of a segment; empty if nothing is.

        A read takes that of the newest segment alone, which has events of the segments before it.
        """
        if not packed:
            return ""
        try:
            foreign = {*map(_digest, unpack_segment(packed))}
        except StoredDataError as exc:
            return str(exc)
        if number != self._header.numbers[-1] or any(fault.code in _UNREAD for fault in self.faults):
            return ""
        foreign.difference_update(self._sealed_digests)
        return f"has {len(foreign)} events that no segment before it has" if foreign else ""

    async def _tail(self) -> None:
        stored = self._header.stored
        begin, found = tail_run_head(self._header, self.history)
        self.faults += found
        document = self._header.document
        self.faults += digest_faults(document, stored.tail, stored.digests, begin=begin, end=stored.chain)
        await self._add(self._header.path, stored.tail, begin, stored.chain, code="FSCK107")

    async def _add(self, path: str, texts: Sequence[str], begin: bytes, end: bytes, *, code: str) -> None:
        events: list[StoredEvent | None] = []
        refs: list[PayloadRef] = []
        decoded = await offload(partial(_decoded, texts), light=len(texts) < 2)  # noqa: PLR2004
        for number, one in enumerate(decoded):
            if isinstance(one, str):
                self.faults.append(Fault(code="FSCK111", path=path, item=f"event {number}", says=one))
                events.append(None)
                continue
            refs += one.missing.values()
            whole = one.missing.get(WHOLE)
            event: StoredEvent | None = one
            if whole is not None:
                complete = partial(_completed, one, whole)
                event = await self._reading.unpacked(whole, path, complete)
                refs += () if event is None else event.missing.values()
            events.append(event)
        run = Run(path=path, texts=texts, events=events, begin=begin, end=end, code=code, references=refs)
        await offload(partial(self.history.add, run), light=False)

    def _refer_to_initial(self, initial: Mapping[str, Any] | PayloadRef | None, path: str) -> None:
        refs = {initial} if isinstance(initial, PayloadRef) else refs_in(initial or {})
        self.history.references.update(dict.fromkeys(refs, path))

    async def _initial(self) -> Mapping[str, Any] | None:
        """Return the initial state, ``None`` if it is unknown or damaged."""
        header = self._header
        self._refer_to_initial(header.stored.initial, header.path)
        initial = header.stored.initial
        if self._first is not None and self._first.initial is not None:
            initial = self._first.initial
        self.faults += sealed_initial_fault(header, self._first, header.stored.initial)
        if not isinstance(initial, PayloadRef):
            return initial
        path = self.history.references[initial]
        unpacked = await self._reading.unpacked(initial, path, partial(unpack_initial, initial))
        self._refer_to_initial(unpacked, path)
        return unpacked

    async def _state(self, *, is_whole: bool) -> None:
        header, history = self._header, self.history
        initial = await self._initial()
        history.references.update(dict.fromkeys(refs_in(header.stored.state), header.path))
        if not is_whole:
            return
        is_proven = not any(fault.code in {"FSCK107", "FSCK205"} for fault in self.faults)
        for difference in history.differences(header.stored.state, initial):
            if (ref := difference.ref) is not None and difference.right is not None:
                found = await self._reading.unpacked(ref, header.path, partial(_digest_of, ref))
                if found in (None, difference.right.digest):
                    continue
            self.faults.append(state_fault(header, difference, is_proven=is_proven))

    async def _payloads(self, held: Held) -> list[Fault]:
        header, references_ = self._header, self.history.references
        self.faults += wrong_places(header, references_)
        life = self._layout.chunks_of(self._owner)
        uses_bucket = PayloadPlace.BUCKET in header.stored.spilled or any(
            ref.place is PayloadPlace.BUCKET for ref in references_
        )
        return await self._reading.all_faults(
            references_,
            [chunk for chunk in held.chunks if chunk.path.startswith(life)],
            expiry=header.stored.expiry,
            objects_before=self._look.before if uses_bucket else None,
        )


def _completed(event: StoredEvent, whole: PayloadRef, data: bytes) -> StoredEvent:
    return complete_event(event, {whole: data})


def _digest_of(ref: PayloadRef, data: bytes) -> bytes:
    return digest(unpack_value(ref, data))


def orphan_faults(
    held: Held, named: Mapping[str, Deletion], *, living: object, before: float
) -> Iterator[Fault]:
    """Yield the parts that belong to no session and no deletion; those with an expiry remove themselves."""
    for segment in held.segments:
        epoch, _, number = segment.path.rpartition("/")[2].rpartition("-")
        if epoch == living and number.isdecimal():
            continue
        deletion = named.get(epoch)
        is_named = deletion is not None and number.isdecimal() and int(number) < deletion.sealed
        if not is_named and segment.fields.get("expire_at") is None:
            says = "its session does not exist, and no deletion removes it"
            yield Fault(code="FSCK207", path=segment.path, says=says)
    for chunk in held.chunks:
        life = chunk.path.rpartition("/")[2].rsplit("-", 2)[0]
        is_old = float(chunk.update_time) < before
        deletion = named.get(life)
        is_named = deletion is not None and PayloadPlace.CHUNKS in deletion.spilled
        if life != living and not is_named and is_old and chunk.fields.get("expire_at") is None:
            says = "its session does not exist"
            yield Fault(code="FSCK305", path=chunk.path, says=says)


def _decoded(texts: Sequence[str]) -> list[StoredEvent | str]:
    """Return the events of *texts*, with the reason for one that cannot be read."""
    found: list[StoredEvent | str] = []
    for text in texts:
        try:
            references(text)
            found.append(decode_event(text))
        except StoredDataError as exc:
            found.append(str(exc))
    return found


def _digest(text: str) -> int:
    """Return the first 8 bytes of the hash of an event as it is stored, also of a marker."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
