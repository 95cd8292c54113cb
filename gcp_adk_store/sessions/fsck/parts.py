"""Judge what belongs to a session: payloads, its origin, its turn, notes."""

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import chain
from typing import Final

from gcp_adk_store.codec.documents import Deletion, Layout, chunk_owner
from gcp_adk_store.codec.encode import CHUNK_BYTES
from gcp_adk_store.codec.stored import read_chunk
from gcp_adk_store.codec.turns import WaitingMessage, content_of
from gcp_adk_store.codec.writes import Delete, Document
from gcp_adk_store.errors import InvalidInputError, StoredDataError
from gcp_adk_store.model.payloads import PayloadOwner, PayloadPlace, PayloadRef, StoredPayload
from gcp_adk_store.model.session_fields import MAX_LEASE_S, MAX_WAITING, MAX_WAITING_BYTES, Expiry
from gcp_adk_store.sessions.describe.decide import Description
from gcp_adk_store.sessions.fsck.faults import Fault
from gcp_adk_store.sessions.fsck.sessions import Header, part_expiry_faults
from gcp_adk_store.sessions.lifecycle.format import read_deletions
from gcp_adk_store.sessions.restore.format import read_restores

_RESTORE_ID: Final = re.compile(r"[0-9a-f]{32}")


def field_faults(header: Header) -> Iterator[Fault]:
    """Yield what contradicts itself in the fields that restores, forks, descriptions and turns write."""
    return chain(_restored(header), _origin(header), _described(header), _turn(header), _inbox(header))


def _restored(header: Header) -> Iterator[Fault]:
    restores, restore_id = header.stored.restores, header.raw.get("restore_id")
    # Each restore takes the number that the tail had.
    if restores > len(header.cut) or bool(restores) != bool(header.cut):
        says = f"is {restores}, and {len(header.cut)} numbers of segments are cut off"
        yield header.fault("FSCK114", "restores", says)
    is_id = isinstance(restore_id, str) and _RESTORE_ID.fullmatch(restore_id) is not None
    if is_id != bool(restores) or (restore_id is not None and not is_id):
        says = "is not the id of a restore" if restores else "is set, and the session was not restored"
        yield header.fault("FSCK114", "restore_id", says)


def _origin(header: Header) -> Iterator[Fault]:
    stored = header.stored
    origin = stored.origin
    if origin is None:
        return
    if origin.app != stored.key.app:
        yield header.fault("FSCK115", "origin.app", "is another app")
    if not origin.session:
        yield header.fault("FSCK115", "origin.session", "is empty")
    if not origin.epoch or origin.epoch == stored.epoch:
        yield header.fault("FSCK115", "origin.epoch", "is empty, or that of the fork itself")
    if origin.position > stored.revision and not stored.restores:
        says = f"is {origin.position}, rev is {stored.revision}"
        yield header.fault("FSCK115", "origin.position", says)


def _described(header: Header) -> Iterator[Fault]:
    for name in ("title", "labels"):
        value = header.raw.get(name, ...)
        try:
            Description(title=value if name == "title" else ..., labels=value if name == "labels" else ...)
            is_right = value is not None
        except InvalidInputError:
            is_right = False
        if not is_right:
            yield header.fault("FSCK116", name, "breaks the limits of update_session_info")


CHUNK_FIELDS = ("format", "put_time", "expire_at")
"""The part of a chunk that a check reads of each."""


def chunk_faults(
    layout: Layout,
    owner: PayloadOwner,
    references: Mapping[PayloadRef, str],
    chunks: Sequence[Document],
    *,
    expiry: Expiry | None,
    before: float,
) -> Iterator[Fault]:
    """Yield what is wrong with the *chunks* below an owner, and with *references* to them.

    A chunk that nothing refers to is a fault if it was written *before* this Unix time.
    """
    there = {chunk.path: chunk for chunk in chunks}
    used: set[str] = set()
    known = {ref.sha256: ref for ref in references if ref.place is PayloadPlace.CHUNKS}
    for ref in known.values():
        paths = layout.chunks(owner, ref)
        used.update(paths)
        gone = [path for path in paths if path not in there]
        if gone:
            says = f"{len(gone)} of its {len(paths)} chunks are missing"
            yield Fault(code="FSCK301", path=references[ref], item=ref.sha256, says=says)
        for path in paths:
            if path in there:
                yield from _chunk_faults(there[path])
                yield from part_expiry_faults(expiry, there[path])
    for path, chunk in there.items():
        if path in used:
            continue
        whose = chunk_owner(path)
        if whose is not None and whose[0] == owner and whose[1] in known:
            size = known[whose[1]].size
            says = f"is there, the reference says {size} bytes, which take {-(-size // CHUNK_BYTES)} chunks"
            yield Fault(code="FSCK302", path=path, item=whose[1], says=says)
        elif whose is None:
            yield Fault(code="FSCK304", path=path, says="its name is not that of a chunk")
        elif float(chunk.update_time) < before and chunk.fields.get("expire_at") is None:
            yield Fault(code="FSCK305", path=path, item=whose[1], says="nothing refers to it")


