"""Copy versions of artifacts, for forks, copies and restores."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Literal

from gcp_adk_store.artifacts.versions import ArtifactVersions, is_tombstone
from gcp_adk_store.codec.names import filenames, object_name, parse_version, scope_prefix, version_of
from gcp_adk_store.codec.objects import ObjectFields, StoredObject, encode_artifact, encode_copy
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
            saved: dict[str, dict[int, float]] = {}
            for stored in self._chosen:
                filename, version = _place(stored, self._source)
                saved.setdefault(filename, {})[version] = stored.create_time
            latest = {filename: past.version(filename, times) for filename, times in saved.items()}
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
        fields = fields_of_copy(self._referring(stored), save_id=epoch, storage_class=self._storage_class)
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


def fields_of_copy(stored: StoredObject, *, save_id: str, storage_class: str | None) -> ObjectFields:
    """Return the properties of a copy, without custom metadata that leaves no room for the save's id.

    Only another writer's object has such metadata.
    """
    try:
        return encode_copy(stored, save_id=save_id, storage_class=storage_class)
    except InvalidInputError:
        logger.warning(
            "an artifact was copied without its metadata, which leaves no room for the id of the save",
            extra=telemetry.log_fields(),
        )
        return encode_copy(stored.bare(), save_id=save_id, storage_class=storage_class)


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


async def restore_artifacts(
    objects: Objects,
    versions_of: ArtifactVersions,
    scope: ArtifactScope,
    *,
    at: ArtifactsAt,
    restored_at: float,
    restore_id: str,
    storage_class: str | None,
) -> dict[str, int]:
    """Take the artifacts of a session back, as the service's ``restore_session_artifacts``."""
    # Refuses a session id under which the user's own artifacts are stored.
    ArtifactKey(scope=scope, filename="any").require_savable()
    prefix = scope_prefix(scope)
    changed: list[tuple[ArtifactKey, StoredObject | None]] = []
    for filename, versions in _by_file(await objects.infos(prefix, delimiter=None), prefix).items():
        latest = versions[max(versions)]
        if latest.create_time > restored_at:
            continue  # saved after the restore, perhaps by an earlier call of this
        number = at.version(filename, {each: stored.create_time for each, stored in versions.items()})
        source = None if number is None else versions.get(number)
        if number is not None and source is None:
            logger.warning(
                "a version that was the latest at the point of a restore is gone",
                extra=telemetry.log_fields(),
            )
        if source is not latest and not (source is None and is_tombstone(latest)):
            changed.append((ArtifactKey(scope=scope, filename=filename), source))

    async def put_back(key: ArtifactKey, source: StoredObject | None) -> int:
        """Save a copy of *source*, or a tombstone, once for each restore."""
        save = partial(versions_of.save, key, save_id=restore_id, again=True)
        if source is not None:
            fields = fields_of_copy(source, save_id=restore_id, storage_class=storage_class)
            try:
                return await save(lambda name: objects.copy(source, name, fields))
            except ObjectGoneError:  # another call deleted it
                pass
        tombstone = encode_artifact(
            TOMBSTONE, custom_metadata=None, save_id=restore_id, storage_class=storage_class
        )
        return await save(lambda name: objects.create(name, tombstone))

    saved = await gather(put_back(key, source) for key, source in changed)
    return {key.filename: version for (key, _), version in zip(changed, saved, strict=True)}


def _by_file(found: Iterable[StoredObject], prefix: str) -> Mapping[str, dict[int, StoredObject]]:
    """Return the versions of each file of a session, by number."""
    files: dict[str, dict[int, StoredObject]] = {}
    for stored in found:
        filename, _, suffix = stored.name.removeprefix(prefix).rpartition("/")
        number = parse_version(suffix, "")
        if filename and number is not None:
            files.setdefault(filename, {})[number] = stored
    return files
