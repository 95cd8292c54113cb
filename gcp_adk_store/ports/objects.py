"""The ports for objects: what artifacts and payloads require of a bucket."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from gcp_adk_store.codec.objects import ObjectFields, ScannedObject, StoredObject
from gcp_adk_store.model.garbage import LeftFile

CHUNK_BYTES: Final = 8 * 1024 * 1024
"""Bytes of one request of an upload: a multiple of 256 KiB, as Cloud Storage requires."""

ReadAt = Callable[[int, int], Awaitable[bytes]]
"""Return bytes from an offset (first argument), as many as the second argument says."""


class Objects(Protocol):
    """The objects of one bucket."""

    @property
    def bucket(self) -> str:
        """The bucket's name.

        Raises:
            InvalidInputError: the objects lie in no bucket.
        """
        ...

    def uri_of(self, name: str) -> str:
        """Return the URI of an object, which no other object has."""
        ...

    @property
    def kms_key_name(self) -> str | None:
        """The key that encrypts new objects; ``None`` takes the bucket's."""
        ...

    async def create(
        self, name: str, upload: ObjectFields, *, marks: Mapping[str, str] | None = None
    ) -> None:
        """Write an object that must not exist yet; durable on return.

        An existing object gets *marks*, if any, as its metadata.

        Raises:
            ObjectExistsError: it exists, perhaps from this call, whose answer was lost.
            OutcomeUnknownError: the request was sent and not answered before the deadline.
            UnavailableError, NotProvisionedError, AccessDeniedError: nothing was written. The first also if
                other bytes arrived than were sent.
        """
        ...

    async def copy(self, source: StoredObject, name: str, fields: ObjectFields) -> None:
        """Write an object that must not exist yet from the bytes of *source*, within the bucket.

        Raises:
            ObjectGoneError: *source* was replaced or removed; nothing was written.
            ObjectExistsError: as :meth:`create`.
            OutcomeUnknownError, UnavailableError, NotProvisionedError, AccessDeniedError: as :meth:`create`.
        """
        ...

    async def names(self, prefix: str, *, delimiter: str | None) -> list[str]:
        """Return the names that start with *prefix* and lack *delimiter* after it, in order."""
        ...

    async def infos(self, prefix: str, *, delimiter: str | None, hashes: bool = False) -> list[StoredObject]:
        """Return the objects of :meth:`names` with their metadata, and with checksums if *hashes*."""
        ...

    async def greatest(
        self, prefix: str, order: Callable[[str], int | None], *, delimiter: str | None
    ) -> StoredObject | None:
        """Return the object of :meth:`names` with the greatest *order*, with its checksums.

        ``None`` if *order* returns ``None`` for all.
        """
        ...

    async def info(self, name: str) -> StoredObject | None:
        """Return one object with its checksums, ``None`` if it does not exist."""
        ...

    async def read(
        self, name: str, *, generation: int | None, part: tuple[int, int] | None = None
    ) -> tuple[bytes, int] | None:
        """Return an object's bytes and their generation; ``None`` if gone.

        *part* is the first byte and the one after the last; it has no checksum.

        Raises:
            StoredDataError: the bytes do not match their checksum.
        """
        ...

    async def keep_until(self, prefix: str, time: datetime) -> None:
        """Move the custom time of the objects that start with *prefix* to *time* at least."""
        ...

    def scan(self, prefix: str) -> AsyncIterator[list[ScannedObject]]:
        """Yield the objects that start with *prefix*, ordered by name, in pages."""
        ...

    async def mark(self, name: str, metadata: Mapping[str, str]) -> bool:
        """Change an object's *metadata*, which changes its version; return whether it exists."""
        ...

    async def delete_unchanged(self, name: str, version: str) -> bool:
        """Remove an object if it still has the *version* of a scan; return whether it is gone."""
        ...

    async def delete(self, name: str, *, generation: int | None) -> None:
        """Remove an object of this *generation*, or of any if ``None``; a missing object is accepted."""
        ...

    async def left(self, *, every: bool) -> list[LeftFile]:
        """Return the files whose bytes no object has, where this library keeps the files itself.

        Cloud Storage keeps its own files: there it returns none, without a request.

        Args:
            every: Look at every file; otherwise at those alone that a process wrote or removed when it was
                killed, which takes one look at an empty folder most of the time.
        """
        ...

    async def remove_left(self, files: Sequence[LeftFile]) -> list[LeftFile]:
        """Remove *files* that still no object has; return those that a running writer may need.

        All that this object removed before, of objects too, is durably gone on return.

        Raises:
            UnavailableError, AccessDeniedError: some may be left; call it again.
        """
        ...

    async def close(self) -> None:
        """Let running requests finish, then close own connections; a later call opens them again."""
        ...


async def remove_interrupted(objects: Objects) -> None:
    """Remove the files that a process wrote or removed when it was killed; no request to a bucket.

    Raises:
        UnavailableError, AccessDeniedError: as :meth:`Objects.remove_left`.
    """
    if found := await objects.left(every=False):
        await objects.remove_left(found)


class Uploads(Protocol):
    """Uploads of any size, some megabytes in memory at a time."""

    async def create(
        self,
        name: str,
        fields: ObjectFields,
        *,
        size: int,
        read_at: ReadAt,
        on_progress: Callable[[int], None],
    ) -> None:
        """Write an object that must not exist yet, and compare its CRC32C with that of the read bytes.

        Args:
            name: The object's name.
            fields: Its properties.
            size: Its size in bytes, above 0.
            read_at: Returns its bytes; it may be called twice for some of them.
            on_progress: Called with the number of bytes that the bucket has.

        Raises:
            ObjectExistsError: it exists; it may be this call's own, whose answer was lost.
            OutcomeUnknownError: the last piece was sent and not answered before the deadline.
            UnavailableError, NotProvisionedError, AccessDeniedError: nothing was written. The first also if
                other bytes arrived than were sent; they were removed again.
        """
        ...


class Signer(Protocol):
    """Signs URLs of objects."""

    def require_urls(self) -> None:
        """Refuse if a URL cannot show what an object holds.

        Raises:
            InvalidInputError: it cannot; the message names the way out.
        """
        ...

    async def sign(
        self,
        name: str,
        *,
        method: str,
        expiration: datetime | timedelta | int,
        headers: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> str:
        """Return a URL for the object *name*, without a request to the bucket.

        Raises:
            InvalidInputError: an option is invalid, *expiration* is more than 7 days away, or the backend has
                no URLs.
            AccessDeniedError: the credentials cannot sign, or IAM refuses.
        """
        ...
