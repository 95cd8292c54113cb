"""Store ADK artifacts over any storage of objects: each version is one object, made exactly once."""

from datetime import timedelta
from typing import Any

from google.adk.artifacts import BaseArtifactService
from google.adk.artifacts.base_artifact_service import ArtifactVersion, ensure_part
from google.genai import types

from gcp_adk_store import machine
from gcp_adk_store.artifacts.transfers import ArtifactTransfers
from gcp_adk_store.artifacts.versions import (
    StoredArtifactVersion,
    custom_time,
    describe,
    is_tombstone,
    reference_scope,
)
from gcp_adk_store.codec.encode import UNREADABLE, invalid_places
from gcp_adk_store.codec.names import filenames, scope_prefix, user_prefix
from gcp_adk_store.codec.objects import (
    StoredObject,
    decode_artifact,
    decode_file,
    encode_artifact,
    encode_copy,
    require_storage_class,
)
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.kernel.calls import checks_kinds, operation
from gcp_adk_store.kernel.concurrency import gather
from gcp_adk_store.kernel.ports import ObjectGoneError
from gcp_adk_store.kernel.transact import CHANGED, Changed, read_whole
from gcp_adk_store.model.artifacts import REFERENCE_SCHEME, ArtifactReference
from gcp_adk_store.model.keys import ArtifactKey, ArtifactScope


