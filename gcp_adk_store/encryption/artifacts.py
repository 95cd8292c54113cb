"""Encrypt artifacts around another backend's objects and uploads."""

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from gcp_adk_store.codec.names import is_upload_name
from gcp_adk_store.codec.objects import ENCRYPTED, ObjectFields, ScannedObject, StoredObject, checked_metadata
from gcp_adk_store.encryption.fields import Places
from gcp_adk_store.encryption.keyring import Keyring
from gcp_adk_store.encryption.objects import LIGHT_BYTES, SealedObjects, opening
from gcp_adk_store.encryption.sealing import (
    FRAME_BYTES,
    HEADER_BYTES,
    MAGIC,
    STORED_FRAME_BYTES,
    NotForHereError,
    Stream,
    content_before,
    content_size,
    frames_of,
    stored_size,
)
from gcp_adk_store.errors import InvalidInputError, StoredDataError, UnavailableError
from gcp_adk_store.kernel.concurrency import Lru, offload
from gcp_adk_store.kernel.ports import CHUNK_BYTES, NoUrls, ObjectGoneError, Objects, ReadAt, Uploads

_KNOWN: Final = 10_000
"""Objects whose size and header a process remembers, of about 300 bytes each, for reads of their parts."""


class _Seen(NamedTuple):
    """An object as the bucket has it."""

    generation: int
    size: int
    header: bytes | None
    """``None`` for plaintext."""


class SealedArtifactUploads:
    """The uploads of *inner*, whose bytes are encrypted there and plain here."""

    def __init__(self, inner: Uploads, places: Places, keys: Keyring) -> None:
        self._uploads = inner
        self._places = places
        self._keys = keys

    async def create(
        self,
        name: str,
        fields: ObjectFields,
        *,
        size: int,
        read_at: ReadAt,
        on_progress: Callable[[int], None],
    ) -> None:
        """As the port; takes some megabytes more for the ciphertext of one request.

        Raises:
            UnavailableError: also if Cloud Storage loses pieces that it had.
        """
        stream = await self.begin(name)
        sealing = _Sealing(stream, size, read_at)
        await self._uploads.create(
            name,
            sealed_fields(fields, stream),
            size=stored_size(size),
            read_at=sealing.read_at,
            on_progress=lambda have: on_progress(min(size, content_before(have))),
        )

    async def begin(self, name: str) -> Stream:
        """Return a new stream for the artifact in the object *name*, under the key of its user."""
        scope = self._places.artifact_scope(name)
        key = (await self._keys.to_write([scope]))[scope]
        return Stream.begin(key, name.encode())


