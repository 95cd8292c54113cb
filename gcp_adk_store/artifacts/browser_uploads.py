"""Let a browser put a file into the bucket, and make it a version of an artifact then."""

import logging
import re
import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from google.adk.platform import time as platform_time

from gcp_adk_store.artifacts.versions import ArtifactVersions
from gcp_adk_store.cloud.storage.objects import ObjectGoneError, Objects
from gcp_adk_store.cloud.storage.signing import UrlSigner
from gcp_adk_store.codec.objects import UPLOADS, encode_file, is_upload_name, object_name, upload_name
from gcp_adk_store.errors import InvalidInputError, StoreError, UploadMissingError
from gcp_adk_store.model.garbage import Garbage, GarbageKind, require_age
from gcp_adk_store.model.keys import ArtifactKey
from gcp_adk_store.model.payloads import PayloadPlace
from gcp_adk_store.operations import telemetry
from gcp_adk_store.operations.operation import label

logger = logging.getLogger(__name__)

_UPLOAD_ID: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedUpload:
    """How a browser puts one file: ``PUT`` *url* with exactly these *headers* and the file as body."""

    url: str
    headers: Mapping[str, str]
    upload_id: str
    """What ``finalize_upload`` is given once the file is put."""
    expires_at: datetime
    """When the URL ends."""


class ArtifactUploads:
    """Uploads that wait below a prefix of their own, where no artifact is, until they are finalized."""

    def __init__(self, objects: Objects, versions: ArtifactVersions, signer: UrlSigner) -> None:
        self._objects = objects
        self._versions = versions
        self._signer = signer

    async def create(
        self, key: ArtifactKey, *, mime_type: str, max_bytes: int | None, expiration: timedelta
    ) -> SignedUpload:
        """Return where to put a file for *key*.

        Raises:
            InvalidInputError: it is no artifact to save, or cannot be signed.
            AccessDeniedError: the credentials can sign nothing.
        """
        key.require_savable()
        object_name(key, 0)  # refuses a name that is too long
        if max_bytes is not None and max_bytes < 0:
            raise InvalidInputError(f"max_bytes is {max_bytes}, it must not be negative")
        if not mime_type.isascii() or not mime_type.isprintable():
            raise InvalidInputError(f"mime_type {ascii(mime_type)[:80]} cannot be sent as a header")
        # Signed, so that the browser must send them: the bytes come once, of this type and size.
        headers = {"content-type": mime_type, "x-goog-if-generation-match": "0"}
        if self._objects.kms_key_name is not None:
            headers["x-goog-encryption-kms-key-name"] = self._objects.kms_key_name
        if max_bytes is not None:
            headers["x-goog-content-length-range"] = f"0,{max_bytes}"
        upload_id = secrets.token_hex(16)
        now = datetime.fromtimestamp(platform_time.get_time(), UTC)
        url = await self._signer.sign(
            upload_name(key, upload_id), method="PUT", expiration=expiration, headers=headers
        )
        return SignedUpload(url=url, headers=headers, upload_id=upload_id, expires_at=now + expiration)

    async def finalize(
        self,
        key: ArtifactKey,
        upload_id: str,
        *,
        display_name: str | None,
        custom_metadata: Mapping[str, Any] | None,
        custom_time: datetime | None,
        storage_class: str | None,
    ) -> int:
        """Make what was put the next version of *key*; the same one, however often it is called.

        Raises:
            UploadMissingError: nothing was put yet, or it was put for another artifact.
            InvalidInputError: *upload_id* is none, or the metadata cannot be stored.
        """
        key.require_savable()
        if not _UPLOAD_ID.fullmatch(upload_id):
            raise InvalidInputError(f"upload_id {ascii(upload_id)[:80]} is none that create_upload gave")
        staged = await self._objects.info(upload_name(key, upload_id))
        if staged is None:
            return await self._finalized(key, upload_id)
        fields = encode_file(
            mime_type=staged.content_type,
            display_name=display_name,
            custom_metadata=custom_metadata,
            # The id of the upload is that of its save, so that a version tells which upload it was.
            save_id=upload_id,
            custom_time=custom_time,
            storage_class=storage_class,
        )
        try:
            version = await self._versions.save(
                key, lambda name: self._objects.copy(staged, name, fields), save_id=upload_id, again=True
            )
        except ObjectGoneError:
            return await self._finalized(key, upload_id)  # by another call, just now
        try:
            await self._objects.delete(staged.name, generation=staged.generation)
        except StoreError as exc:
            # The version is saved; that must not look like a failure of it.
            logger.warning(
                "%sthe upload is saved, and its staged object stays for gc: %s",
                label(),
                type(exc).__name__,
                extra=telemetry.log_fields(exc),
            )
        return version

    async def abandoned(self, *, older_than_s: float) -> AsyncIterator[Garbage]:
        """Yield what was put so long ago and made no version.

        Raises:
            InvalidInputError: *older_than_s* is too short to be sure.
        """
        require_age(older_than_s)
        before = platform_time.get_time() - older_than_s
        async for objects in self._objects.scan(f"{UPLOADS}/"):
            for found in objects:
                if found.update_time < before and is_upload_name(found.name):
                    yield Garbage(
                        kind=GarbageKind.UPLOAD,
                        place=PayloadPlace.BUCKET,
                        name=found.name,
                        since=found.update_time,
                        size=found.size,
                        versions=[(found.name, found.version)],
                    )

    async def remove(self, garbage: Garbage) -> bool:
        """Remove what :meth:`abandoned` found; tell whether it is gone."""
        if garbage.kind is not GarbageKind.UPLOAD:
            return False
        ((name, version),) = garbage.versions
        return await self._objects.delete_unchanged(name, version)

    async def _finalized(self, key: ArtifactKey, upload_id: str) -> int:
        """Return the version that an upload became."""
        version = await self._versions.saved_as(key, upload_id)
        if version is None:
            raise UploadMissingError(f"nothing was put for upload {upload_id}; PUT it to its URL first")
        return version
