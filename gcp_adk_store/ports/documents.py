"""The port for documents: what the session service requires of a database."""

from collections.abc import Sequence
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


class Documents(Protocol):
    """The documents of one database. Firestore's limits and order apply in every backend."""

    @property
    def clock(self) -> Clock:
        """The time of the database."""
        ...

    @property
    def deadline_s(self) -> float:
        """The longest time of one call, its retries included."""
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
        whole database if *parent* is empty. *page* sets a number, filters and another order, which need an
        index in Firestore (:mod:`gcp_adk_store.codec.indexes`).

        Raises:
            UnavailableError, NotProvisionedError, AccessDeniedError: as :meth:`get`.
        """
        ...

    async def snapshot(self, path: str) -> "Documents":
        """Return the documents as they are now, for reads alone; whoever asks closes the result.

        Firestore serves a snapshot for an hour, a local store until it is closed. Takes 1 read, of the
        document at *path*, which may be missing.

        Raises:
            UnavailableError, NotProvisionedError, AccessDeniedError: as :meth:`get`.
        """
        ...

    async def close(self) -> None:
        """Close the connections that this object opened; a later call opens them again."""
        ...
