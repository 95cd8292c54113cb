"""Look at the memories of one user: the head, its shards and vectors, and their payloads."""

from dataclasses import replace

from gcp_adk_store.codec.documents import chunk_owner
from gcp_adk_store.codec.memories import content_text
from gcp_adk_store.codec.memory_documents import MemoryLayout
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.fsck import payloads
from gcp_adk_store.fsck.faults import Fault
from gcp_adk_store.fsck.memories import MemoryCheck
from gcp_adk_store.kernel.ports import Reads
from gcp_adk_store.model.payloads import PayloadOwner, PayloadRef
from gcp_adk_store.sessions.held import Held
from gcp_adk_store.sessions.references import in_texts
from gcp_adk_store.sessions.session_check import Reading, read_all
from gcp_adk_store.sessions.storage import SessionStorage


async def memory_faults(
    storage: SessionStorage, reads: Reads, path: str, held: Held, *, full: bool, before: float
) -> list[Fault]:
    """Return what is wrong with the memories whose head is at *path*."""
    layout = MemoryLayout(storage.layout)
    if held.document is None:
        return await _payload_faults(storage, path, None, held, full=full, before=before)
    check = MemoryCheck.of(held.document)
    if isinstance(check, Fault):
        return [check]
    head = check.head
    for shard in head.shards:
        place = layout.shard(path, head.epoch, shard.number)
        check.take_shard(shard, place, (await reads.get([place]))[0])
    for part in head.vectors.parts:
        place = layout.vectors(path, head.epoch, part.number)
        check.take_vectors(part, place, (await reads.get([place]))[0])
    found = check.end()
    if head.has_ended() and not found:
        return []  # Firestore may have removed some of the payloads
    if any(fault.code in ("FSCK602", "FSCK603") for fault in found):
        return found  # what they refer to is unknown
    return [*found, *await _payload_faults(storage, path, check, held, full=full, before=before)]


async def _payload_faults(
    storage: SessionStorage, path: str, check: MemoryCheck | None, held: Held, *, full: bool, before: float
) -> list[Fault]:
    """Return what is wrong with payloads, each of which goes with its memory."""
    faults: list[Fault] = []
    references: dict[PayloadOwner, dict[PayloadRef, str]] = {}
    for place, memory, text in () if check is None else check.texts:
        if memory.life is None or (check is not None and memory.has_ended(check.head.read_time)):
            continue
        owner = PayloadOwner(path=path, life=memory.life)
        try:
            found = await in_texts(storage.payloads, owner, [content_text(text)])
        except StoredDataError as exc:
            faults.append(Fault(code="FSCK301", path=place, item=memory.life, says=str(exc)))
            continue
        references.setdefault(owner, {}).update(dict.fromkeys(found, place))
    for owner in dict.fromkeys([*references, *_owners_of(held)]):
        used = references.get(owner, {})
        # They expire with their memory, each at its own time.
        chunks = [
            replace(chunk, fields={**chunk.fields, "expire_at": None}) if used else chunk
            for chunk in held.chunks
            if (chunk_owner(chunk.path) or (None,))[0] == owner
        ]
        faults += payloads.chunk_faults(storage.layout, owner, used, chunks, expiry=None, before=before)
        in_bucket = storage.payloads.in_bucket
        if in_bucket is not None and used:
            faults += payloads.object_faults(used, await in_bucket.of(owner), before=0.0)
        if full:
            reading = Reading(storage, owner)
            await read_all(reading, used)
            faults += reading.faults
    return faults


def _owners_of(held: Held) -> list[PayloadOwner]:
    found = (chunk_owner(chunk.path) for chunk in held.chunks)
    return [each[0] for each in found if each is not None]
