"""Make the artifact service over a bucket of Cloud Storage."""

from google.auth.credentials import Credentials

from gcp_adk_store.artifacts.service import ArtifactService
from gcp_adk_store.cloud.auth.credentials import StoreCredentials
from gcp_adk_store.cloud.storage.calls import StorageCalls, StorageClient
from gcp_adk_store.cloud.storage.objects import Objects
from gcp_adk_store.cloud.storage.resumable import ResumableUploads
from gcp_adk_store.cloud.storage.signing import UrlSigner
from gcp_adk_store.codec.objects import require_storage_class
from gcp_adk_store.kernel.calls import checks_kinds
from gcp_adk_store.settings import ArtifactLimits, StoreSettings


@checks_kinds
class GcsArtifactService(ArtifactService):
    """ADK's artifact service on Cloud Storage; the methods and their guarantees are those of its base.

    Objects have the names and metadata that ADK gives them, so ADK's ``GcsArtifactService`` can use the same
    bucket. If ``STORAGE_EMULATOR_HOST`` is set, the service uses that emulator, without credentials.
    """

    def __init__(
        self,
        bucket_name: str,
        *,
        project: str | None = None,
        client: StorageClient | None = None,
        credentials: StoreCredentials | Credentials | None = None,
        kms_key_name: str | None = None,
        storage_class: str | None = None,
        signing_service_account: str | None = None,
        limits: ArtifactLimits | None = None,
    ) -> None:
        """Prepare the service; nothing is contacted before the first call.

        Args:
            bucket_name: The bucket, which must exist.
            project: Google Cloud project to use; by default that of the environment.
            client: A ``google.cloud.storage.Client`` to use; :meth:`close` does not close it.
            credentials: Credentials of ``google.auth``, or a :class:`~gcp_adk_store.StoreCredentials` to
                share; by default those of the environment.
            kms_key_name: Cloud KMS key that encrypts new versions,
                ``projects/P/locations/L/keyRings/R/cryptoKeys/K``; by default the bucket's.
            storage_class: ``STANDARD``, ``NEARLINE``, ``COLDLINE`` or ``ARCHIVE``, for new versions; by
                default the bucket's.
            signing_service_account: Email of the service account that signs URLs, if the credentials have no
                key and do not belong to a service account.
            limits: Bounds and deadlines.

        Raises:
            InvalidInputError: *bucket_name* cannot be a bucket's name, or *storage_class* is unknown.
        """
        StoreSettings(bucket=bucket_name)  # refuses an invalid name
        require_storage_class(storage_class)
        limits = limits or ArtifactLimits()
        credentials = StoreCredentials.of(credentials)
        calls = StorageCalls(
            bucket_name, project=project, client=client, credentials=credentials, limits=limits
        )
        objects = Objects(calls, kms_key_name=kms_key_name)
        signer = UrlSigner(calls, credentials=credentials, service_account=signing_service_account)
        uploads = ResumableUploads(calls, objects)
        super().__init__(objects, uploads, signer, limits, storage_class=storage_class)
