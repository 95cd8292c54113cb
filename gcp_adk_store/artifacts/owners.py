"""Handle all artifacts of a session or of a user, for forks, restores and erasures."""

import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Self

from google.adk.artifacts import BaseArtifactService

from gcp_adk_store.artifacts.versions import ArtifactVersions, is_tombstone
from gcp_adk_store.codec.names import (
    filenames,
    is_upload_name,
    object_name,
    parse_version,
    scope_prefix,
    uploads_prefix,
    user_prefix,
    version_of,
)
from gcp_adk_store.codec.objects import (
    ENCRYPTED_BYTES,
    ObjectFields,
    ScannedObject,
    StoredObject,
    encode_artifact,
    encode_copy,
    following,
)
from gcp_adk_store.errors import InvalidInputError, SessionExistsError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.concurrency import both, gather
from gcp_adk_store.kernel.ports import ObjectExistsError, ObjectGoneError, Objects, Uploads
from gcp_adk_store.model.artifacts import REFERENCE_SCHEME, TOMBSTONE, ArtifactReference, ArtifactsAt
from gcp_adk_store.model.erasures import Erased
from gcp_adk_store.model.keys import ArtifactKey, ArtifactScope, SessionKey, UserKey
from gcp_adk_store.settings import ArtifactLimits

logger = logging.getLogger(__name__)