class _Sealing:
    """The ciphertext of one upload, which is made in order.

    No frame is encrypted twice, because the source may have changed: what was made for the last request is
    kept, for the case that only a part of it arrived.
    """

    def __init__(self, stream: Stream, size: int, read_at: ReadAt) -> None:
        self._stream = stream
        self._size = size
        self._read_at = read_at
        self._start = 0
        self._made = stream.header
        self._frame = 0

    async def read_at(self, start: int, size: int) -> bytes:
        """Return *size* bytes of ciphertext from *start* on, which does not lie before an earlier one."""
        if start < self._start:
            raise UnavailableError("Cloud Storage lost a piece of the upload; save again")
        self._made = self._made[start - self._start :]
        self._start = start
        missing = size - len(self._made)
        if missing > 0:
            self._made += await self._next(-(-missing // STORED_FRAME_BYTES))
        return self._made[:size]

    async def _next(self, count: int) -> bytes:
        """Return the next *count* frames, or those that are left."""
        first = self._frame
        begin, end = first * FRAME_BYTES, min(self._size, (first + count) * FRAME_BYTES)
        data = await self._read_at(begin, end - begin)
        self._frame += count
        return await offload(
            lambda: self._stream.seal(data, first=first, ends=end == self._size),
            light=len(data) <= LIGHT_BYTES,
        )


class SealedArtifactObjects(SealedObjects):
    """The objects of *inner* that hold artifacts, whose bytes are encrypted there and plain here.

    Their names, content types and metadata are clear. A metadata key says how the bytes begin, so that
    listings know the size of the content, and reads of a part need no other request. Sizes here are those of
    the content; encrypted objects have no checksums here, because each frame is authenticated.
    """

    def __init__(
        self,
        inner: Objects,
        places: Places,
        keys: Keyring,
        uploads: SealedArtifactUploads,
        *,
        accept_plaintext: bool,
    ) -> None:
        super().__init__(inner, places, keys, accept_plaintext=accept_plaintext)
        self._uploads = uploads
        self._known: Lru[tuple[str, int], _Seen] = Lru(_KNOWN)

    async def create(
        self, name: str, upload: ObjectFields, *, marks: Mapping[str, str] | None = None
    ) -> None:
        """As the port; the artifact's user is the one whose key encrypts."""
        if is_upload_name(name):  # a file that a browser may read and write
            await self.inner.create(name, upload, marks=marks)
            return
        stream = await self._uploads.begin(name)
        data = await offload(
            lambda: stream.header + stream.seal(upload.data, first=0, ends=True),
            light=len(upload.data) <= LIGHT_BYTES,
        )
        await self.inner.create(name, replace(sealed_fields(upload, stream), data=data), marks=marks)

    async def copy(self, source: StoredObject, name: str, fields: ObjectFields) -> None:
        """As the port, but read and written again: ciphertext is bound to its name and its user.

        A request reads or writes 8 MiB.
        """

        async def read_at(start: int, size: int) -> bytes:
            read = await self.read(source.name, generation=source.generation, part=(start, start + size))
            if read is None:
                raise ObjectGoneError
            return read[0]

        if source.size > CHUNK_BYTES and source.content_encoding is None:
            await self._uploads.create(
                name, fields, size=source.size, read_at=read_at, on_progress=lambda _: None
            )
            return
        read = await self.read(source.name, generation=source.generation)
        if read is None:
            raise ObjectGoneError
        await self.create(name, replace(fields, data=read[0]))

    async def read(
        self, name: str, *, generation: int | None, part: tuple[int, int] | None = None
    ) -> tuple[bytes, int] | None:
        """As the port; a *part* takes 1 request more if this process has not seen the object lately.

        Raises:
            StoredDataError: the object is not encrypted, was made for another name, or lacks a frame.
            KeyDestroyedError: its key does not exist any more.
        """
        if part is not None:
            return await self._read_part(name, generation, part)
        found = await self.inner.read(name, generation=generation)
        if found is None:
            return None
        stored, generation = found
        if not stored.startswith(MAGIC):
            self._require_plaintext_accepted(name)
            return found
        return await self._opened(
            name, stored[:HEADER_BYTES], stored[HEADER_BYTES:], 0, ends=True
        ), generation

    async def _read_part(
        self, name: str, generation: int | None, part: tuple[int, int]
    ) -> tuple[bytes, int] | None:
        """Read the frames that *part* lies in."""
        seen = None if generation is None else self._known.lookup((name, generation))
        if seen is None:
            found = await self.inner.info(name)
            if found is None or generation not in {None, found.generation}:
                return None
            seen = _seen(found)
        if seen.header is None:
            self._require_plaintext_accepted(name)
            return await self.inner.read(name, generation=seen.generation, part=part)
        start, end = part
        size = content_size(seen.size)
        if not 0 <= start <= end <= size:
            raise InvalidInputError(
                f"bytes {start} to {end} are not within the {size} of the object; read fewer"
            )
        last = frames_of(size) - 1
        first = min(start // FRAME_BYTES, last)
        after = max(first + 1, -(-end // FRAME_BYTES))
        frames = HEADER_BYTES + first * STORED_FRAME_BYTES, HEADER_BYTES + after * STORED_FRAME_BYTES
        read = await self.inner.read(
            name, generation=seen.generation, part=(frames[0], min(frames[1], seen.size))
        )
        if read is None:
            return None
        data = await self._opened(name, seen.header, read[0], first, ends=after > last)
        return data[start - first * FRAME_BYTES : end - first * FRAME_BYTES], read[1]

    async def _opened(self, name: str, header: bytes, frames: bytes, first: int, *, ends: bool) -> bytes:
        try:
            scope = self._places.artifact_scope(name)
        except ValueError as exc:
            raise StoredDataError(f"object {name!r} is encrypted, and no artifact has this name") from exc
        key = await self._to_read(scope, name)
        with opening(name):
            stream = Stream(key, header, name.encode())
            return await offload(
                lambda: stream.open(frames, first=first, ends=ends), light=len(frames) <= LIGHT_BYTES
            )

    def plain(self, stored: StoredObject) -> StoredObject:
        """Return an object as it would be in the clear, and remember how it is stored."""
        seen = _seen(stored)
        self._known.put((stored.name, stored.generation), seen)
        if seen.header is None:
            return stored
        metadata = {key: text for key, text in stored.metadata.items() if key != ENCRYPTED}
        return replace(stored, size=content_size(stored.size), metadata=metadata, crc32c=None, md5=None)

    def plain_size(self, stored: StoredObject | ScannedObject) -> int:
        """Return the bytes of its content, if its metadata call it encrypted."""
        return stored.size if _header(stored.metadata, stored.size) is None else content_size(stored.size)


NO_URLS: Final = NoUrls(
    "this store encrypts artifacts, so a browser cannot read or write them by a URL; read with "
    "load_artifact or load_artifact_to, write with save_artifact or save_artifact_file, or keep what "
    "browsers need in a store without KmsEnvelope(artifacts=True)"
)
"""Refuses to sign: a browser can neither read nor write ciphertext."""


def sealed_fields(fields: ObjectFields, stream: Stream) -> ObjectFields:
    """Return the properties of an object that holds *stream*.

    Raises:
        InvalidInputError: the metadata leave no room for how the stream begins.
    """
    began = base64.b64encode(stream.header[len(MAGIC) :]).decode()
    return replace(fields, metadata=checked_metadata({**fields.metadata, ENCRYPTED: began}))


def _seen(stored: StoredObject) -> _Seen:
    return _Seen(stored.generation, stored.size, _header(stored.metadata, stored.size))


def _header(metadata: Mapping[str, str], size: int) -> bytes | None:
    """Return how the bytes of an object of *size* begin that its metadata call encrypted."""
    try:
        header = MAGIC + base64.b64decode(metadata.get(ENCRYPTED, ""), validate=True)
        content_size(size)
    except (binascii.Error, ValueError, NotForHereError):
        return None
    return header if len(header) == HEADER_BYTES else None
