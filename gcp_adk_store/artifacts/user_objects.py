"""Find and remove all objects of one user that are artifacts, or uploads for them."""

from collections.abc import AsyncIterator, Sequence

from gcp_adk_store.artifacts.versions import ArtifactVersions
from gcp_adk_store.codec.names import filenames, is_upload_name, uploads_prefix, user_prefix
from gcp_adk_store.codec.objects import ScannedObject
from gcp_adk_store.kernel.concurrency import fan_out
from gcp_adk_store.kernel.ports import Objects
from gcp_adk_store.model.erasures import Erased
from gcp_adk_store.model.keys import ArtifactScope


class UserObjects:
    """The artifacts of one user of an app, in all sessions, and the uploads for them."""

    def __init__(self, objects: Objects, versions: ArtifactVersions, scope: ArtifactScope) -> None:
        self._objects = objects
        self._versions = versions
        self._scope = scope
        self._counted: set[str] = set()

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
            await fan_out(self._objects.delete(each.name, generation=None) for each in objects)
        finally:
            self._versions.forget_scope(self._scope)


def _sum(found: Sequence[ScannedObject]) -> Erased:
    return Erased(len(found), sum(each.size for each in found))
