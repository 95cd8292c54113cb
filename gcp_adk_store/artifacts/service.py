"""Keep ADK artifacts in Cloud Storage: each version one object, made exactly once."""

import os
import secrets
from collections.abc import AsyncIterator, Iterable
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, BinaryIO, Self
from urllib.parse import quote

from google.adk.artifacts import BaseArtifactService
from google.adk.artifacts.base_artifact_service import ArtifactVersion, ensure_part
from google.adk.platform import time as platform_time
from google.auth.credentials import Credentials
from google.genai import types
from pydantic import Field

from gcp_adk_store import settings
from gcp_adk_store.artifacts.browser_uploads import ArtifactUploads, SignedUpload
from gcp_adk_store.artifacts.files import (
    ArtifactReader,
    OnProgress,
    Progress,
    opened_source,
    opened_target,
    write_to,
)
from gcp_adk_store.artifacts.versions import ArtifactVersions, endless_reference
from gcp_adk_store.cloud.auth.credentials import StoreCredentials
from gcp_adk_store.cloud.storage.calls import StorageCalls, StorageClient
from gcp_adk_store.cloud.storage.objects import ObjectGoneError, Objects
from gcp_adk_store.cloud.storage.resumable import CHUNK_BYTES, ResumableUploads
from gcp_adk_store.cloud.storage.signing import UrlSigner
from gcp_adk_store.codec.objects import (
    StoredObject,
    decode_artifact,
    decode_file,
    encode_artifact,
    encode_copy,
    encode_file,
    filenames,
    in_one,
    scope_prefix,
    user_prefix,
    version_of,
)
from gcp_adk_store.errors import InvalidInputError, OutcomeUnknownError, StoreError, UnavailableError
from gcp_adk_store.model.artifacts import (
    MAX_REFERENCE_HOPS,
    REFERENCE_SCHEME,
    ArtifactReference,
    require_storage_class,
    time_after,
)
from gcp_adk_store.model.garbage import DEFAULT_AGE_S, Garbage
from gcp_adk_store.model.keys import ArtifactKey, ArtifactScope
from gcp_adk_store.operations import telemetry
from gcp_adk_store.operations.bounds import Bounds, operation
from gcp_adk_store.operations.fan_out import fan_out
from gcp_adk_store.operations.forks import OfOneProcess
from gcp_adk_store.settings import ArtifactLimits, StoreSettings


