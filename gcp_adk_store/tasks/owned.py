"""Hold what the stores of A2A tasks and of configs share: each document belongs to one owner."""

from typing import TypedDict, Unpack

from gcp_adk_store import settings
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.calls import Bounds, checks_kinds
from gcp_adk_store.kernel.concurrency import Limiter
from gcp_adk_store.kernel.operation import Closing
from gcp_adk_store.kernel.ports import Documents
from gcp_adk_store.model.session_fields import Expiry
from gcp_adk_store.settings import SessionLimits
from gcp_adk_store.settings.options import require_options
from gcp_adk_store.tasks.format import TaskLayout
from gcp_adk_store.tasks.sdk import needs_a2a

with needs_a2a():
    from a2a.server.owner_resolver import OwnerResolver, resolve_user_scope


class OwnedOptions(TypedDict, total=False):
    """Options of the stores of ``a2a-sdk`` over any documents."""

    prefix: str
    """Start of the collections' names; ``adk`` by default."""
    ttl_seconds: float | None
    """Seconds after its last write at which a task or a config ends, by the database's clock: then it is not
    found. At most 100 years; by default it stays for good."""
    owner_resolver: OwnerResolver
    """Returns the owner of a call; by default the name of its user. All callers without authentication are
    one owner."""
    limits: SessionLimits | None
    """Deadlines, and the number of operations at a time."""


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
            deadlines_s={},
            limiter=Limiter(
                at_once=limits.max_in_flight, max_waiting=limits.max_waiting, longest_wait_s=limits.deadline_s
            ),
            names_ids=settings.names_ids,
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
