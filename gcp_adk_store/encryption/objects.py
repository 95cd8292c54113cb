"""Encrypt payloads around another backend's objects."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from gcp_adk_store.codec.documents import OWNER
from gcp_adk_store.codec.objects import SEALED, ObjectFields, ScannedObject, StoredObject
from gcp_adk_store.encryption.fields import Places, Scope
from gcp_adk_store.encryption.keyring import Keyring
from gcp_adk_store.encryption.sealing import DataKey, LostKey, NotForHereError, OtherKeyError
from gcp_adk_store.errors import KeyDestroyedError, StoredDataError
from gcp_adk_store.kernel.around import Around
from gcp_adk_store.kernel.concurrency import offload
from gcp_adk_store.kernel.operation import running
from gcp_adk_store.kernel.ports import ObjectGoneError, Objects

_MAGIC: Final = b"adk-sealed/1\n"

LIGHT_BYTES: Final = 256 * 1024
"""AES-GCM takes 0.05 ms for so much."""


class SealedObjects(Around[Objects], ABC):
    """What objects whose bytes are encrypted have in common: all but their bytes are those of *inner*."""

    passed_on = frozenset(
        {
            "bucket",
            "close",
            "delete",
            "delete_unchanged",
            "keep_until",
            "kms_key_name",
            "left",
            "mark",
            "names",
            "remove_left",
            "uri_of",
        }
    )

    def __init__(self, inner: Objects, places: Places, keys: Keyring, *, accept_plaintext: bool) -> None:
        super().__init__(inner)
        self._places = places
        self._keys = keys
        self._accept_plaintext = accept_plaintext

    async def infos(self, prefix: str, *, delimiter: str | None, hashes: bool = False) -> list[StoredObject]:
        """As the port; checksums, if any, are those of the stored bytes."""
        found = await self.inner.infos(prefix, delimiter=delimiter, hashes=hashes)
        return [self.plain(each) for each in found]

    async def info(self, name: str) -> StoredObject | None:
        """As the port; checksums, if any, are those of the stored bytes."""
        found = await self.inner.info(name)
        return found and self.plain(found)

    async def scan(self, prefix: str) -> AsyncIterator[list[ScannedObject]]:
        """As the port."""
        async for page in self.inner.scan(prefix):
            yield [replace(each, size=self.plain_size(each)) for each in page]

    def plain(self, stored: StoredObject) -> StoredObject:
        """Return an object as it would be in the clear."""
        return replace(stored, size=self.plain_size(stored))

    @abstractmethod
    def plain_size(self, stored: StoredObject | ScannedObject) -> int:
        """Return the bytes of the content of an object."""

    def _require_plaintext_accepted(self, name: str) -> None:
        """Refuse to read plaintext.

        Raises:
            StoredDataError: it is not accepted.
        """
        if not self._accept_plaintext:
            raise StoredDataError(
                f"object {name!r} is plaintext; KmsEnvelope(accept_plaintext=True) lets the store read it"
            )

    async def _to_read(self, scope: Scope, name: str) -> DataKey:
        """Return the key of *scope*.

        Raises:
            KeyDestroyedError: it does not exist any more.
            StoredDataError: it cannot be unwrapped.
        """
        key = (await self._keys.to_read([scope]))[scope]
        if isinstance(key, LostKey):
            raise StoredDataError(f"object {name!r} is encrypted, and {key.says}")
        if key is None:
            raise KeyDestroyedError(_destroyed(name))
        return key


@contextmanager
def opening(name: str) -> Iterator[None]:
    """Raise what is wrong with an object that cannot be decrypted.

    Raises:
        KeyDestroyedError: its key does not exist any more.
        StoredDataError: it was changed, or made for another name.
    """
    try:
        yield
    except OtherKeyError as exc:
        raise KeyDestroyedError(_destroyed(name)) from exc
    except NotForHereError as exc:
        raise StoredDataError(f"object {name!r} was changed, or made for another place") from exc


class SealedPayloadObjects(SealedObjects):
    """The objects of *inner* that hold payloads, whose bytes are encrypted there and plain here.

    An object begins with a line and the path of the document that its key belongs to, in clear, as in its
    metadata. Its bytes are bound to its name: the digest of its owner, the owner's life and the SHA-256.
    """

    async def create(
        self, name: str, upload: ObjectFields, *, marks: Mapping[str, str] | None = None
    ) -> None:
        """As the port; the owner in the metadata says whose key encrypts."""
        scope = self._places.scope(upload.metadata[OWNER])
        key = (await self._keys.to_write([scope]))[scope]
        if operation := running():
            operation.payload_keys[scope] = key.id
        header = _MAGIC + scope.path.encode() + b"\n"
        sealed = await offload(
            lambda: header + key.seal(upload.data, name.encode()), light=len(upload.data) <= LIGHT_BYTES
        )
        added = {SEALED: f"{len(sealed) - len(upload.data)}"}
        upload = replace(upload, data=sealed, metadata={**upload.metadata, **added})
        await self.inner.create(name, upload, marks=None if marks is None else {**marks, **added})

    async def copy(self, source: StoredObject, name: str, fields: ObjectFields) -> None:
        """As the port, but read and written again: ciphertext is bound to its name."""
        read = await self.read(source.name, generation=source.generation)
        if read is None:
            raise ObjectGoneError
        await self.create(name, replace(fields, data=read[0]))

    async def read(
        self, name: str, *, generation: int | None, part: tuple[int, int] | None = None
    ) -> tuple[bytes, int] | None:
        """As the port; of a *part*, everything is read.

        Raises:
            StoredDataError: the object is not encrypted, or was made for another name.
            KeyDestroyedError: its key does not exist any more.
        """
        found = await self.inner.read(name, generation=generation)
        if found is None:
            return None
        data = await self._opened(name, found[0])
        return data if part is None else data[part[0] : part[1]], found[1]

    async def _opened(self, name: str, stored: bytes) -> bytes:
        if not stored.startswith(_MAGIC):
            self._require_plaintext_accepted(name)
            return stored
        path, _, sealed = stored[len(_MAGIC) :].partition(b"\n")
        try:
            scope = self._places.scope(path.decode())
        except ValueError as exc:
            raise StoredDataError(f"object {name!r} is encrypted in an unknown way") from exc
        key = await self._to_read(scope, name)
        with opening(name):
            return await offload(lambda: key.open(sealed, name.encode()), light=len(sealed) <= LIGHT_BYTES)

    def plain_size(self, stored: StoredObject | ScannedObject) -> int:
        """Return its size without the bytes that encryption added, whose number is in its metadata."""
        text = stored.metadata.get(SEALED, "")
        return stored.size - (int(text) if text.isdecimal() and len(text) <= len("999999") else 0)


def _destroyed(name: str) -> str:
    return f"object {name!r} is encrypted with a key that does not exist any more"
