"""Keep ADK artifacts in Cloud Storage: each version one object, made exactly once."""

import secrets
import threading
import time
from collections import OrderedDict
from typing import Any

from google.adk.artifacts import BaseArtifactService
from google.adk.artifacts.base_artifact_service import ArtifactVersion, ensure_part
from google.auth.credentials import Credentials
from google.genai import types

from gcp_adk_store.backends.gcs import Objects, StorageClient
from gcp_adk_store.backends.translate import ConditionFailedError
from gcp_adk_store.codec.objects import (
    StoredObject,
    Upload,
    decode_artifact,
    decode_file,
    encode_artifact,
    filenames,
    object_name,
    parse_version,
    scope_prefix,
    version_prefix,
)
from gcp_adk_store.errors import ArtifactConflictError, InvalidInputError
from gcp_adk_store.fan_out import beside, fan_out
from gcp_adk_store.model.artifacts import (
    MAX_REFERENCE_HOPS,
    REFERENCE_SCHEME,
    ArtifactReference,
    next_version,
)
from gcp_adk_store.model.keys import ArtifactKey, ArtifactScope
from gcp_adk_store.reported import reported
from gcp_adk_store.settings import ArtifactLimits, StoreSettings
from gcp_adk_store.turns import Turns


class GcsArtifactService(BaseArtifactService):
    """ADK's artifact service on Cloud Storage, for any number of processes, threads and event loops.

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
        credentials: Credentials | None = None,
        limits: ArtifactLimits | None = None,
    ) -> None:
        """Prepare the service; nothing is contacted before the first call.

        Args:
            bucket_name: The bucket, which must exist.
            project: Google Cloud project to act in; by default that of the environment.
            client: A ``google.cloud.storage.Client`` to borrow; it stays open on :meth:`close`.
            credentials: By default those of the environment.
            limits: Bounds and deadlines.

        Raises:
            InvalidInputError: *bucket_name* cannot be a bucket's name.
        """
        StoreSettings(bucket=bucket_name)  # refuses what cannot be a bucket's name
        self._limits = limits or ArtifactLimits()
        self._objects = Objects(
            bucket_name, project=project, client=client, credentials=credentials, limits=self._limits
        )
        self._latest = _LatestVersions(self._limits)
        self._turns = Turns()

    @property
    def bucket_name(self) -> str:
        """The bucket that the artifacts are kept in."""
        return self._objects.bucket

    @reported
    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        """Save a new version and return its number: 0, then one more than the highest.

        1 request where this process saved the artifact before, else 2. *custom_metadata* keeps its JSON
        types.

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
        upload = encode_artifact(part, custom_metadata=custom_metadata, save_id=save_id)
        async with self._turns.turn(key):  # the savers of one process do not compete with each other
            return await self._save(key, upload, save_id, what=f"save_artifact {key}")

    @reported
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
            found = await self._load(key, version, what=f"load_artifact {key}")
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
        raise InvalidInputError(
            f"Exceeded maximum recursion depth resolving artifact reference: {uri}",
        )

    @reported
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
        what = f"list_artifact_keys app={app_name!r} user={user_id!r} session={session_id!r}"
        prefixes = [scope_prefix(scope) for scope in scopes]
        listings = await fan_out(
            self._objects.names(prefix, delimiter=None, what=what) for prefix in prefixes
        )
        found = (filenames(names, prefix) for names, prefix in zip(listings, prefixes, strict=True))
        return sorted(set().union(*found))

    @reported
    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Remove the versions that there are, in parallel; one that is saved meanwhile stays."""
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        what = f"delete_artifact {key}"
        async with self._turns.turn(key):
            infos = await self._infos(key, what=what)
            self._latest.forget(key)
            await fan_out(
                self._objects.delete(stored.name, generation=stored.generation, what=what)
                for stored in infos.values()
            )

    @reported
    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """Return the numbers of all versions, ascending; 1 listing of names."""
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        return await self._versions(key, what=f"list_versions {key}")

    @reported
    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """Return all versions with their metadata, ascending; 1 listing."""
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        infos = await self._infos(key, what=f"list_artifact_versions {key}")
        return [self._describe(version, stored) for version, stored in sorted(infos.items())]

    @reported
    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        """Return the metadata of a version, by default the latest; ``None`` if absent. 1 request."""
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        what = f"get_artifact_version {key}"
        if version is None:
            infos = await self._infos(key, what=what)
            return self._describe(max(infos), infos[max(infos)]) if infos else None
        stored = await self._objects.info(object_name(key, version), what=what) if version >= 0 else None
        return None if stored is None else self._describe(version, stored)

    async def close(self) -> None:
        """Let running requests finish, then close own connections and threads."""
        await self._objects.close()

    async def _save(self, key: ArtifactKey, upload: Upload, save_id: str, *, what: str) -> int:
        version = self._latest.get(key)
        version = next_version(await self._versions(key, what=what)) if version is None else version + 1
        for _ in range(self._limits.save_attempts):
            name = object_name(key, version)
            try:
                await self._objects.create(name, upload, what=what)
            except ConditionFailedError:
                winner = await self._objects.info(name, what=what)
                if winner is None or winner.save_id != save_id:
                    version = next_version([version, *await self._versions(key, what=what)])
                    continue
                # Our own object: only its answer was lost.
            self._latest.put(key, version)
            return version
        raise ArtifactConflictError(
            f"{what}: {self._limits.save_attempts} version numbers were taken by other writers; save again"
        )

    async def _versions(self, key: ArtifactKey, *, what: str) -> list[int]:
        prefix = version_prefix(key)
        names = await self._objects.names(prefix, delimiter="/", what=what)
        return sorted(number for name in names if (number := parse_version(name, prefix)) is not None)

    async def _infos(self, key: ArtifactKey, *, what: str) -> dict[int, StoredObject]:
        prefix = version_prefix(key)
        infos = await self._objects.infos(prefix, delimiter="/", what=what)
        return {
            number: stored for stored in infos if (number := parse_version(stored.name, prefix)) is not None
        }

    async def _load(
        self, key: ArtifactKey, version: int | None, *, what: str
    ) -> tuple[StoredObject, bytes] | None:
        if version is not None:
            return await self._load_version(object_name(key, version), what=what) if version >= 0 else None
        while True:
            infos = await self._infos(key, what=what)
            if not infos:
                return None
            stored = infos[max(infos)]
            if stored.file_uri is not None:
                return stored, b""
            read = await self._objects.read(stored.name, generation=stored.generation, what=what)
            if read is not None:
                return stored, read[0]
            # Deleted between the two requests: look again at what is the latest now.

    async def _load_version(self, name: str, *, what: str) -> tuple[StoredObject, bytes] | None:
        while True:
            stored, read = await beside(
                self._objects.info(name, what=what), self._objects.read(name, generation=None, what=what)
            )
            if stored is None or read is None:
                return None
            data, generation = read
            if generation == stored.generation:
                return stored, data
            # Deleted and saved anew between the two requests: neither half fits the other.

    def _describe(self, version: int, stored: StoredObject) -> ArtifactVersion:
        return ArtifactVersion(
            version=version,
            canonical_uri=f"gs://{self.bucket_name}/{stored.name}",
            custom_metadata=stored.custom_metadata,
            create_time=stored.create_time,
            mime_type=stored.content_type,
        )


class _LatestVersions:
    """The latest version of each artifact that this process saved lately: where the next save starts.

    Only a hint: a number that is taken meanwhile is refused by Cloud Storage. It ages, because a number
    that is free may be no longer the next one where others delete.
    """

    def __init__(self, limits: ArtifactLimits) -> None:
        self._capacity = limits.known_versions
        self._lifetime_s = limits.known_for_s
        self._versions: OrderedDict[ArtifactKey, tuple[int, float]] = OrderedDict()
        self._guard = threading.Lock()

    def get(self, key: ArtifactKey) -> int | None:
        with self._guard:
            version, known_at = self._versions.get(key, (None, 0.0))
            return version if time.monotonic() - known_at < self._lifetime_s else None

    def put(self, key: ArtifactKey, version: int) -> None:
        with self._guard:
            self._versions[key] = (version, time.monotonic())
            self._versions.move_to_end(key)
            if len(self._versions) > self._capacity:
                self._versions.popitem(last=False)

    def forget(self, key: ArtifactKey) -> None:
        with self._guard:
            self._versions.pop(key, None)


def _within(key: ArtifactKey, session: str | None) -> ArtifactScope:
    """Return the scope that references may lead to: the caller's session, even from a user's artifact."""
    return ArtifactScope(app=key.scope.app, user=key.scope.user, session=session)
