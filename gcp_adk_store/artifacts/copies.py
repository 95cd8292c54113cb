"""Copy versions of artifacts, for forks, copies and restores."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from gcp_adk_store.artifacts.versions import ArtifactVersions, is_tombstone
from gcp_adk_store.codec.names import filenames, object_name, parse_version, scope_prefix, version_of
from gcp_adk_store.codec.objects import ObjectFields, StoredObject, encode_artifact, encode_copy, following
from gcp_adk_store.errors import InvalidInputError, SessionExistsError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.concurrency import both, gather
from gcp_adk_store.kernel.ports import ObjectExistsError, ObjectGoneError, Objects
from gcp_adk_store.model.artifacts import REFERENCE_SCHEME, TOMBSTONE, ArtifactReference, ArtifactsAt
from gcp_adk_store.model.keys import ArtifactKey, ArtifactScope, SessionKey

logger = logging.getLogger(__name__)

Which = Literal["at_point", "all", "none"]
"""The artifacts that a fork takes over."""

WHICH: Final = ("at_point", "all", "none")


class SessionCopies:
    """The artifacts of a session that a fork takes over. Artifacts of the user stay with the user."""

    def __init__(
        self,
        objects: Objects,
        source: SessionKey,
        target: SessionKey,
        *,
        which: Which,
        storage_class: str | None,
    ) -> None:
        self._objects = objects
        self._source, self._target = scope_of(source), scope_of(target)
        self._key = target
        self._which = which
        self._storage_class = storage_class
        self._chosen: Sequence[StoredObject] = ()

    async def choose(self, past: ArtifactsAt | None) -> bool:
        """Look up what to copy, in 2 listings, and return whether there is anything.

        Raises:
            SessionExistsError: the fork's id has artifacts already; the message says what to do.
            InvalidInputError: ADK refuses artifacts under the fork's ids.
        """
        if self._source is None:
            return False
        if self._target is None:
            self._chosen = await self._all(self._source)
        else:
            self._chosen, there = await both(self._all(self._source), self._all(self._target))
            if there:
                raise _taken()
        if self._which == "at_point" and past is not None:
            files = _by_file(self._chosen, scope_prefix(self._source))
            latest = {filename: _latest_at(past, filename, versions) for filename, versions in files.items()}
            self._chosen = [one for one in self._chosen if _is_there(_place(one, self._source), latest)]
        if self._chosen and self._target is None:
            ArtifactKey.of(
                app=self._key.app, user=self._key.user, session=self._key.session, filename="any"
            ).require_savable()
        return bool(self._chosen)

    async def copy(self, epoch: str) -> None:
        """Copy what was chosen, 1 request each, in parallel; *epoch* is the id of their save.

        A version that is deleted meanwhile is left out.

        Raises:
            SessionExistsError: another call saves artifacts under the fork's id.
            InvalidInputError: an object's name would exceed 1,024 bytes.
        """
        # Of two forks to one id, the first copy decides: the names are in order.
        first, *others = self._chosen
        await self._copy(first, epoch)
        await gather(self._copy(stored, epoch) for stored in others)

    async def _copy(self, stored: StoredObject, epoch: str) -> None:
        if self._source is None or self._target is None:
            return
        filename, version = _place(stored, self._source)
        fields = fields_of_copy(
            self._referring(stored),
            save_id=epoch,
            storage_class=self._storage_class,
            follows=stored.follows,
        )
        name = object_name(ArtifactKey(scope=self._target, filename=filename), version)
        try:
            await self._objects.copy(stored, name, fields)
        except ObjectExistsError as exists:
            if exists.found.save_id != epoch:
                raise _taken() from exists
        except ObjectGoneError:
            pass

    def _referring(self, stored: StoredObject) -> StoredObject:
        """Return *stored*, with the fork's artifact as its reference if it refers to one of its session."""
        uri = stored.file_uri
        if (
            uri is None
            or not uri.startswith(REFERENCE_SCHEME)
            or self._source is None
            or self._target is None
        ):
            return stored
        try:
            reference = ArtifactReference.parse(uri, within=self._source)
        except InvalidInputError:
            return stored  # loading it is refused here and there
        if reference.key.scope != self._source:
            return stored
        moved = replace(reference.key, scope=self._target)
        return stored.referring(str(ArtifactReference(moved, reference.version)))

    async def remove(self, key: SessionKey, epoch: str) -> None:
        """Remove the copies of the fork of *epoch*; see :func:`remove_copies`."""
        await remove_copies(self._objects, key, epoch)

    async def _all(self, scope: ArtifactScope) -> list[StoredObject]:
        prefix = scope_prefix(scope)
        infos = await self._objects.infos(prefix, delimiter=None)
        return [stored for stored in infos if filenames([stored.name], prefix)]


