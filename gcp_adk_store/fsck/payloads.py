"""Decide what is wrong with the payloads of one owner: a session, a user or an app."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gcp_adk_store.codec.documents import Layout, chunk_owner
from gcp_adk_store.codec.spilling import CHUNK_BYTES
from gcp_adk_store.codec.stored import read_chunk
from gcp_adk_store.codec.writes import Document
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.fsck.faults import Fault
from gcp_adk_store.fsck.sessions import part_expiry_faults
from gcp_adk_store.model.expiry import Expiry
from gcp_adk_store.model.garbage import StoredPayload
from gcp_adk_store.model.payloads import PayloadOwner, PayloadPlace, PayloadRef

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
) -> list[Fault]:
    """Return what is wrong with the *chunks* below an owner, and with *references* to them.

    A chunk that nothing refers to is a fault if it was written *before* this Unix time.
    """
    found = []
    there = {chunk.path: chunk for chunk in chunks}
    used: set[str] = set()
    known = {ref.sha256: ref for ref in references if ref.place is PayloadPlace.CHUNKS}
    for ref in known.values():
        paths = layout.chunks(owner, ref)
        used.update(paths)
        gone = [path for path in paths if path not in there]
        if gone:
            says = f"{len(gone)} of its {len(paths)} chunks are missing"
            found.append(Fault(code="FSCK301", path=references[ref], item=ref.sha256, says=says))
        for path in paths:
            if path in there:
                found += _chunk_faults(there[path]) + part_expiry_faults(expiry, there[path])
    for path, chunk in there.items():
        if path in used:
            continue
        whose = chunk_owner(path)
        if whose is not None and whose[0] == owner and whose[1] in known:
            size = known[whose[1]].size
            says = f"is there, the reference says {size} bytes, which take {-(-size // CHUNK_BYTES)} chunks"
            found.append(Fault(code="FSCK302", path=path, item=whose[1], says=says))
        elif whose is None:
            found.append(Fault(code="FSCK304", path=path, says="its name is not that of a chunk"))
        elif float(chunk.update_time) < before and chunk.fields.get("expire_at") is None:
            found.append(Fault(code="FSCK305", path=path, item=whose[1], says="nothing refers to it"))
    return found


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


def content_faults(ref: PayloadRef, path: str, data: bytes | None) -> list[Fault]:
    """Return what is wrong with the bytes of a payload, which the document at *path* refers to."""
    if data is None:
        return [Fault(code="FSCK301", path=path, item=ref.sha256, says="it is missing")]
    if len(data) != ref.size:
        says = f"it has {len(data)} bytes, the reference says {ref.size}"
        return [Fault(code="FSCK302", path=path, item=ref.sha256, says=says)]
    if not ref.fits(data):
        return [Fault(code="FSCK303", path=path, item=ref.sha256, says="its bytes have another SHA-256")]
    return []


def _chunk_faults(chunk: Document) -> list[Fault]:
    try:
        read_chunk(replace(chunk, fields={**chunk.fields, "body": b""}))
    except StoredDataError as exc:
        return [Fault(code="FSCK304", path=chunk.path, says=str(exc))]
    return []
