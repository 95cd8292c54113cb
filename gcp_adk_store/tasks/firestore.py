"""Make the stores of ``a2a-sdk`` over Firestore."""

from typing import Unpack

from google.auth.credentials import Credentials

from gcp_adk_store.cloud.auth.credentials import StoreCredentials
from gcp_adk_store.cloud.firestore.channels import FirestoreClient
from gcp_adk_store.cloud.firestore.documents import open_documents
from gcp_adk_store.kernel.calls import checks_kinds
from gcp_adk_store.settings import SessionLimits, StoreSettings
from gcp_adk_store.settings.options import require_options
from gcp_adk_store.tasks.owned import OwnedOptions, OwnedStore
from gcp_adk_store.tasks.push_configs import PushNotificationConfigStore
from gcp_adk_store.tasks.task_store import TaskStore


@checks_kinds
class _OnFirestore(OwnedStore):
    """What opens the documents of a store of ``a2a-sdk``, whose class comes after this one."""

    def __init__(
        self,
        *,
        project: str | None = None,
        database: str = "(default)",
        client: FirestoreClient | None = None,
        credentials: StoreCredentials | Credentials | None = None,
        **options: Unpack[OwnedOptions],
    ) -> None:
        """Prepare the store; nothing is contacted before the first call.

        Args:
            project: Google Cloud project; by default ``GOOGLE_CLOUD_PROJECT``, then that of the credentials.
            database: Firestore database id.
            client: A ``google.cloud.firestore.AsyncClient`` to use; it stays open.
            credentials: Credentials of ``google.auth``, or a :class:`~gcp_adk_store.StoreCredentials`; by
                default those of the environment.
            options: *prefix*, the start of the collections' names; *ttl_seconds* after the last write at
                which a task or a config ends, by Firestore's clock, by default never; *owner_resolver*, which
                returns the owner of a call, by default the name of its user; *limits*.

        Raises:
            InvalidInputError: a name or an option is unknown or malformed.
        """
        require_options(options, type(self))
        place = StoreSettings(project=project, database=database, prefix=options.get("prefix", "adk"))
        documents = open_documents(
            project=place.project,
            database=place.database,
            credentials=StoreCredentials.of(credentials),
            client=client,
            interceptors=(),
            limits=options.get("limits") or SessionLimits(),
        )
        super().__init__(documents, **options)


class FirestoreTaskStore(_OnFirestore, TaskStore):
    """The task store of ``a2a-sdk`` on Firestore; the methods and their guarantees are those of its base."""


class FirestorePushNotificationConfigStore(_OnFirestore, PushNotificationConfigStore):
    """The push notification config store of ``a2a-sdk`` on Firestore, as its base describes it."""
