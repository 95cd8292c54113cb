"""Make the versions that were the latest at a point of a session the latest again."""

import logging
from collections.abc import Iterable, Mapping
from functools import partial

from gcp_adk_store.artifacts.copies import fields_of_copy
from gcp_adk_store.artifacts.descriptions import is_tombstone
from gcp_adk_store.artifacts.versions import ArtifactVersions
from gcp_adk_store.codec.names import parse_version, scope_prefix
from gcp_adk_store.codec.objects import StoredObject, encode_artifact
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.concurrency import fan_out
from gcp_adk_store.kernel.ports import ObjectGoneError, Objects
from gcp_adk_store.model.artifacts import TOMBSTONE, ArtifactsAt
from gcp_adk_store.model.keys import ArtifactKey, ArtifactScope

logger = logging.getLogger(__name__)


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

    saved = await fan_out(put_back(key, source) for key, source in changed)
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
