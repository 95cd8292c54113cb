"""Own the services of one deployment and their connections."""

import os
from typing import Self, Unpack

from google.auth.credentials import Credentials

from gcp_adk_store.artifacts.service import GcsArtifactService
from gcp_adk_store.cloud.auth.credentials import StoreCredentials
from gcp_adk_store.cloud.firestore.channels import FirestoreClient
from gcp_adk_store.cloud.storage.calls import StorageClient
from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.local.backend import open_backend
from gcp_adk_store.operations.closing import Closing
from gcp_adk_store.operations.forks import OfOneProcess
from gcp_adk_store.sessions.payload_store import Payloads
from gcp_adk_store.sessions.service import FirestoreSessionService
from gcp_adk_store.sessions.storage import SessionStorage
from gcp_adk_store.settings import ArtifactLimits, SessionLimits, SessionOptions, StoreOptions, StoreSettings
from gcp_adk_store.store_methods import StoreMethods


class Store(StoreMethods, OfOneProcess, Closing):
    """Sessions and artifacts of one deployment; ``async with`` closes their connections.

    ::

        async with Store.from_env() as store:
            runner = Runner(..., session_service=store.sessions, artifact_service=store.artifacts)
    """

    def __init__(self, *, sessions: FirestoreSessionService, artifacts: GcsArtifactService | None) -> None:
        self._sessions = sessions
        self._artifacts = artifacts

    @classmethod
    def connect(
        cls,
        *,
        project: str | None = None,
        database: str = "(default)",
        bucket: str | None = None,
        prefix: str = "adk",
        credentials: StoreCredentials | Credentials | None = None,
        impersonate_service_account: str | None = None,
        **options: Unpack[StoreOptions],
    ) -> Self:
        """Return a store with connections of its own; it contacts nothing before the first call.

        The arguments are those of :class:`~gcp_adk_store.StoreSettings` and
        :class:`~gcp_adk_store.settings.StoreOptions`. The clients of both services share one token.
        *impersonate_service_account* is short for the *credentials*
        ``StoreCredentials(impersonate_service_account=...)``.

        Raises:
            InvalidInputError: a setting is malformed, or *impersonate_service_account* comes with a
                :class:`~gcp_adk_store.StoreCredentials`, which has that argument itself.
        """
        place = StoreSettings(project=project, database=database, bucket=bucket, prefix=prefix)
        if impersonate_service_account is not None:
            if isinstance(credentials, StoreCredentials):
                raise InvalidInputError("pass impersonate_service_account= to StoreCredentials alone")
            credentials = StoreCredentials(
                credentials, impersonate_service_account=impersonate_service_account
            )
        return cls._over_cloud(place, credentials=StoreCredentials.of(credentials), **options)

    @classmethod
    def local(
        cls, path: str | os.PathLike[str], *, prefix: str = "adk", **options: Unpack[StoreOptions]
    ) -> Self:
        """Return a store in a folder of this machine, for any number of its processes; without a cloud.

        The services keep the guarantees of docs/guarantees.md, as far as one machine can: docs/local.md says
        where they differ. The folder is made at the first call.

        Args:
            path: The folder, on a file system of this machine. ``:memory:`` keeps everything in this object.
            prefix: As in :class:`~gcp_adk_store.StoreSettings`.
            options: As :class:`~gcp_adk_store.settings.StoreOptions` describes them.

        Raises:
            InvalidInputError: a setting is malformed.
        """
        place = StoreSettings(local=os.fspath(path), prefix=prefix)
        session_limits = options.get("session_limits") or SessionLimits()
        artifact_limits = options.get("artifact_limits") or ArtifactLimits()
        backend = open_backend(os.fspath(path), session_limits, artifact_limits)
        layout = Layout(place.prefix)
        storage = SessionStorage(
            backend.documents, Payloads(backend.documents, backend.objects, layout), layout
        )
        return cls(
            sessions=FirestoreSessionService.over(storage, **_of_sessions(**options)),
            artifacts=GcsArtifactService.over(
                backend.objects, backend.uploads, backend.signer, artifact_limits
            ),
        )

    @classmethod
    def from_env(
        cls,
        *,
        credentials: StoreCredentials | Credentials | None = None,
        **options: Unpack[StoreOptions],
    ) -> Self:
        """Return the store that ``ADK_STORE_PROJECT``, ``_DATABASE``, ``_BUCKET`` and ``_PREFIX`` name.

        ``ADK_STORE_LOCAL`` names the folder of a local store instead of the first three. Without
        *credentials*, ``ADK_STORE_CREDENTIALS_FILE``, ``ADK_STORE_IMPERSONATE``, ``ADK_STORE_QUOTA_PROJECT``
        and ``GOOGLE_CLOUD_UNIVERSE_DOMAIN`` name the identity.

        Raises:
            InvalidInputError: a variable is malformed.
        """
        place = StoreSettings.from_env()
        if place.local is not None:
            return cls.local(place.local, prefix=place.prefix, **options)
        return cls.connect(
            project=place.project,
            database=place.database,
            bucket=place.bucket,
            prefix=place.prefix,
            credentials=StoreCredentials.from_settings(place) if credentials is None else credentials,
            **options,
        )

    @classmethod
    def from_clients(
        cls,
        *,
        firestore: FirestoreClient,
        storage: StorageClient | None = None,
        bucket: str | None = None,
        prefix: str = "adk",
        **options: Unpack[StoreOptions],
    ) -> Self:
        """Return a store over clients that the caller owns and closes.

        Raises:
            InvalidInputError: only one of *storage* and *bucket* is given, or a setting is malformed.
        """
        if (storage is None) != (bucket is None):
            raise InvalidInputError("storage and bucket go together; give both or neither")
        place = StoreSettings(bucket=bucket, prefix=prefix)
        return cls._over_cloud(place, firestore=firestore, storage=storage, **options)

    @classmethod
    def _over_cloud(
        cls,
        place: StoreSettings,
        *,
        credentials: StoreCredentials | None = None,
        firestore: FirestoreClient | None = None,
        storage: StorageClient | None = None,
        **options: Unpack[StoreOptions],
    ) -> Self:
        sessions = FirestoreSessionService(
            project=place.project,
            database=place.database,
            prefix=place.prefix,
            bucket=place.bucket,
            client=firestore,
            storage=storage,
            credentials=credentials,
            **_of_sessions(**options),
        )
        artifacts = place.bucket and GcsArtifactService(
            place.bucket,
            project=place.project,
            client=storage,
            credentials=credentials,
            limits=options.get("artifact_limits"),
        )
        return cls(sessions=sessions, artifacts=artifacts or None)

    async def close(self) -> None:
        """Close the connections that the services opened; a later call opens them again."""
        await self._sessions.close()
        if self._artifacts is not None:
            await self._artifacts.close()


def _of_sessions(
    *,
    session_limits: SessionLimits | None = None,
    artifact_limits: ArtifactLimits | None = None,  # noqa: ARG001  # of the other service
    **options: Unpack[SessionOptions],
) -> SessionOptions:
    """Return a store's options as the session service names them."""
    return {**options, "limits": session_limits}
