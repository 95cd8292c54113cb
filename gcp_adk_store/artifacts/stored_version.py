"""Describe a stored version of an artifact to callers."""

from google.adk.artifacts.base_artifact_service import ArtifactVersion
from pydantic import Field


class StoredArtifactVersion(ArtifactVersion):  # noqa: PLW1641  # it can be changed, so it has no hash, as ADK's
    """A version of an artifact as ADK describes it, with the properties of its Cloud Storage object.

    It equals an :class:`ArtifactVersion` of ADK with the same fields. It equals another of its own class if
    size, generation and checksums are the same, too.
    """

    size: int = Field(description="Bytes of the payload.")
    generation: int = Field(description="Generation of the object, which no other write has.")
    crc32c: str | None = Field(default=None, description="CRC32C of the payload, base64, big-endian.")
    md5: str | None = Field(
        default=None, description="MD5 of the payload, base64; composed objects have none."
    )

    # Pydantic compares models of one class only. Python asks this one first, whichever side it is on.
    def __eq__(self, other: object) -> bool:
        if type(other) is ArtifactVersion:
            return all(getattr(self, name) == getattr(other, name) for name in ArtifactVersion.model_fields)
        return super().__eq__(other)
