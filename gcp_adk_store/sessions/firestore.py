"""Make the session service over Firestore, and a bucket for large payloads."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Unpack

from google.auth.credentials import Credentials

from gcp_adk_store.cloud.auth.credentials import StoreCredentials
from gcp_adk_store.cloud.firestore.channels import ClientInterceptor, FirestoreClient
from gcp_adk_store.cloud.firestore.documents import open_documents
from gcp_adk_store.cloud.storage.calls import StorageCalls, StorageClient
from gcp_adk_store.cloud.storage.objects import Objects
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.kernel.calls import checks_kinds
from gcp_adk_store.sessions.read.storage import storage_over
from gcp_adk_store.sessions.service import SessionService
from gcp_adk_store.settings import ArtifactLimits, SessionLimits, StoreSettings
from gcp_adk_store.settings.options import SessionOptions, require_options


@checks_kinds
class FirestoreSessionService(SessionService):
    """ADK's session service on Firestore; the methods and their guarantees are those of its base.

    If ``FIRESTORE_EMULATOR_HOST`` is set, the service uses that emulator, without credentials.
    """

    def __init__(
        self,
        *,
        project: str | None = None,
        database: str = "(default)",
        prefix: str = "adk",
        bucket: str | None = None,
        client: FirestoreClient | None = None,
        storage: StorageClient | None = None,
        credentials: StoreCredentials | Credentials | None = None,
        interceptors: Sequence[ClientInterceptor] = (),
        **options: Unpack[SessionOptions],
    ) -> None:
        """Prepare the service; nothing is contacted before the first call.

        Args:
            project: Google Cloud project; by default ``GOOGLE_CLOUD_PROJECT``, then that of the
                credentials.
            database: Firestore database id.
            prefix: Start of the collections' names; services with different prefixes share no sessions.
            bucket: Bucket for large payloads; by default they are stored in Firestore documents.
            client: A ``google.cloud.firestore.AsyncClient`` to use. It decides project and database.
                :meth:`close` does not close it. It works only in the event loop of its first use.
            storage: A ``google.cloud.storage.Client`` to use for the *bucket*; it stays open, too.
            credentials: Credentials of ``google.auth``, or a :class:`~gcp_adk_store.StoreCredentials` to
                share; by default those of the environment.
            interceptors: gRPC client interceptors that see every RPC, for tracing or metering.
            options: As docs/reference/options.md describes them.

        Raises:
            InvalidInputError: a name or an option is unknown or malformed.
        """
        require_options(options, FirestoreSessionService)
        place = StoreSettings(project=project, database=database, bucket=bucket, prefix=prefix)
        limits = options.get("limits") or SessionLimits()
        credentials = StoreCredentials.of(credentials)  # documents and payloads share its token
        of_calls: dict[str, Any] = {"interceptors": interceptors, "limits": limits}
        opened = partial(open_documents, project=place.project, credentials=credentials, **of_calls)
        documents = opened(database=place.database, client=client)
        objects = None
        if place.bucket is not None:
            requests = ArtifactLimits(deadline_s=limits.payload_deadline_s, max_waiting=limits.max_waiting)
            calls = StorageCalls(
                place.bucket, project=place.project, client=storage, credentials=credentials, limits=requests
            )
            objects = Objects(calls)
        envelope = options.get("encryption")
        if envelope is not None and (client is not None or envelope.keys_database == place.database):
            raise InvalidInputError(
                "encryption keeps its keys in a database of its own: leave out client=, and let "
                "keys_database differ from database"
            )
        over = storage_over(
            documents,
            objects,
            place.prefix,
            envelope,
            open_keys=lambda database: opened(database=database, client=None),
            credentials=credentials,
        )
        super().__init__(over, **options)