Which = Literal["at_point", "all", "none"]
"""The artifacts that a fork takes over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactStorage:
    """Where artifacts are stored, for what concerns several services of one store."""

    objects: Objects
    uploads: Uploads
    versions: ArtifactVersions
    limits: ArtifactLimits
    storage_class: str | None
    """The class of new versions; ``None`` for that of the bucket."""
    encrypts: bool
    """Whether *objects* and *uploads* encrypt what they are given."""


class SessionArtifacts:
    """Takes the artifacts of sessions along. Artifacts of the user stay with the user."""

    def __init__(self, storage: ArtifactStorage, which: Which = "at_point") -> None:
        """Prepare; *which* are the artifacts that forks copy."""
        self._storage = storage
        self._objects = storage.objects
        self._which = which

    async def choose(
        self, source: SessionKey, target: SessionKey, past: ArtifactsAt
    ) -> Sequence[StoredObject]:
        """Look up what a fork copies, in 2 listings.

        Raises:
            SessionExistsError: the id of the fork has artifacts already; the message says what to do.
            InvalidInputError: ADK refuses artifacts under the ids of the fork.
        """
        begin, end = scope_of(source), scope_of(target)
        if begin is None:
            return []
        if end is None:
            found = await self._all(begin)
        else:
            found, there = await both(self._all(begin), self._all(end))
            if there:
                raise _taken()
        if self._which == "at_point":
            files = _by_file(found, scope_prefix(begin))
            latest = {filename: _latest_at(past, filename, versions) for filename, versions in files.items()}
            found = [one for one in found if _is_there(_place(one, begin), latest)]
        if found and end is None:
            _any_of(target).require_savable()
        return found

    async def copy(
        self, chosen: Sequence[StoredObject], source: SessionKey, target: SessionKey, epoch: str
    ) -> None:
        """Copy what was chosen, 1 request each, in parallel; *epoch* is the id of their save.

        A version that is deleted meanwhile is left out.

        Raises:
            SessionExistsError: another call saves artifacts under the id of the fork.
            InvalidInputError: the name of an object would exceed 1,024 bytes.
        """
        begin, end = scope_of(source), scope_of(target)
        if begin is None or end is None:
            return
        copied = partial(self._copy, begin, end, epoch)
        # Of two forks to one id, the first copy decides: the names are in order.
        first, *others = chosen
        await copied(first)
        await gather(copied(stored) for stored in others)

    async def _copy(
        self, source: ArtifactScope, target: ArtifactScope, epoch: str, stored: StoredObject
    ) -> None:
        filename, version = _place(stored, source)
        fields = fields_of_copy(
            _referring(stored, source, target), self._storage, save_id=epoch, follows=stored.follows
        )
        try:
            await self._objects.copy(
                stored, object_name(ArtifactKey(scope=target, filename=filename), version), fields
            )
        except ObjectExistsError as exists:
            if exists.found.save_id != epoch:
                raise _taken() from exists
        except ObjectGoneError:
            pass

    async def remove_copies(self, target: SessionKey, epoch: str) -> None:
        """Remove what the fork of *epoch* copied; harmless when repeated.

        Takes 1 listing, and 1 request a version, in parallel.
        """
        scope = scope_of(target)
        if scope is not None:
            found = await self._objects.infos(scope_prefix(scope), delimiter=None)
            await gather(
                self._objects.delete(stored.name, generation=stored.generation)
                for stored in found
                if stored.save_id == epoch
            )

    async def put_back(
        self, key: SessionKey, *, at: ArtifactsAt, restored_at: float, restore_id: str
    ) -> dict[str, int]:
        """Give each file of a session that changed after a point a new version as it was at the point.

        The new version is a copy of the version that was the latest at the point; the bytes stay within
        Cloud Storage, unless the store encrypts artifacts. A file that did not exist at the point, or whose
        version is gone, gets a tombstone: an empty version, which loads as ``None``, as after ADK's rewind.
        So all versions stay, under their numbers. The custom time of a version is not copied, nor is custom
        metadata of another writer that leaves no room for the id of the save.

        Takes 1 listing of the session, and for each such file 1 listing and 1 request. Repeating it with the
        same *restore_id* changes nothing more.

        Args:
            key: The session.
            at: Which versions were the latest at the point.
            restored_at: Unix time of the restore, in seconds. A file that was saved later is left alone.
            restore_id: Identifies the restore.

        Returns:
            The files that got a new version, and its number.

        Raises:
            ArtifactConflictError, OutcomeUnknownError: as for ``save_artifact``; call it again.
        """
        scope = scope_of(key)
        if scope is None:
            return {}
        restore = _Restore(storage=self._storage, at=at, restored_at=restored_at, restore_id=restore_id)
        return await restore.put_back_all(scope)

    async def _all(self, scope: ArtifactScope) -> list[StoredObject]:
        prefix = scope_prefix(scope)
        infos = await self._objects.infos(prefix, delimiter=None)
        return [stored for stored in infos if filenames([stored.name], prefix)]


def _referring(stored: StoredObject, source: ArtifactScope, target: ArtifactScope) -> StoredObject:
    """Return *stored*, with the fork's artifact as its reference if it refers to one of its session.

    The URI of an artifact of the user may name the session, too: it does not any more.
    """
    uri = stored.file_uri
    if uri is None or not uri.startswith(REFERENCE_SCHEME):
        return stored
    try:
        reference = ArtifactReference.parse(uri, within=source)
    except InvalidInputError:
        return stored  # loading it is refused here and there
    moved = reference.key if reference.key.scope != source else replace(reference.key, scope=target)
    return stored.referring(str(ArtifactReference(moved, reference.version)))


class UserObjects:
    """The artifacts of one user of an app, in all sessions, and the uploads for them."""

    def __init__(self, storage: ArtifactStorage, scope: ArtifactScope) -> None:
        self._objects = storage.objects
        self._versions = storage.versions
        self._scope = scope
        self._counted: set[str] = set()

    @classmethod
    def of_user(cls, storage: ArtifactStorage, key: UserKey) -> Self | None:
        """Return the artifacts of a user; ``None`` for ids that no artifact can have."""
        try:
            return cls(storage, ArtifactScope(app=key.app, user=key.user, session=None))
        except InvalidInputError:
            return None

    async def find(self, stage: str) -> AsyncIterator[tuple[Sequence[ScannedObject], dict[str, Erased]]]:
        """Yield objects, a page at a time, and what they are.

        Args:
            stage: ``artifacts`` or ``uploads``.
        """
        if stage == "uploads":
            async for page in self._objects.scan(uploads_prefix(self._scope)):
                mine = [found for found in page if is_upload_name(found.name)]
                if mine:
                    yield mine, {"uploads": _sum(mine)}
            return
        prefix = user_prefix(self._scope)
        async for page in self._objects.scan(prefix):
            versions = [(names, found) for found in page if (names := filenames([found.name], prefix))]
            if versions:
                new = set().union(*(names for names, _ in versions)) - self._counted
                self._counted |= new
                mine = [found for _, found in versions]
                yield mine, {"artifacts": Erased(len(new)), "versions": _sum(mine)}

    async def remove(self, objects: Sequence[ScannedObject]) -> None:
        """Remove objects of any generation, in parallel; harmless when repeated."""
        try:
            await gather(self._objects.delete(each.name, generation=None) for each in objects)
        finally:
            self._versions.forget_scope(self._scope)


def _sum(found: Sequence[ScannedObject]) -> Erased:
    return Erased(len(found), sum(each.size for each in found))


def fields_of_copy(
    stored: StoredObject, storage: ArtifactStorage, *, save_id: str, follows: int | None
) -> ObjectFields:
    """Return the properties of a copy, without custom metadata that leaves no room for the save's id.

    Only another writer's object has such metadata, or one from before the store encrypted artifacts.
    """
    encode = partial(
        encode_copy,
        save_id=save_id,
        storage_class=storage.storage_class,
        follows=follows,
        room=ENCRYPTED_BYTES if storage.encrypts else 0,
    )
    try:
        return encode(stored)
    except InvalidInputError:
        logger.warning(
            "an artifact was copied without its metadata, which leaves no room for the id of the save",
            extra=telemetry.log_fields(),
        )
        return encode(stored.bare())


async def names_for(service: BaseArtifactService, **ids: Any) -> list[str]:
    """Return the artifacts that a session sees; where no artifact can have its id, those of its user.

    Raises:
        InvalidInputError: no artifact can have the id of the app or the user.
    """
    try:
        return await service.list_artifact_keys(**ids)
    except InvalidInputError:
        return await service.list_artifact_keys(**{**ids, "session_id": None})


def scope_of(key: SessionKey) -> ArtifactScope | None:
    """Return where a session's own artifacts are; ``None`` if ADK refuses artifacts for its ids."""
    try:
        some = _any_of(key)
        some.require_savable()
    except InvalidInputError:
        return None
    return some.scope