@checks_kinds
class ArtifactService(ArtifactTransfers, BaseArtifactService):
    """ADK's artifact service over any storage of objects, for any number of processes and event loops.

    ``async with`` closes the connections of its storage. It can be made before the process forks. It
    cannot be pickled.

    Guarantees: an acknowledged save is durable and visible to every later read; each save gets a number
    of its own with its own bytes, exactly once under retries and lost answers; a listing that failed is
    an error, never "no versions". Objects have the names and metadata that ADK gives them, so ADK's
    ``GcsArtifactService`` can use the same bucket.

    Every method may raise :class:`~gcp_adk_store.errors.InvalidInputError` for ids or filenames that
    ADK refuses, :class:`~gcp_adk_store.errors.UnavailableError`,
    :class:`~gcp_adk_store.errors.AccessDeniedError` and
    :class:`~gcp_adk_store.errors.NotProvisionedError`, in addition to the errors that it names.
    """

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

        Takes 1 request if this process knows the artifact's latest version, else a listing before it.

        Args:
            app_name: The app.
            user_id: The user.
            filename: Name of the artifact. All sessions of the user share an artifact whose name starts with
                ``user:``.
            artifact: Inline bytes, text, or file data, also as a dictionary.
            session_id: The session, for an artifact of its own.
            custom_metadata: Stored with its JSON types, up to 8 KiB.
            expires_after: Sets the custom time of the version, after which a lifecycle rule of the bucket
                removes it (docs/data-model.md). Until then it can be loaded.
            storage_class: Storage class of this version, by default that of the service.

        Raises:
            InvalidInputError: the part holds nothing to save, a reference leaves its scope, or the
                metadata is over 8 KiB; nothing was sent.
            ArtifactConflictError: other writers took ``ArtifactLimits.save_attempts`` numbers.
            OutcomeUnknownError: Cloud Storage did not answer; the version may exist.
        """
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        key.require_savable()
        try:
            part = ensure_part(artifact)
        except UNREADABLE as exc:
            # From None: pydantic's error quotes the artifact's content.
            raise InvalidInputError(f"artifact is no Part, at {invalid_places(exc)}") from None
        except TypeError:
            raise InvalidInputError("artifact is no Part: its keys are not all texts") from None
        uri = part.file_data.file_uri if part.file_data else None
        if uri and uri.startswith(REFERENCE_SCHEME):
            ArtifactReference.parse(uri, within=reference_scope(key, session_id))
        save_id = machine.random_bytes(16).hex()
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
        """Return a version, by default the latest; ``None`` if it is absent or a rewind removed it.

        A given version takes 2 requests at the same time. The latest takes 3: all at the same time if this
        process knows it, else a listing before the others. Follows up to five ``artifact://``
        references.

        Raises:
            InvalidInputError: a reference leaves its scope, or too many follow each other.
        """
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        found = await self._versions.load(key, version, within=reference_scope(key, session_id))
        if found is None:
            return None
        stored, data = found
        uri = stored.file_uri
        return decode_artifact(stored, data) if uri is None else decode_file(stored, uri)

    @operation
    async def list_artifact_keys(
        self, *, app_name: str, user_id: str, session_id: str | None = None
    ) -> list[str]:
        """Return the sorted filenames of the session and of the user; without a session, the user's.

        Takes 2 listings at the same time. :meth:`load_artifact` accepts each name as it is.
        """
        user = ArtifactScope(app=app_name, user=user_id, session=None)
        scopes = [user]
        if session_id is not None:
            scopes.append(ArtifactScope(app=app_name, user=user_id, session=session_id))
        prefixes = [scope_prefix(scope) for scope in scopes]
        listings = await gather(self._objects.names(prefix, delimiter=None) for prefix in prefixes)
        found = (filenames(names, prefix) for names, prefix in zip(listings, prefixes, strict=True))
        return sorted(set().union(*found))

    @operation
    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Remove all versions, in parallel; a version that is saved meanwhile stays."""
        await self._versions.delete_all(
            ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        )

    @operation
    async def delete_session_artifacts(
        self, *, app_name: str, user_id: str, session_id: str, dry_run: bool = False
    ) -> list[str]:
        """Remove all artifacts of a session, not the user's own; return their sorted filenames.

        With *dry_run*, only return what would be removed. Takes 1 listing, and 1 request a version, in
        parallel.
        """
        scope = ArtifactScope(app=app_name, user=user_id, session=session_id)
        # Refuses a session id under which the user's own artifacts are stored.
        ArtifactKey(scope=scope, filename="any").require_savable()
        return await self._delete_below(scope_prefix(scope), scope, dry_run=dry_run)

    @operation
    async def delete_user_artifacts(self, *, app_name: str, user_id: str, dry_run: bool = False) -> list[str]:
        """Remove all artifacts of a user in an app, in every session; return their sorted names.

        The name of a session's artifact starts with the session's id and a ``/``. With *dry_run*, only return
        what would be removed. Takes 1 listing, and 1 request a version, in parallel.
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

        The bytes stay within Cloud Storage, unless the store encrypts artifacts. Content type, display name
        and metadata are copied, too. Returns ``None`` if the version is absent.

        Args:
            app_name: The app, of both.
            user_id: The user to copy from.
            filename: The artifact to copy from.
            session_id: The session to copy from.
            version: The version to copy.
            to_user_id: By default *user_id*.
            to_session_id: By default *session_id*.
            to_filename: By default *filename*.
            expires_after: As for :meth:`save_artifact`. The custom time of the source is not copied.

        Raises:
            InvalidInputError: the target cannot be saved, or the version is a reference that the target may
                not follow.
            UnavailableError: others replaced the version until the deadline; nothing was saved.
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

        async def copy() -> int | Changed | None:
            stored = await self._versions.find(source, version)
            if stored is None or is_tombstone(stored):
                return None
            try:
                return await self._copy(stored, target, to_session_id, expires_after)
            except ObjectGoneError:
                return CHANGED  # another call deleted it between the two requests

        return await read_whole(self._versions.deadline_s, copy)

    @operation
    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """Return the numbers of all versions, ascending. Takes 1 listing of names."""
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        return await self._versions.numbers(key)

    @operation
    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """Return all versions as :class:`StoredArtifactVersion`, ascending. Takes 1 listing."""
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        infos = await self._versions.infos(key, hashes=True)
        return [describe(self._objects, stored) for _, stored in sorted(infos.items())]

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
        """Return the metadata of a version, by default the latest; ``None`` if absent.

        Takes 1 request, or 2 at the same time for the latest that this process knows.
        """
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        stored = await self._versions.find(key, version)
        return None if stored is None else describe(self._objects, stored)

    async def close(self) -> None:
        """Wait for running requests, then close the service's own connections and threads."""
        await self._objects.close()

    async def _copy(
        self, stored: StoredObject, target: ArtifactKey, session: str | None, expires_after: timedelta | None
    ) -> int:
        if stored.file_uri is not None and stored.file_uri.startswith(REFERENCE_SCHEME):
            ArtifactReference.parse(stored.file_uri, within=reference_scope(target, session))
        save_id = machine.random_bytes(16).hex()
        fields = encode_copy(
            stored, save_id=save_id, custom_time=custom_time(expires_after), storage_class=self._storage_class
        )
        return await self._versions.save(
            target, lambda name: self._objects.copy(stored, name, fields), save_id=save_id
        )

    async def _delete_below(self, prefix: str, scope: ArtifactScope, *, dry_run: bool) -> list[str]:
        infos = await self._objects.infos(prefix, delimiter=None)
        names = {stored.name: stored for stored in infos}
        found = sorted(filenames(names, prefix))
        if not dry_run:
            versions = (stored for name, stored in names.items() if filenames([name], prefix))
            try:
                await self._versions.delete(versions)
            finally:
                self._versions.forget_scope(scope)
        return found
