"""Open what lies beside the database and the bucket of a store."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gcp_adk_store.erasure.run import RecoveryOf
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.kernel.ports import Objects
from gcp_adk_store.local.backend import open_backend
from gcp_adk_store.model.erasures import Recovery
from gcp_adk_store.settings import ArtifactLimits, SessionLimits


@dataclass(frozen=True, kw_only=True)
class OtherPlaces:
    """What a store knows of places beside its own database and bucket."""

    recovery: RecoveryOf
    """Returns what keeps documents and objects that are removed."""
    recovery_of_keys: RecoveryOf
    """Returns the same for the database of the data keys."""
    open_objects: Callable[[str], Objects] | None = None
    """Opens another bucket; ``None`` if the store cannot."""

    @asynccontextmanager
    async def bucket(self, name: str) -> AsyncIterator[Objects]:
        """Open the bucket *name* for the block.

        Raises:
            InvalidInputError: the store cannot open one.
        """
        if self.open_objects is None:
            raise InvalidInputError(
                "a store that was made of services opens no other bucket: use Store.connect"
            )
        objects = self.open_objects(name)
        try:
            yield objects
        finally:
            await objects.close()


def beside_a_folder(session_limits: SessionLimits, artifact_limits: ArtifactLimits) -> OtherPlaces:
    """Return the places beside a local store, whose buckets are folders."""

    async def nowhere(removed_at: float) -> Recovery:  # noqa: ARG001  # at any time
        return Recovery()

    return OtherPlaces(
        recovery=nowhere,
        recovery_of_keys=nowhere,
        open_objects=lambda name: open_backend(name, session_limits, artifact_limits).objects,
    )


async def kept_where_unknown(removed_at: float) -> Recovery:  # noqa: ARG001  # at any time
    """Return that nobody asked what the services of the caller keep."""
    return Recovery(unknown=("the store was made of services, which do not report it: use Store.connect",))
