"""Name the places beside a store: other buckets, and what keeps what the store removed."""

from gcp_adk_store.cloud.auth.credentials import StoreCredentials
from gcp_adk_store.cloud.storage.calls import StorageCalls, StorageClient
from gcp_adk_store.cloud.storage.objects import Objects
from gcp_adk_store.model.erasures import Recovery
from gcp_adk_store.settings import ArtifactLimits, StoreSettings


def another_bucket(
    place: StoreSettings,
    storage: StorageClient | None,
    credentials: StoreCredentials | None,
    limits: ArtifactLimits,
    name: str,
) -> Objects:
    """Return another bucket than the store's."""
    named = StoreSettings(project=place.project, bucket=name)
    calls = StorageCalls(
        named.bucket or "", project=named.project, client=storage, credentials=credentials, limits=limits
    )
    return Objects(calls)


async def kept_where_unknown(removed_at: float) -> Recovery:  # noqa: ARG001  # at any time
    """Return that nobody asked what the services of the caller keep."""
    return Recovery(unknown=("the store was made of services, which do not tell: use Store.connect",))


async def kept_nowhere(removed_at: float) -> Recovery:  # noqa: ARG001  # at any time
    """Return that nothing keeps what a local store removed."""
    return Recovery()
