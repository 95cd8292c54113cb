"""Open the stores of A2A tasks and configs, whose documents each belong to one owner."""

from functools import partial
from typing import NamedTuple, Self

from google.auth.credentials import Credentials

from gcp_adk_store import settings
from gcp_adk_store.cloud.auth.credentials import StoreCredentials
from gcp_adk_store.cloud.firestore.channels import FirestoreClient
from gcp_adk_store.cloud.firestore.documents import open_documents
from gcp_adk_store.operations import telemetry
from gcp_adk_store.operations.bounds import Bounds
from gcp_adk_store.operations.closing import Closing
from gcp_adk_store.operations.forks import OfOneProcess
from gcp_adk_store.operations.kinds import checks_kinds
from gcp_adk_store.operations.limiter import Limiter
from gcp_adk_store.ports.documents import Documents
from gcp_adk_store.settings import SessionLimits, StoreSettings
from gcp_adk_store.tasks.sdk import needs_a2a

with needs_a2a():
    from a2a.server.owner_resolver import OwnerResolver, resolve_user_scope


class Opened(NamedTuple):
    """What a store is made of."""

    documents: Documents
    prefix: str
    ttl_seconds: float | None
    owner_resolver: OwnerResolver
    limits: SessionLimits


@checks_kinds
class OwnedStore(OfOneProcess, Closing):
    """A store of ``a2a-sdk`` on Firestore, or on a local store."""

    def __init__(
        self,
        *,
        project: str | None = None,
        database: str = "(default)",
        prefix: str = "adk",
        client: FirestoreClient | None = None,
        credentials: StoreCredentials | Credentials | None = None,
        ttl_seconds: float | None = None,
        owner_resolver: OwnerResolver = resolve_user_scope,
        limits: SessionLimits | None = None,
    ) -> None:
        """Prepare the store; nothing is contacted before the first call.

        Args:
            project: Google Cloud project; by default ``GOOGLE_CLOUD_PROJECT``, then that of the credentials.
            database: Firestore database id.
            prefix: Start of the collections' names.
            client: A ``google.cloud.firestore.AsyncClient`` to use; it stays open.
            credentials: Credentials of ``google.auth``, or a :class:`~gcp_adk_store.StoreCredentials`; by
                default those of the environment.
            ttl_seconds: Seconds after its last write at which a task or a config ends, by Firestore's clock:
                then it is not found. At most 100 years; by default it stays for good.
            owner_resolver: Returns the owner of a call; by default the name of its user. All callers without
                authentication are one owner.
            limits: Deadlines, and the number of operations at a time.

        Raises:
            InvalidInputError: a name or *ttl_seconds* is malformed.
        """
        place = StoreSettings(project=project, database=database, prefix=prefix)
        limits = limits or SessionLimits()
        documents = open_documents(
            project=place.project,
            database=place.database,
            credentials=StoreCredentials.of(credentials),
            client=client,
            interceptors=(),
            limits=limits,
        )
        self._begin(Opened(documents, place.prefix, ttl_seconds, owner_resolver, limits))

    @classmethod
    def over(
        cls,
        documents: Documents,
        *,
        prefix: str,
        ttl_seconds: float | None = None,
        owner_resolver: OwnerResolver = resolve_user_scope,
        limits: SessionLimits | None = None,
    ) -> Self:
        """Return the store over other *documents* than Firestore's; :meth:`close` closes them.

        Raises:
            InvalidInputError: *ttl_seconds* is malformed.
        """
        store = cls.__new__(cls)
        opened = Opened(documents, prefix, ttl_seconds, owner_resolver, limits or SessionLimits())
        store._begin(opened)  # noqa: SLF001  # its own class
        return store

    def _begin(self, opened: Opened) -> None:
        limits = opened.limits
        self._documents = opened.documents
        self._owner_of = opened.owner_resolver
        limiter = partial(Limiter, max_waiting=limits.max_waiting, longest_wait_s=limits.deadline_s)
        self.bounds = Bounds(
            type(self),
            system=telemetry.FIRESTORE,
            deadlines_s={},
            limiter=limiter(at_once=limits.max_in_flight),
            names_ids=settings.names_ids,
        )

    async def close(self) -> None:
        """Close own connections; a later call opens them again."""
        await self._documents.close()
