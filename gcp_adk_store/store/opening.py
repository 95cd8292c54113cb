"""Open what lies beside the database and the bucket of a store, and encrypt its artifacts."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gcp_adk_store.artifacts.service import ArtifactService
from gcp_adk_store.erasure.run import RecoveryOf
from gcp_adk_store.errors import InvalidInputError, NotProvisionedError
from gcp_adk_store.kernel.ports import Backend, Objects
from gcp_adk_store.local.backend import DATABASE, open_backend
from gcp_adk_store.model.erasures import Recovery
from gcp_adk_store.settings import MEMORY, ArtifactLimits, SessionLimits

if TYPE_CHECKING:
    from gcp_adk_store.encryption.encryption import Encryption


@dataclass(frozen=True, kw_only=True)
class OtherPlaces:
    """What a store knows of places beside its own database and bucket."""

    recovery: RecoveryOf
    """Returns what keeps documents and objects that are removed."""
    recovery_of_keys: RecoveryOf
    """Returns the same for the database of the data keys."""
    open_objects: Callable[[str], Objects] | None = None
    """Opens another bucket; ``None`` if the store cannot."""
    require_there: Callable[[str], None] | None = None
    """Raises a `NotProvisionedError` if a bucket is missing; ``None`` if its first request does."""

    @asynccontextmanager
    async def bucket(self, name: str, *, to_read: bool = False) -> AsyncIterator[Objects]:
        """Open the bucket *name* for the block; one *to_read* must be there.

        Raises:
            InvalidInputError: the store cannot open one, or *name* is malformed.
            NotProvisionedError: it is missing.
        """
        if self.open_objects is None:
            raise InvalidInputError(
                "a store that was made of services opens no other bucket: use Store.connect"
            )
        objects = self.open_objects(name)
        try:
            if to_read and self.require_there is not None:
                self.require_there(name)
            yield objects
        finally:
            await objects.close()


def beside_a_folder(session_limits: SessionLimits, artifact_limits: ArtifactLimits) -> OtherPlaces:
    """Return the places beside a local store, whose buckets are folders."""

    async def nowhere(removed_at: float) -> Recovery:  # noqa: ARG001  # at any time
        return Recovery()

    def open_folder(name: str) -> Objects:
        if name in ("", MEMORY):
            raise InvalidInputError(f"anchors is {name!r}, it must be the path of a folder, which keeps them")
        return open_backend(name, session_limits, artifact_limits).objects

    return OtherPlaces(
        recovery=nowhere, recovery_of_keys=nowhere, open_objects=open_folder, require_there=_require_folder
    )


def _require_folder(name: str) -> None:
    try:
        is_there = (Path(name) / DATABASE).exists()
    except OSError:
        return  # the first read says what is wrong with the path
    if not is_there:
        raise NotProvisionedError(f"the folder {name!r} contains no anchors: gcp-adk-store anchor makes them")


def beside_a_backend(backend: Backend) -> OtherPlaces:
    """Return the places beside *backend*."""
    return OtherPlaces(
        recovery=kept_where_unknown, recovery_of_keys=kept_where_unknown, open_objects=backend.open_bucket
    )


async def kept_where_unknown(removed_at: float) -> Recovery:  # noqa: ARG001  # at any time
    """Return that nobody asked what the services of the caller keep."""
    return Recovery(unknown=("the store was made of services, which do not report it: use Store.connect",))


def encrypted(service: ArtifactService, encryption: "Encryption") -> ArtifactService:
    """Return a service over the same connections that encrypts artifacts; *service* if it does already.

    Closing either closes both.
    """
    storage = service.storage
    if storage.encrypts:
        return service
    around = encryption.artifacts(storage.objects, storage.uploads)
    return ArtifactService(*around, storage.limits, storage_class=storage.storage_class, encrypts=True)