async def remove_copies(objects: Objects, key: SessionKey, epoch: str) -> None:
    """Remove the artifacts that the fork of *epoch* copied to *key*; harmless when repeated.

    Takes 1 listing, and 1 request a version, in parallel.
    """
    scope = scope_of(key)
    if scope is not None:
        found = await objects.infos(scope_prefix(scope), delimiter=None)
        await gather(
            objects.delete(stored.name, generation=stored.generation)
            for stored in found
            if stored.save_id == epoch
        )


def fields_of_copy(
    stored: StoredObject, *, save_id: str, storage_class: str | None, follows: int | None
) -> ObjectFields:
    """Return the properties of a copy, without custom metadata that leaves no room for the save's id.

    Only another writer's object has such metadata.
    """
    try:
        return encode_copy(stored, save_id=save_id, storage_class=storage_class, follows=follows)
    except InvalidInputError:
        logger.warning(
            "an artifact was copied without its metadata, which leaves no room for the id of the save",
            extra=telemetry.log_fields(),
        )
        return encode_copy(stored.bare(), save_id=save_id, storage_class=storage_class, follows=follows)


def scope_of(key: SessionKey) -> ArtifactScope | None:
    """Return where a session's own artifacts are; ``None`` if ADK refuses artifacts for its ids."""
    try:
        scope = ArtifactScope(app=key.app, user=key.user, session=key.session)
        ArtifactKey(scope=scope, filename="any").require_savable()
    except InvalidInputError:
        return None
    return scope


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
class ArtifactRestore:
    """Takes the files of a session back to a point, once however often it is repeated.

    The first version after the restore, its own or another writer's, is marked with the version that it
    follows. So what lies between is never taken for a version of a later point.
    """

    objects: Objects
    versions: ArtifactVersions
    at: ArtifactsAt
    restored_at: float
    """Unix time in seconds."""
    restore_id: str
    storage_class: str | None

    async def put_back_all(self, scope: ArtifactScope) -> dict[str, int]:
        """Return the files that got a new version, and its number.

        It takes 1 listing, and for each such file 1 listing and 1 request.
        """
        # Refuses a session id under which the user's own artifacts are stored.
        ArtifactKey(scope=scope, filename="any").require_savable()
        prefix = scope_prefix(scope)
        files = _by_file(await self.objects.infos(prefix, delimiter=None), prefix)
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
                await self.objects.mark(first.name, following(follows))
            return None
        try:
            return await self._save(key, source, follows)
        except _LaterVersionError:
            return await self._put_back(key, await self.versions.infos(key))

    async def _save(self, key: ArtifactKey, source: StoredObject | None, follows: int) -> int:
        """Save a copy of *source*, or a tombstone, as the first version after the restore."""

        def require_first(found: Mapping[int, StoredObject]) -> None:
            if self._later(found):
                raise _LaterVersionError

        save = partial(self.versions.save, key, save_id=self.restore_id, again=True, saw=require_first)
        if source is not None:
            fields = fields_of_copy(
                source, save_id=self.restore_id, storage_class=self.storage_class, follows=follows
            )
            try:
                return await save(lambda name: self.objects.copy(source, name, fields))
            except ObjectGoneError:  # another call deleted it
                pass
        tombstone = encode_artifact(
            TOMBSTONE, custom_metadata=None, save_id=self.restore_id, storage_class=self.storage_class
        )
        marked = replace(tombstone, metadata={**tombstone.metadata, **following(follows)})
        return await save(lambda name: self.objects.create(name, marked))

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
