"""Describe stored versions of artifacts, and what a save adds to them."""

from datetime import datetime, timedelta

from google.adk.artifacts.base_artifact_service import ArtifactVersion
from google.adk.platform import time as platform_time
from pydantic import Field

from gcp_adk_store.codec.names import version_of
from gcp_adk_store.codec.objects import StoredObject, decode_artifact
from gcp_adk_store.kernel.ports import Objects
from gcp_adk_store.model.artifacts import time_after
from gcp_adk_store.model.keys import ArtifactKey, ArtifactScope


class StoredArtifactVersion(ArtifactVersion):  # noqa: PLW1641  # it can be changed, so it has no hash, as ADK's
    """A version of an artifact as ADK describes it, with the properties of its Cloud Storage object.

    It equals an :class:`ArtifactVersion` of ADK with the same fields. It equals another of its own class if
    size, generation and checksums are the same, too.
    """

    size: int = Field(description="Bytes of the payload.")
    generation: int = Field(description="Generation of the object, which no other write has.")
    crc32c: str | None = Field(
        default=None, description="CRC32C of the payload, base64, big-endian; encrypted ones have none."
    )
    md5: str | None = Field(
        default=None, description="MD5 of the payload, base64; composed and encrypted objects have none."
    )

    # Pydantic compares models of one class only. Python asks the subclass first, on either side.
    def __eq__(self, other: object) -> bool:
        if type(other) is ArtifactVersion:
            return all(getattr(self, name) == getattr(other, name) for name in ArtifactVersion.model_fields)
        return super().__eq__(other)


def describe(objects: Objects, stored: StoredObject) -> StoredArtifactVersion:
    """Return *stored*, an object of *objects*, as ADK describes a version."""
    return StoredArtifactVersion(
        version=version_of(stored.name),
        canonical_uri=objects.uri_of(stored.name),
        custom_metadata=stored.custom_metadata,
        create_time=stored.create_time,
        mime_type=stored.content_type,
        size=stored.size,
        generation=stored.generation,
        crc32c=stored.crc32c,
        md5=stored.md5,
    )


def reference_scope(key: ArtifactKey, session: str | None) -> ArtifactScope:
    """Return the scope that references may lead to: the caller's session, even from a user's artifact."""
    return ArtifactScope(app=key.scope.app, user=key.scope.user, session=session)


def is_tombstone(stored: StoredObject) -> bool:
    """Return whether a rewind removed this version."""
    return stored.file_uri is None and stored.size == 0 and decode_artifact(stored, b"") is None


def custom_time(expires_after: timedelta | None) -> datetime | None:
    """Return the time after which a lifecycle rule may remove a version that is saved now."""
    return None if expires_after is None else time_after(expires_after, now=platform_time.get_time())
