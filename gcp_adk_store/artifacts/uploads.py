"""Sign uploads of browsers, and make the files that they leave versions of artifacts."""

import logging
import re
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from google.adk.platform import time as platform_time

from gcp_adk_store import machine
from gcp_adk_store.artifacts.owners import ArtifactStorage
from gcp_adk_store.artifacts.versions import custom_time
from gcp_adk_store.codec.names import UPLOADS, is_upload_name, object_name, upload_name
from gcp_adk_store.codec.objects import encode_file
from gcp_adk_store.errors import InvalidInputError, StoreError, UploadMissingError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.ports import ObjectGoneError, Objects, Signer
from gcp_adk_store.model.keys import ArtifactKey
from gcp_adk_store.model.payloads import Garbage, GarbageKind, LeftFile, PayloadPlace, require_age

logger = logging.getLogger(__name__)

_UPLOAD_ID: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedUpload:
    """How a browser uploads one file: ``PUT`` to *url* with exactly these *headers* and the file as body."""

    url: str
    headers: Mapping[str, str]
    upload_id: str
    """Pass it to ``finalize_upload`` once the file is uploaded."""
    expires_at: datetime
    """When the URL expires."""


async def sign(
    objects: Objects,
    signer: Signer,
    key: ArtifactKey,
    *,
    mime_type: str,
    max_bytes: int | None,
    expiration: timedelta,
) -> SignedUpload:
    """Return what a browser needs, as the service's ``create_upload``, which has the errors."""
    key.require_savable()
    object_name(key, 0)  # refuses a name that is too long
    if max_bytes is not None and max_bytes < 0:
        raise InvalidInputError(f"max_bytes is {max_bytes}, it must not be negative")
    if not mime_type.isascii() or not mime_type.isprintable():
        raise InvalidInputError(f"mime_type {ascii(mime_type)[:80]} cannot be sent as a header")
    # The browser must send what is signed: so the file is written once, and has this type and size.
    headers = {"content-type": mime_type, "x-goog-if-generation-match": "0"}
    if objects.kms_key_name is not None:
        headers["x-goog-encryption-kms-key-name"] = objects.kms_key_name
    if max_bytes is not None:
        headers["x-goog-content-length-range"] = f"0,{max_bytes}"
    upload_id = machine.random_bytes(16).hex()
    now = datetime.fromtimestamp(platform_time.get_time(), UTC)
    url = await signer.sign(upload_name(key, upload_id), method="PUT", expiration=expiration, headers=headers)
    return SignedUpload(url=url, headers=headers, upload_id=upload_id, expires_at=now + expiration)


async def finalize(
    storage: ArtifactStorage,
    key: ArtifactKey,
    upload_id: str,
    *,
    display_name: str | None,
    custom_metadata: dict[str, Any] | None,
    expires_after: timedelta | None,
) -> int:
    """Make an uploaded file a version, as the service's ``finalize_upload``, which has the errors."""
    expires_at = custom_time(expires_after)
    key.require_savable()
    if not _UPLOAD_ID.fullmatch(upload_id):
        raise InvalidInputError(
            f"upload_id {ascii(upload_id)[:80]} is malformed; pass the one that create_upload returned"
        )
    staged = await storage.objects.info(upload_name(key, upload_id))
    if staged is None:
        return await _finalized(storage, key, upload_id)
    fields = encode_file(
        mime_type=staged.content_type,
        display_name=display_name,
        custom_metadata=custom_metadata,
        # The save has the id of the upload, so that the version names its upload.
        save_id=upload_id,
        custom_time=expires_at,
        storage_class=storage.storage_class,
    )
    try:
        version = await storage.versions.save(
            key, lambda name: storage.objects.copy(staged, name, fields), save_id=upload_id, again=True
        )
    except ObjectGoneError:
        return await _finalized(storage, key, upload_id)  # another call finalized it just now
    try:
        await storage.objects.delete(staged.name, generation=staged.generation)
    except StoreError as exc:
        # The version is saved: the call succeeds.
        telemetry.warn(logger, "the upload is saved, and its staged object stays for gc", exc)
    return version


async def find_garbage(objects: Objects, *, older_than_s: float) -> AsyncGenerator[Garbage]:
    """Yield old files that nobody finalized, as the service's ``find_garbage``, which has the errors."""
    require_age(older_than_s)
    before = platform_time.get_time() - older_than_s
    async for some in objects.scan(f"{UPLOADS}/"):
        for found in some:
            if found.update_time < before and is_upload_name(found.name):
                yield Garbage(
                    kind=GarbageKind.UPLOAD,
                    place=PayloadPlace.BUCKET,
                    name=found.name,
                    since=found.update_time,
                    size=found.size,
                    versions=[(found.name, found.version)],
                )

    for file in await objects.left(every=True):
        if file.since < before:
            yield Garbage(
                kind=GarbageKind.FILE,
                place=PayloadPlace.BUCKET,
                name=file.name,
                since=file.since,
                size=file.size,
                versions=[(file.name, file.content)],
            )


async def remove_garbage(objects: Objects, garbage: Garbage) -> bool:
    """Remove what :meth:`find_garbage` found; return whether it is gone."""
    if garbage.kind is GarbageKind.FILE:
        ((name, content),) = garbage.versions
        file = LeftFile(content=content, name=name, size=garbage.size or 0, since=garbage.since)
        return not await objects.remove_left([file])
    if garbage.kind is not GarbageKind.UPLOAD:
        return False
    ((name, version),) = garbage.versions
    return await objects.delete_unchanged(name, version)


async def _finalized(storage: ArtifactStorage, key: ArtifactKey, upload_id: str) -> int:
    """Return the version that an upload became."""
    version = await storage.versions.saved_as(key, upload_id)
    if version is None:
        raise UploadMissingError(f"upload {upload_id} has no file yet; PUT the file to its URL first")
    return version
