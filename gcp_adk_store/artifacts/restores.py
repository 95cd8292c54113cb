"""Make the versions that were the latest at a point of a session the latest again."""

import logging
from collections.abc import Iterable, Mapping
from functools import partial

from gcp_adk_store.artifacts.copies import fields_of_copy
from gcp_adk_store.artifacts.methods import ArtifactMethods, is_tombstone
from gcp_adk_store.codec.object_names import parse_version, scope_prefix
from gcp_adk_store.codec.objects import StoredObject, encode_artifact
from gcp_adk_store.model.artifact_points import ArtifactsAt
from gcp_adk_store.model.artifacts import TOMBSTONE
from gcp_adk_store.model.keys import ArtifactKey, ArtifactScope
from gcp_adk_store.operations import telemetry
from gcp_adk_store.operations.bounds import operation
from gcp_adk_store.operations.fan_out import fan_out
from gcp_adk_store.ports.refusals import ObjectGoneError

logger = logging.getLogger(__name__)


class RestoreMethods(ArtifactMethods):
    """The method of the artifact service that takes the artifacts of a session back."""

    @operation
    async def restore_session_artifacts(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        at: ArtifactsAt,
        restored_at: float,
        restore_id: str,
    ) -> dict[str, int]:
        """Give each file of a session that changed after a point a new version as it was at the point.

        ``Store.restore_session`` calls it. The new version is a copy of the version that was the latest at
        the point; the bytes stay within Cloud Storage, unless the store encrypts artifacts. A file that did
        not exist at the point, or whose version is gone, gets a tombstone: an empty version, which loads as
        ``None``, as after ADK's rewind. So all versions stay, under their numbers. The custom time of a
        version is not copied, nor is custom metadata of another writer that leaves no room for the id of the
        save.

        Takes 1 listing of the session, and for each such file 1 listing and 1 request. Repeating it with the
        same *restore_id* changes nothing more.

        Args:
            app_name: The app.
            user_id: The user.
            session_id: The session.
            at: What tells which versions were the latest at the point.
            restored_at: Unix time of the restore, in seconds. A file that was saved later is left alone.
            restore_id: Identifies the restore.

        Returns:
            The files that got a new version, and its number.

        Raises:
            ArtifactConflictError, OutcomeUnknownError: as for ``save_artifact``; call it again.
        """
        scope = ArtifactScope(app=app_name, user=user_id, session=session_id)
        # Refuses a session id under which the user's own artifacts are stored.
        ArtifactKey(scope=scope, filename="any").require_savable()
        prefix = scope_prefix(scope)
        changed: list[tuple[ArtifactKey, StoredObject | None]] = []
        for filename, versions in _by_file(await self._objects.infos(prefix, delimiter=None), prefix).items():
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
        saved = await fan_out(self._put_back(key, source, restore_id) for key, source in changed)
        return {key.filename: version for (key, _), version in zip(changed, saved, strict=True)}

    async def _put_back(self, key: ArtifactKey, source: StoredObject | None, restore_id: str) -> int:
        """Save a copy of *source*, or a tombstone, once for each restore."""
        save = partial(self._versions.save, key, save_id=restore_id, again=True)
        if source is not None:
            fields = fields_of_copy(source, save_id=restore_id, storage_class=self._storage_class)
            try:
                return await save(lambda name: self._objects.copy(source, name, fields))
            except ObjectGoneError:  # another call deleted it
                pass
        tombstone = encode_artifact(
            TOMBSTONE, custom_metadata=None, save_id=restore_id, storage_class=self._storage_class
        )
        return await save(lambda name: self._objects.create(name, tombstone))


def _by_file(found: Iterable[StoredObject], prefix: str) -> Mapping[str, dict[int, StoredObject]]:
    """Return the versions of each file of a session, by number."""
    files: dict[str, dict[int, StoredObject]] = {}
    for stored in found:
        filename, _, suffix = stored.name.removeprefix(prefix).rpartition("/")
        number = parse_version(suffix, "")
        if filename and number is not None:
            files.setdefault(filename, {})[number] = stored
    return files
