"""Open the services of a store."""

from collections.abc import Callable

from gcp_adk_store.artifacts.gcs import GcsArtifactService
from gcp_adk_store.cloud.auth.credentials import StoreCredentials
from gcp_adk_store.cloud.firestore.channels import FirestoreClient
from gcp_adk_store.cloud.storage.calls import StorageClient
from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.kernel.ports import Backend, Documents
from gcp_adk_store.sessions.firestore import FirestoreSessionService
from gcp_adk_store.sessions.read.payloads import Payloads
from gcp_adk_store.sessions.read.storage import SessionStorage
from gcp_adk_store.settings import StoreSettings
from gcp_adk_store.settings.envelope import KmsEnvelope
from gcp_adk_store.settings.options import StoreOptions, of_sessions


def storage_over(
    backend: Backend, prefix: str, envelope: KmsEnvelope | None, open_keys: Callable[[str], Documents]
) -> SessionStorage:
    """Return where sessions are in *backend*; with *envelope*, it encrypts."""
    layout = Layout(prefix)
    if envelope is None:
        return SessionStorage(backend.documents, Payloads(backend.documents, backend.objects, layout), layout)
    from gcp_adk_store.sessions.encrypting import encrypted_storage  # noqa: PLC0415  # with its ciphers

    return encrypted_storage(backend.documents, backend.objects, layout, envelope, open_keys=open_keys)


def open_in_cloud(
    place: StoreSettings,
    options: StoreOptions,
    *,
    credentials: StoreCredentials | None = None,
    firestore: FirestoreClient | None = None,
    storage: StorageClient | None = None,
) -> tuple[FirestoreSessionService, GcsArtifactService | None]:
    """Return the services of *place* in Google Cloud, over the caller's clients if they are given."""
    sessions = FirestoreSessionService(
        project=place.project,
        database=place.database,
        prefix=place.prefix,
        bucket=place.bucket,
        client=firestore,
        storage=storage,
        credentials=credentials,
        **of_sessions(options),
    )
    if place.bucket is None:
        return sessions, None
    return sessions, GcsArtifactService(
        place.bucket,
        project=place.project,
        client=storage,
        credentials=credentials,
        limits=options.get("artifact_limits"),
    )