class StoredArtifactVersion(ArtifactVersion):  # noqa: PLW1641  # it can be changed, so it has no hash, as ADK's
    """A version of an artifact as ADK describes it, and its object as Cloud Storage does.

    It equals ADK's own :class:`ArtifactVersion` that says the same, and another of its class where size,
    generation and checksums are the same, too.
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


class GcsArtifactService(OfOneProcess, BaseArtifactService):
    """ADK's artifact service on Cloud Storage, for any number of processes, threads and event loops.

    ``async with`` closes what it opened. It may be made before the process forks, not be pickled.

    Guarantees: an acknowledged save is durable and visible to every later read; each save gets a number
    of its own with its own bytes, exactly once under retries and lost answers; a listing that failed is
    an error, never "no versions". Objects have ADK's names and metadata, so a bucket can be shared with
    its ``GcsArtifactService``.

    With ``STORAGE_EMULATOR_HOST`` set it talks to that emulator, without credentials.

    Every method may raise :class:`~gcp_adk_store.errors.InvalidInputError` for ids or filenames that
    ADK refuses, :class:`~gcp_adk_store.errors.UnavailableError`,
    :class:`~gcp_adk_store.errors.AccessDeniedError` and
    :class:`~gcp_adk_store.errors.NotProvisionedError`, beside what it names itself.
    """

    def __init__(
        self,
        bucket_name: str,
        *,
        project: str | None = None,
        client: StorageClient | None = None,
        credentials: StoreCredentials | Credentials | None = None,
        kms_key_name: str | None = None,
        storage_class: str | None = None,
        signing_service_account: str | None = None,
        limits: ArtifactLimits | None = None,
    ) -> None:
        """Prepare the service; nothing is contacted before the first call.

        Args:
            bucket_name: The bucket, which must exist.
            project: Google Cloud project to act in; by default that of the environment.
            client: A ``google.cloud.storage.Client`` to borrow; it stays open on :meth:`close`.
            credentials: Of ``google.auth``, or a :class:`~gcp_adk_store.StoreCredentials` to share; by
                default those of the environment.
            kms_key_name: Key of Cloud KMS that encrypts what is saved,
                ``projects/P/locations/L/keyRings/R/cryptoKeys/K``; by default the bucket's.
            storage_class: ``STANDARD``, ``NEARLINE``, ``COLDLINE`` or ``ARCHIVE`` for what is saved; by
                default the bucket's.
            signing_service_account: Email of the service account that signs URLs, where the credentials
                have no key and are not of one themselves.
            limits: Bounds and deadlines.

        Raises:
            InvalidInputError: *bucket_name* cannot be a bucket's name, or *storage_class* is none.
        """
        StoreSettings(bucket=bucket_name)  # refuses what cannot be a bucket's name
        require_storage_class(storage_class)
        self._storage_class = storage_class
        limits = limits or ArtifactLimits()
        # What bounds their number is the threads that their requests take.
        self.bounds = Bounds(
            GcsArtifactService,
            system=telemetry.STORAGE,
            deadlines_s=limits.deadlines_s,
            turns=None,
            names_ids=settings.names_ids,
        )
        credentials = StoreCredentials.of(credentials)
        calls = StorageCalls(
            bucket_name, project=project, client=client, credentials=credentials, limits=limits
        )
        self._objects = Objects(calls, kms_key_name=kms_key_name)
        self._resumable = ResumableUploads(calls, self._objects)
        self._versions = ArtifactVersions(self._objects, limits)
        self._signer = UrlSigner(calls, credentials=credentials, service_account=signing_service_account)
        self._uploads = ArtifactUploads(self._objects, self._versions, self._signer)

    @property
    def bucket_name(self) -> str:
        """The bucket that the artifacts are kept in."""
        return self._objects.bucket

    @operation
    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
        expires_after: timedelta | None = None,
        storage_class: str | None = None,
    ) -> int:
        """Save a new version and return its number: 0, then one more than the highest.

        1 request where this process saved the artifact before, else 2.

        Args:
            app_name: The app.
            user_id: The user.
            filename: Name of the artifact; ``user:`` at its start makes it one of all the user's sessions.
            artifact: Inline bytes, text, or file data, also as a dictionary.
            session_id: The session, for an artifact of its own.
            custom_metadata: Kept with its JSON types, up to 8 KiB.
            expires_after: The version's custom time is so far away, for a lifecycle rule of the bucket to
                remove it then (docs/data-model.md); until the rule acts it can be loaded.
            storage_class: As that of the service, for this version.

        Raises:
            InvalidInputError: the part holds nothing to save, a reference leaves its scope, or the
                metadata is over 8 KiB; nothing was sent.
            ArtifactConflictError: other writers took ``ArtifactLimits.save_attempts`` numbers.
            OutcomeUnknownError: not answered; the version may exist.
        """
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        key.require_savable()
        part = ensure_part(artifact)
        uri = part.file_data.file_uri if part.file_data else None
        if uri and uri.startswith(REFERENCE_SCHEME):
            ArtifactReference.parse(uri, within=_within(key, session_id))
        save_id = secrets.token_hex(16)
        upload = encode_artifact(
            part,
            custom_metadata=custom_metadata,
            save_id=save_id,
            custom_time=_custom_time(expires_after),
            storage_class=require_storage_class(storage_class) or self._storage_class,
        )
        return await self._versions.save(
            key, lambda name: self._objects.create(name, upload), save_id=save_id
        )

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

        It is what :meth:`save_artifact` makes of inline bytes. Over 8 MiB the upload is a resumable one of
        8 MiB a request: what is lost on the way is sent again, not the whole. Cancelled, it stops after the
        request that is running: if that was the last one, the version exists. The CRC32C of what was read and
        of what is stored are compared.

        Args:
            app_name: The app.
            user_id: The user.
            filename: As for :meth:`save_artifact`.
            source: A path, or a binary file that can seek, which is read from its start and stays open;
                what is added to it meanwhile is not saved.
            session_id: As for :meth:`save_artifact`.
            mime_type: Content type, ``application/octet-stream`` by default.
            display_name: Kept for the part that is loaded.
            custom_metadata: As for :meth:`save_artifact`.
            expires_after: As for :meth:`save_artifact`.
            storage_class: As for :meth:`save_artifact`.
            on_progress: Called in the event loop with the bytes sent so far and all of them; at the end
                both are equal. One that raises is logged and not called again.

        Raises:
            InvalidInputError: as for :meth:`save_artifact`, or *source* is no such file.
            OSError: *source* cannot be read.
            ArtifactConflictError, OutcomeUnknownError: as for :meth:`save_artifact`.
        """
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        key.require_savable()
        save_id = secrets.token_hex(16)
        fields = encode_file(
            mime_type=mime_type,
            display_name=display_name,
            custom_metadata=custom_metadata,
            save_id=save_id,
            custom_time=_custom_time(expires_after),
            storage_class=require_storage_class(storage_class) or self._storage_class,
        )
        async with opened_source(source) as opened:
            progress = Progress(opened.size, on_progress)

            async def create(name: str) -> None:
                if opened.size <= CHUNK_BYTES:
                    upload = in_one(fields, await opened.read_at(0, opened.size))
                    await self._objects.create(name, upload)
                else:
                    await self._resumable.create(
                        name, fields, size=opened.size, read_at=opened.read_at, on_progress=progress
                    )

            version = await self._versions.save(key, create, save_id=save_id)
            progress(opened.size)
            return version

    @operation
    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """Return a version, by default the latest; ``None`` if there is none or a rewind removed it.

        The latest takes 2 requests, a given version 2 side by side. ``artifact://`` references are
        followed, up to five.

        Raises:
            InvalidInputError: a reference leaves its scope, or leads on and on.
        """
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        scope = _within(key, session_id)
        for _ in range(MAX_REFERENCE_HOPS + 1):
            found = await self._versions.load(key, version)
            if found is None:
                return None
            stored, data = found
            uri = stored.file_uri
            if uri is None:
                return decode_artifact(stored, data)
            if not uri.startswith(REFERENCE_SCHEME):
                return decode_file(stored, uri)
            target = ArtifactReference.parse(uri, within=scope)
            key, version = target.key, target.version
        raise endless_reference(uri)

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
        """Write a version's bytes to a file, of any size in little memory; ``None`` if absent.

        8 MiB a request, each repeated by itself when it fails; the whole is checked against its CRC32C.
        References are followed, as by :meth:`load_artifact`.

        Args:
            app_name: The app.
            user_id: The user.
            filename: The artifact.
            target: A path, whose file appears or is replaced when all of it is there; or a binary file,
                which is written from its position on and stays open.
            session_id: The session, for an artifact of its own.
            version: By default the latest.
            on_progress: Called in the event loop with the bytes received so far and all of them.

        Returns:
            What was written; where a reference was followed, the version that it led to.

        Raises:
            InvalidInputError: the artifact is a file elsewhere, or a reference leaves its scope.
            StoredDataError: the version was deleted meanwhile, or is damaged; a path's file is as it was.
            OSError: *target* cannot be written.
        """
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        stored = await self._resolve(key, version, session_id)
        if stored is None:
            return None
        reader = ArtifactReader(self._objects, stored, key=str(key))
        described = self._describe(stored)  # before the target is replaced: it may be damaged
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
        """Return a reader of parts of a version, by default the latest; ``None`` if absent.

        1 request, and 1 for each part that is read. References are followed.

        Raises:
            InvalidInputError: the artifact is a file elsewhere, or a reference leaves its scope.
        """
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        stored = await self._resolve(key, version, session_id)
        if stored is None:
            return None
        if stored.content_encoding is not None:
            raise InvalidInputError(f"it is stored as {stored.content_encoding}; load it as a whole")
        return ArtifactReader(self._objects, stored, key=str(key))

    @operation
    async def list_artifact_keys(
        self, *, app_name: str, user_id: str, session_id: str | None = None
    ) -> list[str]:
        """Return the sorted filenames of the session and of the user; without a session, the user's.

        2 listings side by side; every name returned can be loaded as it is.
        """
        user = ArtifactScope(app=app_name, user=user_id, session=None)
        scopes = [user]
        if session_id is not None:
            scopes.append(ArtifactScope(app=app_name, user=user_id, session=session_id))
        prefixes = [scope_prefix(scope) for scope in scopes]
        listings = await fan_out(self._objects.names(prefix, delimiter=None) for prefix in prefixes)
        found = (filenames(names, prefix) for names, prefix in zip(listings, prefixes, strict=True))
        return sorted(set().union(*found))

    @operation
    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Remove the versions that there are, in parallel; one that is saved meanwhile stays."""
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)

        async def remove() -> None:
            infos = await self._versions.infos(key)
            await self._delete(infos.values())

        await self._versions.forget_while(key, remove)

    @operation
    async def delete_session_artifacts(
        self, *, app_name: str, user_id: str, session_id: str, dry_run: bool = False
    ) -> list[str]:
        """Remove all artifacts of a session, not the user's own; return their sorted filenames.

        With *dry_run* only return what would be removed. 1 listing, and 1 delete a version, in parallel.
        """
        scope = ArtifactScope(app=app_name, user=user_id, session=session_id)
        # In the place of a session called so are the user's own.
        ArtifactKey(scope=scope, filename="any").require_savable()
        return await self._delete_below(scope_prefix(scope), scope, dry_run=dry_run)

    @operation
    async def delete_user_artifacts(self, *, app_name: str, user_id: str, dry_run: bool = False) -> list[str]:
        """Remove all that a user has in an app, in every session; return the sorted names.

        Those of a session's artifacts start with the session's id and a ``/``. With *dry_run* only return
        what would be removed. 1 listing, and 1 delete a version, in parallel.
        """
        scope = ArtifactScope(app=app_name, user=user_id, session=None)
        return await self._delete_below(user_prefix(scope), scope, dry_run=dry_run)

    @operation
    async def copy_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
        to_user_id: str | None = None,
        to_session_id: str | None = None,
        to_filename: str | None = None,
        expires_after: timedelta | None = None,
    ) -> int | None:
        """Make a version, by default the latest, the next version of another artifact; return its number.

        Its bytes stay within Cloud Storage; content type, names and metadata come with them. ``None`` if
        there is nothing to copy.

        Args:
            app_name: The app, of both.
            user_id: The user to copy from.
            filename: The artifact to copy from.
            session_id: The session to copy from.
            version: The version to copy.
            to_user_id: By default *user_id*.
            to_session_id: By default *session_id*.
            to_filename: By default *filename*.
            expires_after: As for :meth:`save_artifact`; what the version to copy has of it stays behind.

        Raises:
            InvalidInputError: the target is no artifact to save, or a reference could not be followed there.
            ArtifactConflictError, OutcomeUnknownError: as for :meth:`save_artifact`.
        """
        source = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        to_session_id = session_id if to_session_id is None else to_session_id
        target = ArtifactKey.of(
            app=app_name,
            user=user_id if to_user_id is None else to_user_id,
            session=to_session_id,
            filename=filename if to_filename is None else to_filename,
        )
        target.require_savable()
        while True:
            found = await self._versions.find(source, version)
            if found is None or _is_tombstone(found[1]):
                return None
            try:
                return await self._copy(found[1], target, to_session_id, expires_after)
            except ObjectGoneError:
                continue  # deleted between the two requests: look again

    @operation
    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """Return the numbers of all versions, ascending; 1 listing of names."""
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        return await self._versions.numbers(key)

    @operation
    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """Return all versions as :class:`StoredArtifactVersion`, ascending; 1 listing."""
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        infos = await self._versions.infos(key, hashes=True)
        return [self._describe(stored) for _, stored in sorted(infos.items())]

    @operation
    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> StoredArtifactVersion | None:
        """Return the metadata of a version, by default the latest; ``None`` if absent. 1 request."""
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        found = await self._versions.find(key, version)
        return None if found is None else self._describe(found[1])

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
        """Return a URL that lets anyone who has it read a version for a while; ``None`` if absent.

        Signed with the key of the credentials, or without one by IAM, as on Cloud Run and GKE. 1 request to
        Cloud Storage. References are followed; an artifact whose content lies elsewhere has no such URL.

        Args:
            app_name: The app.
            user_id: The user.
            filename: The artifact.
            session_id: The session, for an artifact of its own.
            version: By default the latest.
            expiration: When, or after how long, it ends: at most 7 days, by default 1 hour.
            method: HTTP method that the URL is for.
            signing_version: ``v4`` by default.
            **options: Passed to ``google.cloud.storage.Blob.generate_signed_url``, such as
                ``response_disposition``.

        Raises:
            InvalidInputError: an option or *expiration* is none that can be signed.
            AccessDeniedError: the credentials can sign nothing, or IAM does not let them.
        """
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        stored = await self._versions.resolve(key, version, within=_within(key, session_id))
        if stored is None or stored.file_uri is not None or _is_tombstone(stored):
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
        """Return a URL that shows a version to who is signed in to Google and may read it.

        ``None`` if absent. 1 request. References are followed; an artifact whose content lies elsewhere has
        no such URL.
        """
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        stored = await self._versions.resolve(key, version, within=_within(key, session_id))
        if stored is None or stored.file_uri is not None or _is_tombstone(stored):
            return None
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
        """Return where a browser may put a file, for :meth:`finalize_upload`; it passes no agent.

        Nothing is sent but what signing takes. What was put is not replaced before it is finalized. What is
        never finalized stays below ``adk-store-uploads/`` until a lifecycle rule of the bucket removes it;
        the bucket's CORS must allow the browser's origin, ``PUT`` and the headers (docs/data-model.md).

        Args:
            app_name: The app.
            user_id: The user.
            filename: As for :meth:`save_artifact`.
            session_id: As for :meth:`save_artifact`.
            mime_type: Content type that the browser must send.
            max_bytes: What Cloud Storage refuses more of; by default its own limit, 5 TiB.
            expiration: How long the URL works, at most 7 days.

        Raises:
            InvalidInputError: it is no artifact to save, or cannot be signed.
            AccessDeniedError: as for :meth:`get_signed_url`.
        """
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        return await self._uploads.create(
            key, mime_type=mime_type, max_bytes=max_bytes, expiration=expiration
        )

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
        """Make what was put for :meth:`create_upload` of the same artifact its next version.

        Returns its number; called again for the same *upload_id*, the same one. The bytes stay within Cloud
        Storage.

        Raises:
            UploadMissingError: nothing was put yet, or the upload is of another artifact.
            InvalidInputError, ArtifactConflictError, OutcomeUnknownError: as for :meth:`save_artifact`.
        """
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        return await self._uploads.finalize(
            key,
            upload_id,
            display_name=display_name,
            custom_metadata=custom_metadata,
            custom_time=_custom_time(expires_after),
            storage_class=self._storage_class,
        )

    @operation
    async def find_garbage(self, *, older_than_s: float = DEFAULT_AGE_S) -> AsyncIterator[Garbage]:
        """Yield files that were put for :meth:`create_upload` so long ago and never finalized.

        Args:
            older_than_s: Seconds since they were put, an hour at least, a day by default.

        Raises:
            InvalidInputError: *older_than_s* is below an hour.
        """
        async for garbage in self._uploads.abandoned(older_than_s=older_than_s):
            yield garbage

    @operation
    async def remove_garbage(self, garbage: Garbage) -> bool:
        """Remove what :meth:`find_garbage` found; tell whether it is gone. Calling again is safe."""
        return await self._uploads.remove(garbage)

    async def close(self) -> None:
        """Let running requests finish, then close own connections and threads."""
        await self._objects.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _resolve(
        self, key: ArtifactKey, version: int | None, session: str | None
    ) -> StoredObject | None:
        """Return the object whose bytes a version is; ``None`` if it is absent, or removed by a rewind."""
        stored = await self._versions.resolve(key, version, within=_within(key, session))
        if stored is None:
            return None
        if stored.file_uri is not None:
            raise InvalidInputError("the content lies elsewhere; load_artifact says where")
        return None if _is_tombstone(stored) else stored

    async def _copy(
        self, stored: StoredObject, target: ArtifactKey, session: str | None, expires_after: timedelta | None
    ) -> int:
        if stored.file_uri is not None and stored.file_uri.startswith(REFERENCE_SCHEME):
            ArtifactReference.parse(stored.file_uri, within=_within(target, session))
        save_id = secrets.token_hex(16)
        fields = encode_copy(
            stored,
            save_id=save_id,
            custom_time=_custom_time(expires_after),
            storage_class=self._storage_class,
        )
        try:
            return await self._versions.save(
                target, lambda name: self._objects.copy(stored, name, fields), save_id=save_id
            )
        except ObjectGoneError as exc:
            if not exc.perhaps_own:
                raise
            # Copied, perhaps, before the source went: then there is a version with this save's id.
            unknown = "sent and not answered, and then the source was gone; list the target's versions"
            try:
                done = await self._versions.saved_as(target, save_id)
            except StoreError as failure:
                raise OutcomeUnknownError.since(failure, unknown) from failure
            if done is None:
                raise OutcomeUnknownError(unknown) from exc
            return done

    async def _delete_below(self, prefix: str, scope: ArtifactScope, *, dry_run: bool) -> list[str]:
        infos = await self._objects.infos(prefix, delimiter=None)
        names = {stored.name: stored for stored in infos}
        found = sorted(filenames(names, prefix))
        if not dry_run:
            try:
                await self._delete((stored for name, stored in names.items() if filenames([name], prefix)))
            finally:
                self._versions.forget_scope(scope)
        return found

    async def _delete(self, versions: Iterable[StoredObject]) -> None:
        """Remove these generations; a version that is saved meanwhile stays."""
        removed: list[str] = []
        failures: list[StoreError] = []

        async def remove(stored: StoredObject) -> None:
            if failures:
                return
            try:
                await self._objects.delete(stored.name, generation=stored.generation)
            except StoreError as exc:
                failures.append(exc)
            else:
                removed.append(stored.name)

        # None is cancelled for another's failure: its request might be done all the same.
        await fan_out(remove(stored) for stored in versions)
        if not failures:
            return
        open_ = [exc for exc in failures if isinstance(exc, UnavailableError | OutcomeUnknownError)]
        first = (open_ or failures)[0]
        if not removed and not open_:
            raise first
        raise OutcomeUnknownError.since(
            first, f"some may be removed, and some not; delete again: {first}"
        ) from first

    def _describe(self, stored: StoredObject) -> StoredArtifactVersion:
        return StoredArtifactVersion(
            version=version_of(stored.name),
            canonical_uri=f"gs://{self.bucket_name}/{stored.name}",
            custom_metadata=stored.custom_metadata,
            create_time=stored.create_time,
            mime_type=stored.content_type,
            size=stored.size,
            generation=stored.generation,
            crc32c=stored.crc32c,
            md5=stored.md5,
        )


def _within(key: ArtifactKey, session: str | None) -> ArtifactScope:
    """Return the scope that references may lead to: the caller's session, even from a user's artifact."""
    return ArtifactScope(app=key.scope.app, user=key.scope.user, session=session)


def _is_tombstone(stored: StoredObject) -> bool:
    return stored.file_uri is None and stored.size == 0 and decode_artifact(stored, b"") is None


def _custom_time(expires_after: timedelta | None) -> datetime | None:
    return None if expires_after is None else time_after(expires_after, now=platform_time.get_time())
