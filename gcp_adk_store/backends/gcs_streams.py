"""Move objects to and from files, some megabytes in memory at a time.

Here the storage client repeats what fails, because it alone knows how far a transfer has come: chunk by chunk
for an upload, from the last byte that arrived for a download. No time bounds a transfer as a whole; a server
that is silent is given up after ``deadline_s`` of retries.
"""

import asyncio
import base64
import threading
from collections.abc import Callable
from typing import Any, BinaryIO, Final, Self

import google_crc32c
from google.api_core import exceptions as api
from google.cloud.storage.retry import DEFAULT_RETRY

from gcp_adk_store.backends import translate
from gcp_adk_store.backends.gcs import Objects
from gcp_adk_store.backends.storage_calls import Permission, StorageCalls
from gcp_adk_store.codec.objects import ObjectFields, StoredObject

CHUNK_BYTES: Final = 8 * 1024 * 1024
"""Bytes of an upload in one request: a multiple of 256 KiB, as Cloud Storage demands."""

OnProgress = Callable[[int, int], object]
"""Called in the event loop with the bytes moved so far, and all of them."""


class ObjectStreams:
    """Transfers between the objects of one bucket and files."""

    def __init__(self, calls: StorageCalls, objects: Objects, *, deadline_s: float) -> None:
        self._calls = calls
        self._objects = objects
        self._retry = DEFAULT_RETRY.with_timeout(deadline_s)

    async def upload(
        self,
        name: str,
        file: BinaryIO,
        fields: ObjectFields,
        *,
        size: int,
        on_progress: OnProgress | None,
        what: str,
    ) -> None:
        """Write an object that must not exist yet from *file*, whose CRC32C is compared at the end.

        Raises:
            ConditionFailedError: it exists; it may be this call's own, whose answer was lost.
            OutcomeUnknownError: sent and not answered before the deadline.
            NotProvisionedError, AccessDeniedError: nothing was written.
        """
        with _Watch(file, size, on_progress) as watched:

            def send(bucket: Any, timeout_s: float) -> None:
                file.seek(0)
                blob = self._objects.blob_of(bucket, name, fields)
                blob.chunk_size = CHUNK_BYTES
                blob.upload_from_file(
                    watched,
                    size=size,
                    content_type=fields.content_type,
                    if_generation_match=0,
                    checksum="crc32c",
                    timeout=timeout_s,
                    retry=self._retry,
                )

            await self._calls.stream(send, Permission.CREATE, what=what, error=translate.storage_write_error)
            watched.report(size)

    async def download(
        self, found: StoredObject, file: BinaryIO, *, on_progress: OnProgress | None, what: str
    ) -> None:
        """Write the bytes of *found* to *file*, checked against its CRC32C.

        Raises:
            ObjectGoneError: it was deleted; nothing was written.
            UnavailableError, NotProvisionedError, AccessDeniedError: *file* may hold a part.
        """
        with _Watch(file, found.size, on_progress) as watched:

            def receive(bucket: Any, timeout_s: float) -> None:
                blob = bucket.blob(found.name, generation=found.generation)
                try:
                    blob.download_to_file(watched, checksum="crc32c", timeout=timeout_s, retry=self._retry)
                except api.NotFound as exc:
                    raise ObjectGoneError from exc

            await self._calls.stream(receive, Permission.GET, what=what, error=translate.storage_read_error)


class ObjectGoneError(Exception):
    """An object was deleted before it could be read. Never leaves the services."""


class RunningChecksum:
    """CRC32C of bytes that come piece by piece."""

    def __init__(self) -> None:
        self._sum = google_crc32c.Checksum()

    def update(self, data: bytes) -> None:
        """Go on with *data*."""
        self._sum.update(data)

    @property
    def base64(self) -> str:
        """The checksum as Cloud Storage spells it."""
        return base64.b64encode(self._sum.digest()).decode()


class _Watch:
    """A file that tells how far it has come, and stops the thread that moves it when nobody waits for it."""

    def __init__(self, file: BinaryIO, size: int, on_progress: OnProgress | None) -> None:
        self._file = file
        self._size = size
        self._on_progress = on_progress
        self._loop = asyncio.get_running_loop()
        self._abandoned = threading.Event()
        self._moved = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._abandoned.set()

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; those before them are on their way."""
        self._go_on(self._file.tell())
        return self._file.read(size)

    def write(self, data: bytes) -> int:
        """Keep the next bytes."""
        written = self._file.write(data)
        self._moved += written
        self._go_on(self._moved)
        return written

    def tell(self) -> int:
        """Return how far the file is."""
        return self._file.tell()

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go elsewhere in the file."""
        return self._file.seek(offset, whence)

    def flush(self) -> None:
        """Write what is buffered."""
        self._file.flush()

    def report(self, moved: int) -> None:
        """Tell how many bytes were moved."""
        if self._on_progress is not None:
            self._on_progress(moved, self._size)

    def _go_on(self, moved: int) -> None:
        if self._abandoned.is_set():
            raise _AbandonedError
        if self._on_progress is not None:
            self._loop.call_soon_threadsafe(self.report, moved)


class _AbandonedError(Exception):
    """Ends the thread of a transfer that was cancelled; nobody sees it."""
