"""Keep ADK artifacts in Cloud Storage: each version one object, made exactly once."""

import secrets
from collections.abc import Iterable
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from google.adk.artifacts import BaseArtifactService
from google.adk.artifacts.base_artifact_service import ArtifactVersion, ensure_part
from google.auth.credentials import Credentials
from google.genai import types

from gcp_adk_store import settings
from gcp_adk_store.artifacts.browser_uploads import UploadMethods
from gcp_adk_store.artifacts.file_methods import FileMethods
from gcp_adk_store.artifacts.link_methods import LinkMethods
from gcp_adk_store.artifacts.methods import custom_time, is_tombstone, reference_scope
from gcp_adk_store.artifacts.stored_version import StoredArtifactVersion
from gcp_adk_store.artifacts.versions import ArtifactVersions, endless_reference
from gcp_adk_store.cloud.auth.credentials import StoreCredentials
from gcp_adk_store.cloud.storage.calls import StorageCalls, StorageClient
from gcp_adk_store.cloud.storage.objects import ObjectGoneError, Objects
from gcp_adk_store.cloud.storage.resumable import ResumableUploads
from gcp_adk_store.cloud.storage.signing import UrlSigner
from gcp_adk_store.codec.objects import (
    StoredObject,
    decode_artifact,
    decode_file,
    encode_artifact,
    encode_copy,
    filenames,
    scope_prefix,
    user_prefix,
)
from gcp_adk_store.errors import OutcomeUnknownError, StoreError, UnavailableError
from gcp_adk_store.model.artifacts import (
    MAX_REFERENCE_HOPS,
    REFERENCE_SCHEME,
    ArtifactReference,
    require_storage_class,
)
from gcp_adk_store.model.keys import ArtifactKey, ArtifactScope
from gcp_adk_store.operations import telemetry
from gcp_adk_store.operations.bounds import Bounds, operation
from gcp_adk_store.operations.fan_out import fan_out
from gcp_adk_store.operations.forks import OfOneProcess
from gcp_adk_store.settings import ArtifactLimits, StoreSettings


class GcsArtifactService(FileMethods, LinkMethods, UploadMethods, OfOneProcess, BaseArtifactService):
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
            ArtifactReference.parse(uri, within=reference_scope(key, session_id))
        save_id = secrets.token_hex(16)
        upload = encode_artifact(
            part,
            custom_metadata=custom_metadata,
            save_id=save_id,
            custom_time=custom_time(expires_after),
            storage_class=require_storage_class(storage_class) or self._storage_class,
        )
        return await self._versions.save(
            key, lambda name: self._objects.create(name, upload), save_id=save_id
        )

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
        scope = reference_scope(key, session_id)
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
            if found is None or is_tombstone(found[1]):
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

    async def close(self) -> None:
        """Let running requests finish, then close own connections and threads."""
        await self._objects.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _copy(
        self, stored: StoredObject, target: ArtifactKey, session: str | None, expires_after: timedelta | None
    ) -> int:
        if stored.file_uri is not None and stored.file_uri.startswith(REFERENCE_SCHEME):
            ArtifactReference.parse(stored.file_uri, within=reference_scope(target, session))
        save_id = secrets.token_hex(16)
        fields = encode_copy(
            stored,
            save_id=save_id,
            custom_time=custom_time(expires_after),
            storage_class=self._storage_class,
        )
        return await self._versions.save(
            target, lambda name: self._objects.copy(stored, name, fields), save_id=save_id
        )

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
