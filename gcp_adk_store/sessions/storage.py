"""Open the database and the bucket that hold the sessions of one prefix."""

from collections.abc import Sequence
from dataclasses import dataclass

from google.auth.credentials import Credentials

from gcp_adk_store.cloud.auth.credentials import StoreCredentials
from gcp_adk_store.cloud.firestore.channels import ClientInterceptor, FirestoreClient
from gcp_adk_store.cloud.firestore.documents import open_documents
from gcp_adk_store.cloud.storage.calls import StorageCalls, StorageClient
from gcp_adk_store.cloud.storage.objects import Objects
from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.spilling import Spilled
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.ports.documents import Documents
from gcp_adk_store.sessions.payload_store import Payloads
from gcp_adk_store.settings import ArtifactLimits, SessionLimits, StoreSettings


@dataclass(frozen=True, slots=True)
class SessionStorage:
    """The database, the store of large values, and the layout that names what lies in both."""

    documents: Documents
    payloads: Payloads
    layout: Layout

    async def put(self, key: SessionKey, epoch: str, spilled: Spilled, *, parts_at: int | None) -> None:
        """Write payloads before what refers to them; those of the session expire at *parts_at*, if at all."""
        for owner, payloads, kept_until in (
            (self.layout.session_payloads(key, epoch), spilled.session, parts_at),
            (self.layout.app_payloads(key.app), spilled.app, None),
            (self.layout.user_payloads(key.owner), spilled.user, None),
        ):
            await self.payloads.put(owner, payloads, parts_at=kept_until)

    async def close(self) -> None:
        """Close the connections that were opened here, not the borrowed ones."""
        await self.documents.close()
        await self.payloads.close()


def open_storage(
    place: StoreSettings,
    *,
    client: FirestoreClient | None,
    bucket_client: StorageClient | None,
    credentials: StoreCredentials | Credentials | None,
    interceptors: Sequence[ClientInterceptor],
    limits: SessionLimits,
) -> SessionStorage:
    """Return the storage that *place* names; no I/O.

    Documents and payloads share one token of *credentials*. A *client* or *bucket_client* that is given is
    borrowed.
    """
    shared = StoreCredentials.of(credentials)
    layout = Layout(place.prefix)
    documents = open_documents(
        project=place.project,
        database=place.database,
        credentials=shared,
        client=client,
        interceptors=interceptors,
        limits=limits,
    )
    objects = None
    if place.bucket is not None:
        of_requests = ArtifactLimits(deadline_s=limits.payload_deadline_s, max_waiting=limits.max_waiting)
        objects = Objects(
            StorageCalls(
                place.bucket,
                project=place.project,
                client=bucket_client,
                credentials=shared,
                limits=of_requests,
            )
        )
    return SessionStorage(documents, Payloads(documents, objects, layout), layout)
