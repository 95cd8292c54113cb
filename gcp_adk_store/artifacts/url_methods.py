"""Give out URLs: to read a version of an artifact, and for a browser to upload a file that becomes one."""

import logging
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

from google.adk.platform import time as platform_time

from gcp_adk_store import machine
from gcp_adk_store.artifacts.methods import ArtifactMethods, custom_time
from gcp_adk_store.codec.object_names import UPLOADS, is_upload_name, object_name, upload_name
from gcp_adk_store.codec.objects import StoredObject, encode_file
from gcp_adk_store.errors import InvalidInputError, StoreError, UploadMissingError
from gcp_adk_store.model.garbage import DEFAULT_AGE_S, Garbage, GarbageKind, LeftFile, require_age
from gcp_adk_store.model.keys import ArtifactKey
from gcp_adk_store.model.payloads import PayloadPlace
from gcp_adk_store.operations import telemetry
from gcp_adk_store.operations.bounds import operation
from gcp_adk_store.ports.refusals import ObjectGoneError

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


class UrlMethods(ArtifactMethods):
    """The methods of the artifact service that return URLs, and those for the files that browsers upload.

    An uploaded file stays below a prefix without artifacts until it is finalized.
    """

    @operation
    async def get_signed_url(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
        expiration: datetime | timedelta | int | None = None,
        method: str = "GET",
        signing_version: str | None = None,
        **options: Any,
    ) -> str | None:
        """Return a URL with which anyone can read a version until it expires; ``None`` if absent.

        The credentials sign it with their key; without a key, as on Cloud Run and GKE, IAM signs it. Takes 1
        request to Cloud Storage. Follows references. Returns ``None`` for an artifact whose content lies
        outside of the bucket.

        Args:
            app_name: The app.
            user_id: The user.
            filename: The artifact.
            session_id: The session, for an artifact of its own.
            version: By default the latest.
            expiration: The time at which, or after which, the URL expires: at most 7 days from now, by
                default 1 hour.
            method: HTTP method that the URL is for.
            signing_version: ``v4`` by default.
            **options: Passed to ``google.cloud.storage.Blob.generate_signed_url``, such as
                ``response_disposition``.

        Raises:
            InvalidInputError: an option or *expiration* cannot be signed, or the store lies in a folder or in
                memory, or encrypts artifacts.
            AccessDeniedError: the credentials cannot sign, or IAM does not let them.
        """
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        stored = await self._in_bucket(key, version, session_id)
        if stored is None:
            return None
        return await self._signer.sign(
            stored.name,
            method=method,
            expiration=timedelta(hours=1) if expiration is None else expiration,
            options={**({"version": signing_version} if signing_version else {}), **options},
        )

    @operation
    async def get_authenticated_url(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> str | None:
        """Return a URL that shows a version to users who are signed in to Google and may read it.

        Takes 1 request. Follows references. Returns ``None`` if the version is absent, and for an artifact
        whose content lies outside of the bucket.

        Raises:
            InvalidInputError: the store lies in a folder or in memory, or encrypts artifacts.
        """
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        stored = await self._in_bucket(key, version, session_id)
        if stored is None:
            return None
        self._signer.require_urls()
        return f"https://storage.cloud.google.com/{self.bucket_name}/{quote(stored.name, safe='/')}"

    @operation
    async def create_upload(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        mime_type: str = "application/octet-stream",
        max_bytes: int | None = None,
        expiration: timedelta = timedelta(hours=1),
    ) -> SignedUpload:
        """Return a URL to which a browser may upload a file; the file does not pass through the agent.

        Then call :meth:`finalize_upload`. Sends only the requests that signing takes. An uploaded file is not
        replaced before it is finalized. A file that is never finalized stays below ``adk-store-uploads/``
        until a lifecycle rule of the bucket removes it. The bucket's CORS must allow the browser's origin,
        ``PUT`` and the headers (docs/data-model.md).

        Args:
            app_name: The app.
            user_id: The user.
            filename: As for :meth:`save_artifact`.
            session_id: As for :meth:`save_artifact`.
            mime_type: Content type that the browser must send.
            max_bytes: Cloud Storage refuses a larger file; by default its own limit, 5 TiB.
            expiration: How long the URL works, at most 7 days.

        Raises:
            InvalidInputError: the artifact cannot be saved, or the URL cannot be signed, as for
                :meth:`get_signed_url`.
            AccessDeniedError: as for :meth:`get_signed_url`.
        """
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        key.require_savable()
        object_name(key, 0)  # refuses a name that is too long
        if max_bytes is not None and max_bytes < 0:
            raise InvalidInputError(f"max_bytes is {max_bytes}, it must not be negative")
        if not mime_type.isascii() or not mime_type.isprintable():
            raise InvalidInputError(f"mime_type {ascii(mime_type)[:80]} cannot be sent as a header")
        # The browser must send what is signed: so the file is written once, and has this type and size.
        headers = {"content-type": mime_type, "x-goog-if-generation-match": "0"}
        if self._objects.kms_key_name is not None:
            headers["x-goog-encryption-kms-key-name"] = self._objects.kms_key_name
        if max_bytes is not None:
            headers["x-goog-content-length-range"] = f"0,{max_bytes}"
        upload_id = machine.random_bytes(16).hex()
        now = datetime.fromtimestamp(platform_time.get_time(), UTC)
        url = await self._signer.sign(
            upload_name(key, upload_id), method="PUT", expiration=expiration, headers=headers
        )
        return SignedUpload(url=url, headers=headers, upload_id=upload_id, expires_at=now + expiration)

    @operation
    async def finalize_upload(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        upload_id: str,
        session_id: str | None = None,
        display_name: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
        expires_after: timedelta | None = None,
    ) -> int:
        """Make the file of :meth:`create_upload` for the same artifact its next version; return the number.

        A second call with the same *upload_id* returns the same number. The bytes stay within Cloud Storage,
        unless the store encrypts artifacts.

        Raises:
            UploadMissingError: the file is not uploaded yet, or belongs to another artifact.
            InvalidInputError, ArtifactConflictError, OutcomeUnknownError: as for :meth:`save_artifact`.
        """
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        expires_at = custom_time(expires_after)
        key.require_savable()
        if not _UPLOAD_ID.fullmatch(upload_id):
            raise InvalidInputError(
                f"upload_id {ascii(upload_id)[:80]} is malformed; pass the one that create_upload returned"
            )
        staged = await self._objects.info(upload_name(key, upload_id))
        if staged is None:
            return await self._finalized(key, upload_id)
        fields = encode_file(
            mime_type=staged.content_type,
            display_name=display_name,
            custom_metadata=custom_metadata,
            # The save has the id of the upload, so that the version tells which upload it was.
            save_id=upload_id,
            custom_time=expires_at,
            storage_class=self._storage_class,
        )
        try:
            version = await self._versions.save(
                key, lambda name: self._objects.copy(staged, name, fields), save_id=upload_id, again=True
            )
        except ObjectGoneError:
            return await self._finalized(key, upload_id)  # another call finalized it just now
        try:
            await self._objects.delete(staged.name, generation=staged.generation)
        except StoreError as exc:
            # The version is saved: the call succeeds.
            telemetry.warn(logger, "the upload is saved, and its staged object stays for gc", exc)
        return version

    @operation
    async def find_garbage(self, *, older_than_s: float = DEFAULT_AGE_S) -> AsyncIterator[Garbage]:
        """Yield old files that browsers uploaded for :meth:`create_upload` and that nobody finalized.

        In a folder also the files that killed processes left, of artifacts and of large content: it looks at
        all files.

        Args:
            older_than_s: Seconds since the last write, an hour at least, a day by default.

        Raises:
            InvalidInputError: *older_than_s* is below an hour.
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

        for file in await self._objects.left(every=True):
            if file.since < before:
                yield Garbage(
                    kind=GarbageKind.FILE,
                    place=PayloadPlace.BUCKET,
                    name=file.name,
                    since=file.since,
                    size=file.size,
                    versions=[(file.name, file.content)],
                )

    @operation
    async def remove_garbage(self, garbage: Garbage) -> bool:
        """Remove what :meth:`find_garbage` found; tell whether it is gone. Calling again is safe."""
        if garbage.kind is GarbageKind.FILE:
            ((name, content),) = garbage.versions
            file = LeftFile(content=content, name=name, size=garbage.size or 0, since=garbage.since)
            return not await self._objects.remove_left([file])
        if garbage.kind is not GarbageKind.UPLOAD:
            return False
        ((name, version),) = garbage.versions
        return await self._objects.delete_unchanged(name, version)

    async def _finalized(self, key: ArtifactKey, upload_id: str) -> int:
        """Return the version that an upload became."""
        version = await self._versions.saved_as(key, upload_id)
        if version is None:
            raise UploadMissingError(f"upload {upload_id} has no file yet; PUT the file to its URL first")
        return version

    async def _in_bucket(
        self, key: ArtifactKey, version: int | None, session: str | None
    ) -> StoredObject | None:
        """Return the object that holds a version's content; ``None`` if it is absent or lies elsewhere."""
        stored = await self._resolve(key, version, session)
        return None if stored is None or stored.file_uri is not None else stored
