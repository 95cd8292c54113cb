"""Lay out the documents of data keys, in a database of their own.

::

    {prefix}_keys/{SHA-256 of the scope}      a wrapped data key, or the note that one was destroyed

docs/encryption.md lists every field.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import Field

from gcp_adk_store.codec.documents import UNCHANGED_FORMAT
from gcp_adk_store.codec.stored import DocumentFields, Number, read_fields
from gcp_adk_store.codec.values import FieldValue
from gcp_adk_store.codec.writes import Delete, Document, Must, Write
from gcp_adk_store.encryption.places import Scope
from gcp_adk_store.encryption.sealing import KEY_ID_BYTES
from gcp_adk_store.settings.envelope import Wrapped

_NOTED_S: Final = 24 * 3600
"""How long the note of a destroyed key is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """A wrapped data key as it is stored."""

    id: bytes
    wrapped: Wrapped
    update_time: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Destroyed:
    """The note that a data key was destroyed."""

    at: float
    """Unix time by the database's clock, in seconds."""
    free_at: float
    """From then on no process has the key any more, so another one can take its place."""
    update_time: str = ""

    @property
    def is_over_at(self) -> float:
        """When nobody needs the note any more."""
        return max(self.at + _NOTED_S, self.free_at)


class _Key(DocumentFields):
    id: Annotated[bytes, Field(min_length=KEY_ID_BYTES, max_length=KEY_ID_BYTES)]
    wrapped: Annotated[bytes, Field(max_length=10_000)]
    version: Annotated[str, Field(max_length=1000)]


class _Destroyed(DocumentFields):
    destroyed_at: Number
    free_at: Number


class KeyLayout:
    """Paths and writes of the data keys below one prefix."""

    def __init__(self, prefix: str) -> None:
        self.collection = f"{prefix}_keys"
        """Id of the collection."""

    def path(self, scope: Scope) -> str:
        """Path of the document of a scope's key."""
        return f"{self.collection}/{scope.name}"

    def context(self, path: str) -> bytes:
        """Return what the wrapped key at *path* is bound to: it unwraps nowhere else."""
        return f"gcp-adk-store/1/{path}".encode()

    def put(
        self, scope: Scope, key_id: bytes, wrapped: Wrapped, *, now: float, before: Destroyed | None
    ) -> Write:
        """Return the write of a new key, which requires that none is there but *before*."""
        return Write(
            path=self.path(scope),
            fields={
                "format": UNCHANGED_FORMAT,
                "kind": scope.kind,
                "id": key_id,
                "wrapped": wrapped.data,
                "version": wrapped.version,
                "create_time": now,
            },
            must=Must.BE_ABSENT if before is None else before.update_time,
        )

    def rewrap(self, path: str, stored: StoredKey, wrapped: Wrapped) -> Write:
        """Return the write that wraps the key at *path* anew, if it is as *stored*."""
        fields: dict[str, FieldValue] = {"wrapped": wrapped.data, "version": wrapped.version}
        return Write(path=path, fields=fields, mask=[(name,) for name in fields], must=stored.update_time)

    def destroy(self, scope: Scope, stored: StoredKey, destroyed: Destroyed) -> Write:
        """Return the write that puts a note in the place of a key, if it is as *stored*."""
        return Write(
            path=self.path(scope),
            fields={
                "format": UNCHANGED_FORMAT,
                "kind": scope.kind,
                "destroyed_at": destroyed.at,
                "free_at": destroyed.free_at,
                "expire_at": datetime.fromtimestamp(destroyed.is_over_at, UTC),
            },
            must=stored.update_time,
        )

    def forget(self, path: str, destroyed: Destroyed) -> Delete:
        """Return the delete of a note that nobody needs any more, if it is as it was read."""
        return Delete(path=path, must=destroyed.update_time)


def read_key_document(document: Document) -> StoredKey | Destroyed:
    """Return the key in *document*, or the note that it was destroyed.

    Raises:
        StoredDataError: it has another format, lacks a field or is damaged.
    """
    if "destroyed_at" in document.fields:
        note = read_fields(_Destroyed, document)
        return Destroyed(at=note.destroyed_at, free_at=note.free_at, update_time=document.update_time)
    key = read_fields(_Key, document)
    wrapped = Wrapped(key.wrapped, key.version)
    return StoredKey(id=key.id, wrapped=wrapped, update_time=document.update_time)
