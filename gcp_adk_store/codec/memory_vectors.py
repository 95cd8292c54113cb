"""Encode the vectors of a user's memories: rows, documents of rows, and what the head says of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil

from pydantic import BaseModel, ConfigDict

from gcp_adk_store.codec.documents import UNCHANGED_FORMAT
from gcp_adk_store.codec.kinds import Count, DocumentFields, read_fields, wrong
from gcp_adk_store.codec.values import FieldValue
from gcp_adk_store.codec.writes import Document
from gcp_adk_store.model.expiry import PARTS_GRACE_S
from gcp_adk_store.model.memories import DIGEST_BYTES, VectorPart, Vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVectors:
    """A document of vectors to be written."""

    part: VectorPart
    body: bytes


class Part(BaseModel):
    """What the stored head says of a document of vectors."""

    model_config = ConfigDict(strict=True)

    n: Count
    count: Count
    bytes: Count
    until: float | None = None


class _Rows(DocumentFields):
    body: bytes
    dimensions: Count


def new_vectors(number: int, rows: Sequence[bytes], *, until: float | None) -> NewVectors:
    """Return the document of *rows*, whose memories end at *until*."""
    body = b"".join(rows)
    return NewVectors(part=VectorPart(number=number, count=len(rows), size=len(body), until=until), body=body)


def rows_in(body: bytes, dimensions: int) -> list[bytes]:
    """Return the rows that lie one after the other in *body*."""
    size = DIGEST_BYTES + dimensions
    return [body[at : at + size] for at in range(0, len(body), size)]


def read_vectors(document: Document, *, dimensions: int) -> bytes:
    """Return the rows in a document of vectors, one after the other.

    Raises:
        StoredDataError: as :func:`read_memory_head`.
    """
    fields = read_fields(_Rows, document)
    if fields.dimensions != dimensions or len(fields.body) % (DIGEST_BYTES + dimensions):
        raise wrong(document, "body or dimensions")
    return fields.body


def vectors_in(
    document: Document, embedder: str, dimensions: int, fresh: Sequence[bytes], parts: Sequence[Part]
) -> Vectors:
    """Return what the head in *document* says of vectors, in these fields.

    Raises:
        StoredDataError: a row has another size.
    """
    size = DIGEST_BYTES + dimensions
    if any(len(row) != size for row in fresh):
        raise wrong(document, "fresh")
    return Vectors(
        embedder=embedder,
        dimensions=dimensions,
        fresh=tuple(fresh),
        parts=tuple(
            VectorPart(number=each.n, count=each.count, size=each.bytes, until=each.until) for each in parts
        ),
    )


def of_vectors(vectors: Vectors) -> dict[str, FieldValue]:
    """Return the fields of the head that describe *vectors*; without an embedder, nothing."""
    if not vectors.embedder:
        return {}
    return {
        "embedder": vectors.embedder,
        "dimensions": vectors.dimensions,
        "fresh": list(vectors.fresh),
        "vectors": [of_part(part) for part in vectors.parts],
    }


def of_part(part: VectorPart) -> dict[str, FieldValue]:
    """Return how the head encodes *part*."""
    return {
        "n": part.number,
        "count": part.count,
        "bytes": part.size,
        **({} if part.until is None else {"until": part.until}),
    }


def rows_fields(new: NewVectors, dimensions: int) -> dict[str, FieldValue]:
    """Return the fields of a document of vectors."""
    return {
        "format": UNCHANGED_FORMAT,
        "body": new.body,
        "dimensions": dimensions,
        **({} if new.part.until is None else {"expire_at": time_after(new.part.until)}),
    }


def time_after(end: float) -> datetime:
    """Return when Firestore may remove what ends at *end*, in Unix time."""
    return datetime.fromtimestamp(ceil(end) + PARTS_GRACE_S, UTC)