def _any_of(key: SessionKey) -> ArtifactKey:
    return ArtifactKey.of(app=key.app, user=key.user, session=key.session, filename="any")


def _place(stored: StoredObject, scope: ArtifactScope) -> tuple[str, int]:
    """Return the filename and the version of an artifact of *scope*."""
    return stored.name.removeprefix(scope_prefix(scope)).rpartition("/")[0], version_of(stored.name)


def _is_there(place: tuple[str, int], latest: Mapping[str, int | None]) -> bool:
    """Return whether a version is not after the latest one at the point."""
    filename, version = place
    newest = latest[filename]
    return newest is not None and version <= newest


def _taken() -> SessionExistsError:
    return SessionExistsError(
        "artifacts of an earlier session, or of a fork that is not complete, have this id; fork to another "
        "id, or remove them first: delete_session_artifacts"
    )


class _LaterVersionError(Exception):
    """Another writer saved a version after the restore."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Restore:
    """Takes the files of a session back to a point, once however often it is repeated.

    The first version after the restore, its own or another writer's, is marked with the version that it
    follows. So what lies between is never taken for a version of a later point.
    """

    storage: ArtifactStorage
    at: ArtifactsAt
    restored_at: float
    """Unix time in seconds."""
    restore_id: str

    async def put_back_all(self, scope: ArtifactScope) -> dict[str, int]:
        """Return the files that got a new version, and its number."""
        prefix = scope_prefix(scope)
        files = _by_file(await self.storage.objects.infos(prefix, delimiter=None), prefix)
        saved = await gather(
            self._put_back(ArtifactKey(scope=scope, filename=filename), versions)
            for filename, versions in files.items()
        )
        return {
            filename: version for filename, version in zip(files, saved, strict=True) if version is not None
        }

    async def _put_back(self, key: ArtifactKey, versions: Mapping[int, StoredObject]) -> int | None:
        later = self._later(versions)
        before = {number: stored for number, stored in versions.items() if number not in later}
        if not before:
            return None
        number = _latest_at(self.at, key.filename, before)
        source = None if number is None else before.get(number)
        latest = before[max(before)]
        if source is latest or (source is None and is_tombstone(latest)):
            return None
        if number is not None and source is None:
            logger.warning(
                "a version that was the latest at the point of a restore is gone",
                extra=telemetry.log_fields(),
            )
        follows = -1 if source is None or number is None else number
        if later:
            first = versions[later[0]]
            if first.follows is None:
                await self._mark(first, follows)
            return None
        try:
            return await self._save(key, source, follows)
        except _LaterVersionError:
            return await self._put_back(key, await self.storage.versions.infos(key))

    async def _mark(self, first: StoredObject, follows: int) -> None:
        try:
            await self.storage.objects.mark(first.name, following(follows))
        except InvalidInputError:
            logger.warning(
                "the metadata of an artifact has no room for the note of a restore before it",
                extra=telemetry.log_fields(),
            )

    async def _save(self, key: ArtifactKey, source: StoredObject | None, follows: int) -> int:
        """Save a copy of *source*, or a tombstone, as the first version after the restore."""

        def require_first(found: Mapping[int, StoredObject]) -> None:
            if self._later(found):
                raise _LaterVersionError

        save = partial(
            self.storage.versions.save, key, save_id=self.restore_id, again=True, saw=require_first
        )
        if source is not None:
            fields = fields_of_copy(source, self.storage, save_id=self.restore_id, follows=follows)
            try:
                return await save(lambda name: self.storage.objects.copy(source, name, fields))
            except ObjectGoneError:  # another call deleted it
                pass
        tombstone = encode_artifact(
            TOMBSTONE, custom_metadata=None, save_id=self.restore_id, storage_class=self.storage.storage_class
        )
        marked = replace(tombstone, metadata={**tombstone.metadata, **following(follows)})
        return await save(lambda name: self.storage.objects.create(name, marked))

    def _later(self, versions: Mapping[int, StoredObject]) -> list[int]:
        return [number for number in sorted(versions) if versions[number].create_time > self.restored_at]


def _latest_at(past: ArtifactsAt, filename: str, versions: Mapping[int, StoredObject]) -> int | None:
    """Return the version of a file that was the latest at a point."""
    return past.version(
        filename,
        {number: stored.create_time for number, stored in versions.items()},
        {number: stored.follows for number, stored in versions.items() if stored.follows is not None},
    )


def _by_file(found: Iterable[StoredObject], prefix: str) -> Mapping[str, dict[int, StoredObject]]:
    """Return the versions of each file of a session, by number."""
    files: dict[str, dict[int, StoredObject]] = {}
    for stored in found:
        filename, _, suffix = stored.name.removeprefix(prefix).rpartition("/")
        number = parse_version(suffix, "")
        if filename and number is not None:
            files.setdefault(filename, {})[number] = stored
    return files
