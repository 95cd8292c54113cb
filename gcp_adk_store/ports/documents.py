"""The port for documents: what the session service requires of a database."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from gcp_adk_store.codec.writes import Delete, Document, Page, Write, Written


class Clock(Protocol):
    """The time that decides about ages and expiry."""

    @property
    def is_set(self) -> bool:
        """Whether the time is known: Firestore tells it with its first answer."""
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
        """Return paths at which the documents of all collections of an id fall into parts of like numbers.

        At most *most* paths, in the order of names. They may be those of documents that are gone; a small
        collection has none. ``None`` if the database cannot tell, as the Firestore emulator.

        Raises:
            UnavailableError, NotProvisionedError, AccessDeniedError: as :meth:`get`.
        """
        ...

    async def commit(
        self, writes: Sequence[Write | Delete], *, repeatable_when_unanswered: bool
    ) -> list[Written]:
        """Apply all *writes* or none; durable and visible to every read on return.

        Args:
            writes: At most 10 MiB of them; the Firestore emulator takes 4 MiB.
            repeatable_when_unanswered: Whether a second run is harmless, or the caller recognises it.

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

    async def commit_all(self, writes: Sequence[Write | Delete]) -> None:
        """Apply small *writes* that are harmless when repeated, in order, in commits of several.

        Raises:
            RefusedError, OutcomeUnknownError, UnavailableError, AccessDeniedError: as :meth:`commit`.
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
