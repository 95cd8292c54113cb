"""Hold what the stores of A2A tasks and of configs share: each document belongs to one owner."""

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, TypedDict, Unpack

from gcp_adk_store.codec.writes import Document, Page
from gcp_adk_store.errors import OutcomeUnknownError, StoredDataError, StoreError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.calls import Bounds, checks_kinds
from gcp_adk_store.kernel.concurrency import Limiter
from gcp_adk_store.kernel.ports import Documents
from gcp_adk_store.kernel.process import Closing
from gcp_adk_store.kernel.transact import CHANGED, Changed, Writes, commit_once, read_whole
from gcp_adk_store.model.keys import in_one_line
from gcp_adk_store.model.session_fields import Expiry
from gcp_adk_store.settings import SessionLimits
from gcp_adk_store.settings.options import require_options
from gcp_adk_store.tasks.format import TaskLayout
from gcp_adk_store.tasks.sdk import needs_a2a

with needs_a2a():
    from a2a.server.owner_resolver import OwnerResolver, resolve_user_scope

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 500
"""Documents of a page of an erasure."""
_NAMED: Final = 10
"""As many documents as one record of the log names."""


class OwnedOptions(TypedDict, total=False):
    """Options of the stores of ``a2a-sdk`` over any documents."""

    prefix: str
    """Start of the collections' names; ``adk`` by default."""
    ttl_seconds: float | None
    """Seconds after its last write at which a task or a config ends, by the database's clock: then it is not
    found. At most 100 years; by default it stays forever."""
    owner_resolver: OwnerResolver
    """Returns the owner of a call; by default the name of its user. All callers without authentication are
    one owner."""
    limits: SessionLimits | None
    """Deadlines, and the number of operations at a time."""


class LeftOut:
    """What a listing leaves out, because it cannot be read and the answer has no place for it."""

    def __init__(self) -> None:
        self._first: list[StoredDataError] = []
        """The failures that are named; of all others the number is enough."""
        self._count = 0
        self._any_read = False

    @contextmanager
    def unreadable(self) -> Iterator[None]:
        """Leave out what the block reads, if that is damaged."""
        try:
            yield
            self._any_read = True
        except StoredDataError as exc:
            self._count += 1
            if len(self._first) < _NAMED:
                self._first.append(exc)

    def report(self) -> None:
        """Name in the log what is left out.

        Raises:
            StoredDataError: nothing else is there, as where another release wrote all of it.
        """
        if not self._first:
            return
        if not self._any_read:
            raise self._first[0]
        named = "; ".join(in_one_line(str(each)) for each in self._first)
        more = f"; and {self._count - _NAMED} more" if self._count > _NAMED else ""
        message = "%d documents cannot be read, and are left out: %s%s"
        logger.warning(message, self._count, named, more, extra=telemetry.log_fields())


@checks_kinds
class OwnedStore(Closing):
    """A store of ``a2a-sdk`` over any documents, in which each owner has a part of their own."""

    def __init__(self, documents: Documents, **options: Unpack[OwnedOptions]) -> None:
        """Prepare the store; nothing is read or written before the first call.

        Args:
            documents: Where it stores; :meth:`close` closes them.
            options: *prefix*, the start of the collections' names; *ttl_seconds* after the last write at
                which a task or a config ends, by default never; *owner_resolver*, which returns the owner of
                a call, by default the name of its user; *limits*.

        Raises:
            InvalidInputError: an option is unknown or malformed.
        """
        require_options(options, OwnedStore)
        self._ttl_s = options.get("ttl_seconds")
        if self._ttl_s is not None:
            Expiry.begin(self._ttl_s, now=0)  # refuses an invalid one
        limits = options.get("limits") or SessionLimits()
        self._documents = documents
        self._owner_of = options.get("owner_resolver", resolve_user_scope)
        self._layout = TaskLayout(options.get("prefix", "adk"))
        self._bounds = Bounds(
            type(self),
            system=telemetry.FIRESTORE,
            limiter=Limiter(
                at_once=limits.max_in_flight, max_waiting=limits.max_waiting, longest_wait_s=limits.deadline_s
            ),
        )

    async def _expiry(self, path: str) -> Expiry | None:
        """Return when what is written now ends; *path* is its own."""
        if self._ttl_s is None:
            return None
        if not self._documents.clock.is_set:
            # The first answer brings Firestore's time: once in a process, a read comes before the commit.
            await self._documents.get([path], fields=("format",))
        return Expiry.begin(self._ttl_s, now=self._documents.clock.now())

    async def close(self) -> None:
        """Close own connections; a later call opens them again."""
        await self._documents.close()

    async def _erase(
        self,
        owner: str,
        collection: str,
        *,
        fields: Sequence[str],
        removals: Callable[[Sequence[Document]], AsyncIterator[Writes]],
    ) -> None:
        """Commit what *removals* yields for all documents of a collection of *owner*, 500 at a time.

        These commits require the update times of the documents. If one is refused, its page is read again, so
        what other writers changed meanwhile is removed too. Documents that they add to earlier pages stay.

        Raises:
            OutcomeUnknownError: some may be removed, and some not; calling again removes the rest.
            UnavailableError: nothing was removed.
        """
        parent = self._layout.owner(owner)
        page = Page(field=None, descending=False, limit=_AT_ONCE, after=None)
        has_begun = False

        async def removed() -> Sequence[Document] | Changed:
            nonlocal has_begun
            found = await self._documents.query(parent, collection, fields=fields, page=page)
            if not found:
                return found
            has_begun = True
            async for deletes in removals(found):
                if await commit_once(self._documents, deletes) is None:
                    return CHANGED
            return found

        try:
            while len(found := await read_whole(self._documents.deadline_s, removed)) == page.limit:
                page = replace(page, after=(0.0, found[-1].path))
        except StoreError as exc:
            if not has_begun:
                raise
            raise OutcomeUnknownError.since(
                exc, f"some may be removed, and some not; call it again: {exc}"
            ) from exc
