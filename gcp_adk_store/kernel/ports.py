"""The ports: what the services require of a database, of a bucket, and of what makes vectors.

A backend serves them; a proxy of one stands between a service and its backend.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal, NoReturn, Protocol, TypeAlias

from gcp_adk_store.codec.objects import ObjectFields, ScannedObject, StoredObject
from gcp_adk_store.codec.writes import Delete, Document, Page, Write, Written
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.model.payloads import LeftFile


class RefusedError(Exception):
    """A condition of a write did not hold; nothing was written.

    Attributes:
        maybe_applied: Whether an earlier attempt of the same write was not answered and may have changed what
            the condition requires.
        attempts: The attempts of the write.
    """

    maybe_applied = False
    attempts = 0


class ConditionFailedError(RefusedError):
    """A document or object differs from the write's requirement."""


class TargetExistsError(RefusedError):
    """A document or object that the write required to be absent exists."""


class TargetMissingError(RefusedError):
    """A document that the write required to exist does not."""


class ObjectExistsError(TargetExistsError):
    """The object exists already; *found* describes it."""

    def __init__(self, found: Any) -> None:
        super().__init__(found)
        self.found = found


class ObjectGoneError(RefusedError):
    """An object was removed or replaced before its use."""


class Clock(Protocol):
    """The time that decides about ages and expiry."""

    @property
    def is_set(self) -> bool:
        """Whether the time is known: Firestore sends it with its first answer."""
        ...

    def now(self) -> float:
        """Return the Unix time in seconds."""
        ...


class Reads(Protocol):
    """Reads of documents, by name or by query."""

    @property
    def clock(self) -> Clock:
        """The time of the database."""
        ...

    @property
    def deadline_s(self) -> float:
        """The longest time of one call, its retries included."""
        ...

    async def get(
        self, paths: Sequence[str], *, fields: Sequence[str] | None = None
    ) -> list[Document | None]:
        """Return the documents at *paths*, in that order, with ``None`` for a missing one.

        All are from one snapshot. *fields* limits the returned fields.

        Raises:
            UnavailableError: the database did not answer before the deadline.
            NotProvisionedError: the database does not exist.
            AccessDeniedError: the credentials are missing, or lack a permission.
        """
        ...

    async def query(
        self,
        parent: str,
        collection: str,
        *,
        fields: Sequence[str] | None = None,
        all_descendants: bool = False,
        page: Page | None = None,
    ) -> list[Document]:
        """Return the documents of *collection* directly below *parent*, by name.

        With *all_descendants*, it covers every collection of that id anywhere below *parent*, or in the
        whole database if *parent* is empty; an empty *collection* covers those of all ids below *parent*.
        *page* sets a number, filters and another order, which need an index in Firestore
        (:mod:`gcp_adk_store.codec.indexes`).

        Raises:
            UnavailableError, NotProvisionedError, AccessDeniedError: as :meth:`get`.
        """
        ...


class Documents(Reads, Protocol):
    """The documents of one database. Firestore's limits and order apply in every backend."""

    async def split_points(self, collection: str, *, most: int) -> list[str] | None:
        """Return paths at which the documents of all collections of an id fall into parts of similar size.

        At most *most* paths, in the order of names. They may be those of documents that are gone; a small
        collection has none. ``None`` if the database does not know it, as the Firestore emulator.

        Raises:
            UnavailableError, NotProvisionedError, AccessDeniedError: as :meth:`get`.
        """
        ...

    async def before(self, path: str, time: str, *, fields: Sequence[str]) -> Document | None:
        """Return *fields* of the document at *path* as it was until *time*, which is an update time of it.

        ``None`` if it did not exist, or the database no longer knows: Firestore knows for one hour, and a
        local store keeps no earlier version.

        Raises:
            UnavailableError, NotProvisionedError, AccessDeniedError: as :meth:`get`.
        """
        ...

    async def commit(self, writes: Sequence[Write | Delete]) -> list[Written]:
        """Apply all *writes* or none; durable and visible to every read on return.

        A commit whose answer is lost is sent again. So a second run has to be harmless, or the caller has to
        recognise it.

        Args:
            writes: At most 10 MiB of them; the Firestore emulator takes 4 MiB.

        Raises:
            ConditionFailedError: a document lacks the required update time.
            TargetExistsError: a document that must be absent exists.
            TargetMissingError: a document that must exist does not.
            OutcomeUnknownError: the commit was sent and not answered.
            UnavailableError: the database refused for now until the deadline.
            InvalidInputError: Firestore's limits are exceeded.
            AccessDeniedError: the credentials are missing, or lack a permission.
        """
        ...

    def snapshot(self) -> AbstractAsyncContextManager[Reads]:
        """Return reads that all find the documents as they are at the time of the first one.

        Firestore answers such reads for one hour, at the price of others. A local store keeps its log as long
        as the block lasts.

        Raises:
            StoreError: by a read of a snapshot that is older than an hour.
        """
        ...

    def watch(self, path: str) -> AsyncGenerator[Document | None]:
        """Yield the document at *path* as it is now, and after each change; ``None`` while it is missing.

        Each yielded document is the newest, and not older than the one before; versions that follow each
        other quickly may be left out. The generator goes on until it is closed.

        Raises:
            UnavailableError: the connection was lost, and the database did not answer before the deadline.
            NotProvisionedError, AccessDeniedError: as :meth:`get`.
            StoreError: :meth:`close` was called meanwhile.
        """
        ...

    async def scrub(self) -> None:
        """Leave nothing of removed documents in the files of a database that this library keeps itself.

        Firestore keeps its own files: there it does nothing.

        Raises:
            OutcomeUnknownError: others read or write the file until the deadline, or the disk is full:
                removed documents are in no table, but bytes of them are left. Call it again.
        """
        ...

    async def close(self) -> None:
        """Close the connections that this object opened; a later call opens them again."""
        ...


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


class NoUrls:
    """Refuses to sign, in a store whose objects no URL can show."""

    def __init__(self, why: str) -> None:
        self._why = why

    def require_urls(self) -> NoReturn:
        """Refuse.

        Raises:
            InvalidInputError: always; the message names the way out.
        """
        raise InvalidInputError(self._why)

    async def sign(self, name: str, **how: Any) -> NoReturn:  # noqa: ARG002  # of the port
        """Refuse as :meth:`require_urls`."""
        self.require_urls()


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """The documents of one database, and the objects of one bucket."""

    documents: Documents
    objects: Objects
    uploads: Uploads
    signer: Signer
    open_bucket: Callable[[str], Objects] | None = None
    """Opens another bucket, such as that of anchors; ``None`` if the backend cannot."""


EmbeddingKind: TypeAlias = Literal["document", "query"]
"""What a text is: one that is kept, or one that asks for such texts."""


class Embedder(Protocol):
    """Makes vectors of texts, so that texts of similar meaning have vectors of similar direction."""

    @property
    def name(self) -> str:
        """The model, in at most 200 characters; vectors of different names are never compared."""
        ...

    @property
    def dimensions(self) -> int:
        """Numbers in each vector, 1 to 4,096."""
        ...

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Sequence[Sequence[float]]:
        """Return one vector for each of *texts*, in their order; only the direction of a vector counts.

        Texts are at most 8,192 characters long, and none is empty. It may raise anything.
        """
        ...