def object_faults(
    references: Mapping[PayloadRef, str], objects: Sequence[StoredPayload], *, before: float
) -> Iterator[Fault]:
    """Yield what is wrong with the *objects* of one owner, and with *references* to them; as with chunks."""
    there = {found.name.rpartition("/")[2]: found for found in objects}
    known = {ref.sha256: ref for ref in references if ref.place is PayloadPlace.BUCKET}
    for sha256, ref in known.items():
        found = there.get(sha256)
        if found is None:
            yield Fault(code="FSCK301", path=references[ref], item=sha256, says="its object is missing")
        elif found.size != ref.size:
            says = f"its object has {found.size} bytes, the reference says {ref.size}"
            yield Fault(code="FSCK302", path=references[ref], item=sha256, says=says)
    for sha256, found in there.items():
        if found.owner is None:
            yield Fault(code="FSCK304", path=found.name, item=sha256, says="it does not name its owner")
        elif sha256 not in known and found.put_at < before:
            yield Fault(code="FSCK305", path=found.name, item=sha256, says="nothing refers to it")


def _chunk_faults(chunk: Document) -> Iterator[Fault]:
    try:
        read_chunk(replace(chunk, fields={**chunk.fields, "body": b""}))
    except StoredDataError as exc:
        yield Fault(code="FSCK304", path=chunk.path, says=str(exc))


_DRIFT_S: Final = 3600.0
"""How far the clocks of the writer and of this look may differ."""


def _turn(header: Header) -> Iterator[Fault]:
    turn, now = header.stored.turn, header.stored.read_time
    if turn is None:
        return  # messages may wait before the first turn
    if not turn.fence:
        yield header.fault("FSCK118", "turn.fence", "is 0 after a turn")
    if bool(turn.holder) != (turn.until is not None):
        says = "is set without until" if turn.holder else "is missing, and until is set"
        yield header.fault("FSCK118", "turn.holder", says)
    if turn.abort and turn.until is None:
        yield header.fault("FSCK118", "turn.abort", "is set after the end")
    if turn.until is not None and turn.until > now + MAX_LEASE_S + _DRIFT_S:
        says = f"is {turn.until - now:.0f} s ahead, a lease has at most {MAX_LEASE_S:.0f} s"
        yield header.fault("FSCK118", "turn.until", says)


def _inbox(header: Header) -> Iterator[Fault]:
    texts = header.stored.inbox
    ids, unreadable = [], 0
    for text in texts:
        try:
            waiting = WaitingMessage.parse(text)
            content_of(waiting.message)
            ids.append(waiting.id)
        except StoredDataError:
            unreadable += 1
    if unreadable:
        says = f"has {len(texts)} messages, of which {unreadable} cannot be read: they stop each turn"
        yield header.fault("FSCK119", "inbox", says)
    if len(set(ids)) < len(ids):
        yield header.fault("FSCK119", "inbox.id", "has a message more than once")
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    if len(texts) > MAX_WAITING or size > MAX_WAITING_BYTES:
        says = f"is {len(texts)} messages of {size} bytes; {MAX_WAITING} of {MAX_WAITING_BYTES} is the most"
        yield header.fault("FSCK119", "inbox.size", says)


_FORK_FORMAT = 2
"""The format of a note that older releases must not take for one of a deletion."""


def deletion_faults(
    notes: Sequence[Document], *, living: object, before: float
) -> tuple[list[Fault], dict[str, Deletion]]:
    """Return what is wrong with notes of deletions and forks, and what they name by their epochs.

    *living* is the epoch of the session that has the id now. A note from *before* this Unix time is old.
    """
    found: list[Fault] = []
    named: dict[str, Deletion] = {}
    for note in notes:
        try:
            (deletion,) = read_deletions([note])
        except StoredDataError as exc:
            found.append(Fault(code="FSCK501", path=note.path, says=str(exc)))
            continue
        named[deletion.epoch] = deletion
        found += _kind_faults(note)
        if deletion.epoch == living:
            says = "its epoch is that of the living session"
            repair = Delete(path=note.path, must=note.update_time)
            found.append(Fault(code="FSCK502", path=note.path, says=says, repair=(repair,)))
        elif float(note.update_time) < before:
            what = "deletion" if deletion.making is None else "fork"
            found.append(Fault(code="FSCK503", path=note.path, says=f"the {what} was interrupted"))
    return found, named


def _kind_faults(note: Document) -> list[Fault]:
    """Return a fault if a note is half of a deletion, half of a fork."""
    is_fork = note.fields["format"] == _FORK_FORMAT
    kinds = {type(note.fields.get(name)) for name in ("making", "artifacts")}
    if kinds == {bool if is_fork else type(None)}:
        return []
    says = "its format is not that of a deletion, or making and artifacts are not those of a fork"
    return [Fault(code="FSCK501", path=note.path, item="making", says=says)]


def restore_faults(
    notes: Sequence[Document], *, living: object, cut: AbstractSet[int] | None, before: float
) -> tuple[list[Fault], frozenset[int]]:
    """Return what is wrong with notes of restores, and the segments of the *living* session that they name.

    *cut* has the numbers that restores cut off; ``None`` if they are unknown.
    """
    found: list[Fault] = []
    named: set[int] = set()
    for note in notes:
        try:
            (restore,) = read_restores([note])
        except StoredDataError as exc:
            found.append(Fault(code="FSCK504", path=note.path, says=str(exc)))
            continue
        numbers = {*restore.numbers}
        if restore.artifacts is None and not numbers:
            says = "names neither segments nor artifacts"
            found.append(Fault(code="FSCK504", path=note.path, item="segments", says=says))
        if restore.epoch == living:
            named |= numbers
            if cut is not None and numbers - cut:
                says = f"names {len(numbers - cut)} segments that no restore cut off"
                found.append(Fault(code="FSCK505", path=note.path, item="segments", says=says))
        if float(note.update_time) < before:
            found.append(Fault(code="FSCK506", path=note.path, says="the restore was interrupted"))
    return found, frozenset(named)
