"""Move artifacts as files, by URLs and by uploads of browsers."""

import os
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import datetime, timedelta
from functools import partial
from typing import Any, BinaryIO
from urllib.parse import quote

from gcp_adk_store import machine
from gcp_adk_store.artifacts import uploads
from gcp_adk_store.artifacts.files import (
    ArtifactReader,
    OnProgress,
    Progress,
    create_from,
    opened_source,
    opened_target,
    write_to,
)
from gcp_adk_store.artifacts.owners import ArtifactStorage
from gcp_adk_store.artifacts.uploads import SignedUpload
from gcp_adk_store.artifacts.versions import (
    ArtifactVersions,
    StoredArtifactVersion,
    custom_time,
    describe,
    is_tombstone,
    reference_scope,
)
from gcp_adk_store.codec.objects import StoredObject, encode_file, require_storage_class
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.calls import Bounds, checks_kinds, operation
from gcp_adk_store.kernel.ports import Objects, Signer, Uploads
from gcp_adk_store.kernel.process import Closing
from gcp_adk_store.model.keys import ArtifactKey
from gcp_adk_store.model.payloads import DEFAULT_AGE_S, Garbage
from gcp_adk_store.settings import ArtifactLimits


@checks_kinds
class ArtifactTransfers(Closing):
    """The methods of the artifact service beyond ADK's interface: files, URLs, and uploads."""

    def __init__(
        self,
        objects: Objects,
        uploads: Uploads,
        signer: Signer,
        limits: ArtifactLimits | None = None,
        *,
        storage_class: str | None = None,
        encrypts: bool = False,
    ) -> None:
        """Prepare the service; nothing is read or written before the first call.

        Args:
            objects: The objects of a bucket, or of what stands for one; :meth:`close` closes them.
            uploads: Sends large files to the same place.
            signer: Signs URLs of the same place, or refuses to.
            limits: Bounds and deadlines.
            storage_class: The class of new versions; by default that of the bucket.
            encrypts: Whether *objects* and *uploads* encrypt what they are given.
        """
        limits = limits or ArtifactLimits()
        self._objects = objects
        self._signer = signer
        self._storage_class = storage_class
        self._versions = ArtifactVersions(objects, limits)
        self.storage = ArtifactStorage(
            objects=objects,
            uploads=uploads,
            versions=self._versions,
            limits=limits,
            storage_class=storage_class,
            encrypts=encrypts,
        )
        """Where the artifacts are stored, for the other services of one store."""
        # The number of threads for requests bounds how many operations run.
        self._bounds = Bounds(type(self), system=telemetry.STORAGE, deadlines_s=limits.deadlines_s)

    @property
    def bucket_name(self) -> str:
        """The bucket that the artifacts are kept in.

        Raises:
            InvalidInputError: they are kept in a folder or in memory.
        """
        return self._objects.bucket

    @operation
    async def save_artifact_file(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        source: str | os.PathLike[str] | BinaryIO,
        session_id: str | None = None,
        mime_type: str | None = None,
        display_name: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
        expires_after: timedelta | None = None,
        storage_class: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> int:
        """Save a file as a new version, of any size in little memory, and return its number.

        The version is the same as if :meth:`save_artifact` saved the bytes inline. A file over 8 MiB is sent
        by a resumable upload with 8 MiB a request. After a failure only the missing bytes are sent again. A
        call that is cancelled stops after the running request; if that was the last one, the version exists.
        The CRC32C of the stored bytes is compared with that of the bytes that were read.

        Args:
            app_name: The app.
            user_id: The user.
            filename: As for :meth:`save_artifact`.
            source: A path, or a binary file that can seek. A file is read from its start and stays open.
                Bytes that others append during the call are not saved.
            session_id: As for :meth:`save_artifact`.
            mime_type: Content type, ``application/octet-stream`` by default.
            display_name: Display name of the part that is loaded.
            custom_metadata: As for :meth:`save_artifact`.
            expires_after: As for :meth:`save_artifact`.
            storage_class: As for :meth:`save_artifact`.
            on_progress: Called in the event loop with the number of bytes sent so far and the number of all
                bytes; in the last call both are equal. If it raises, the error is logged and it is not called
                again.

        Raises:
            InvalidInputError: as for :meth:`save_artifact`, or *source* cannot be used.
            OSError: *source* cannot be read.
            ArtifactConflictError, OutcomeUnknownError: as for :meth:`save_artifact`.
        """
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        key.require_savable()
        save_id = machine.random_bytes(16).hex()
        fields = encode_file(
            mime_type=mime_type,
            display_name=display_name,
            custom_metadata=custom_metadata,
            save_id=save_id,
            custom_time=custom_time(expires_after),
            storage_class=require_storage_class(storage_class) or self._storage_class,
        )
        async with opened_source(source) as opened:
            progress = Progress(opened.size, on_progress)
            create = partial(
                create_from,
                opened,
                fields=fields,
                objects=self._objects,
                uploads=self.storage.uploads,
                on_progress=progress,
            )
            version = await self._versions.save(key, create, save_id=save_id)
            progress(opened.size)
            return version

    @operation
    async def load_artifact_to(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        target: str | os.PathLike[str] | BinaryIO,
        session_id: str | None = None,
        version: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> StoredArtifactVersion | None:
        """Write a version's bytes to a file, of any size in little memory; return ``None`` if absent.

        Each request reads 8 MiB, and only a request that fails is repeated. The CRC32C of all bytes is
        checked. Follows references, as :meth:`load_artifact` does.

        Args:
            app_name: The app.
            user_id: The user.
            filename: The artifact.
            target: A path, or a binary file. The file at a path appears or is replaced when all bytes are
                there. A binary file is written from its position on and stays open.
            session_id: The session, for an artifact of its own.
            version: By default the latest.
            on_progress: Called in the event loop with the number of bytes received so far and the number of
                all bytes.

        Returns:
            The version that was written; after a reference, the version that it led to.

        Raises:
            InvalidInputError: the artifact is a file outside of the bucket, or a reference leaves its scope,
                or *target* is neither a path nor an open binary file.
            StoredDataError: the version was deleted meanwhile, or is damaged; a file at a path is unchanged.
            OSError: *target* cannot be written.
        """
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        stored = await self._content(key, version, session_id)
        if stored is None:
            return None
        reader = ArtifactReader(self._objects, stored)
        described = describe(self._objects, stored)  # it may be damaged: before *target* is replaced
        async with opened_target(target) as file:
            packed = stored.content_encoding == "gzip"
            await write_to(reader, file, compressed=packed, on_progress=on_progress)
        return described

    @operation
    async def open_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactReader | None:
        """Return a reader of parts of a version, by default the latest; return ``None`` if absent.

        Takes 1 request, and 1 for each part that is read. Follows references.

        Raises:
            InvalidInputError: the artifact is a file outside of the bucket, or is stored compressed, or a
                reference leaves its scope.
        """
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        stored = await self._content(key, version, session_id)
        if stored is None:
            return None
        if stored.content_encoding is not None:
            raise InvalidInputError(f"the version is stored as {stored.content_encoding}; load it as a whole")
        return ArtifactReader(self._objects, stored)

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
        stored = await self._resolve(key, version, session_id)
        if stored is None or stored.file_uri is not None:
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
        stored = await self._resolve(key, version, session_id)
        if stored is None or stored.file_uri is not None:
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
        how: dict[str, Any] = {"mime_type": mime_type, "max_bytes": max_bytes, "expiration": expiration}
        return await uploads.sign(self._objects, self._signer, key, **how)

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
        return await uploads.finalize(
            self.storage,
            key,
            upload_id,
            display_name=display_name,
            custom_metadata=custom_metadata,
            expires_after=expires_after,
        )

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
        async with aclosing(uploads.find_garbage(self._objects, older_than_s=older_than_s)) as found:
            async for garbage in found:
                yield garbage

    @operation
    async def remove_garbage(self, garbage: Garbage) -> bool:
        """Remove what :meth:`find_garbage` found; return whether it is gone. Calling again is safe."""
        return await uploads.remove_garbage(self._objects, garbage)

    async def _resolve(
        self, key: ArtifactKey, version: int | None, session: str | None
    ) -> StoredObject | None:
        """Follow references to the object that has the content of a version; ``None`` without the version."""
        stored = await self._versions.resolve(key, version, within=reference_scope(key, session))
        if stored is None or is_tombstone(stored):
            return None
        stored.require_readable()
        return stored

    async def _content(
        self, key: ArtifactKey, version: int | None, session: str | None
    ) -> StoredObject | None:
        """Return the object that holds a version's content, ``None`` if absent; refuse files elsewhere."""
        stored = await self._resolve(key, version, session)
        if stored is not None and stored.file_uri is not None:
            raise InvalidInputError("the content lies outside of the bucket; load_artifact returns its URI")
        return stored
